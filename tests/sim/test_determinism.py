"""The same seed gives the same bytes, whatever ran before, in however many steps; other seeds give others."""

from __future__ import annotations

import pickle
import random
from typing import Any

import numpy as np
import pytest

from softmrc.sim import run as run_module
from softmrc.sim.builder import Builder
from softmrc.sim.config import Clos, Fault, Mrc, Queues, Rocev2, Tcp, Transport
from softmrc.sim.run import Outcome, simulate

TRANSPORTS: list[Transport] = [
    Mrc(evs=16, backups=4),
    Mrc(evs=16, mode="ecmp", policy="oblivious"),
    Rocev2(),
    Rocev2(pfc=False, qps=2),
    Tcp(),
    Tcp(cc="dctcp"),
]
NAMES = ["mrc", "mrc-ecmp", "rocev2", "rocev2-lossy", "tcp", "dctcp"]
every_transport = pytest.mark.parametrize("transport", TRANSPORTS, ids=NAMES)


def story(transport: Transport, seed: int, **more: Any) -> Outcome:
    """Sixteen hosts, an incast, a lossy link, a flap: all that is drawn from the seed."""
    b = Builder()
    b.sends(list(range(16)), [(h + 5) % 16 for h in range(16)], 60_000)
    b.sends([1, 5, 9, 13], [0] * 4, 30_000, start=2_000)
    faults = [
        Fault(0, "link_loss", "p1.t0-0.t1-0", 0.02),
        Fault(4_000, "link_down", "p2.t0-1.t1-1"),
        Fault(9_000, "link_up", "p2.t0-1.t1-1"),
    ]
    fabric = Clos(hosts=16, planes=2, hosts_per_t0=4, t1_per_plane=4)
    queues = Queues(data_bytes=60_000, ecn_min=5_000, ecn_max=30_000)
    return simulate(
        fabric, b.build(16), transport, queues=queues, faults=faults, seed=seed, sample_ns=1_000,
        watch_links=["p1.t0-0.t1-0"], watch_flows=[0, 17], watch_hosts=[0],
        pcap_links=["h0.p1.up"], check=True, **more,
    )  # fmt: skip


def parts(o: Outcome) -> dict[str, Any]:
    """All that a run found, without wall time and memory."""
    return {
        "how": (o.stopped, o.sim_ns, o.totals),
        "tasks": o.tasks,
        "flows": o.flows,
        "links": o.links,
        "series": o.series,
        "events": o.ev_events,
        "pcap": o.pcap,
    }


def bytes_of(o: Outcome) -> bytes:
    def plain(x: Any) -> Any:
        if isinstance(x, dict):
            return {k: plain(v) for k, v in x.items()}
        if isinstance(x, np.ndarray):
            return (str(x.dtype), x.shape, x.tobytes())
        return repr(x)

    return pickle.dumps(plain(parts(o)))


@every_transport
def test_one_seed_one_result_to_the_byte(transport: Transport) -> None:
    first = bytes_of(story(transport, 7))
    assert bytes_of(story(transport, 7)) == first
    # Other runs in between, and other states of Python's and numpy's generators, change nothing.
    random.seed(1)
    np.random.default_rng(1)
    story(TRANSPORTS[0], 8)
    story(TRANSPORTS[4], 9)
    assert bytes_of(story(transport, 7)) == first


@every_transport
def test_seeds_differ(transport: Transport) -> None:
    results = {bytes_of(story(transport, seed)) for seed in range(1, 7)}
    assert len(results) == 6


def test_the_length_of_steps_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bytes_of(story(TRANSPORTS[0], 3))
    monkeypatch.setattr(run_module, "FIRST_BUDGET", 17)
    monkeypatch.setattr(run_module, "MIN_BUDGET", 1)
    monkeypatch.setattr(run_module, "MAX_BUDGET", 13)
    seen: list[int] = []
    assert bytes_of(story(TRANSPORTS[0], 3, progress=lambda p: seen.append(p.sim_ns))) == whole
    assert seen


def test_watching_does_not_change_what_is_watched() -> None:
    b = Builder()
    b.sends(list(range(16)), [(h + 5) % 16 for h in range(16)], 60_000)
    fabric, w = Clos(hosts=16, planes=2, hosts_per_t0=4, t1_per_plane=4), b.build(16)
    plain = simulate(fabric, w, TRANSPORTS[0], seed=4)
    watched = simulate(
        fabric, w, TRANSPORTS[0], seed=4, sample_ns=77, watch_links=["p1"], watch_flows=[0, 1], watch_hosts=[3],
        pcap_links=["p2"], check=True,
    )  # fmt: skip
    assert (plain.tasks["acked_ns"] == watched.tasks["acked_ns"]).all()
    assert (plain.flows["rtx"] == watched.flows["rtx"]).all()
    # A run ends with the window in which the last task did: what is on the way then may differ, nothing else.
    for name in (
        "data_packets",
        "data_packets_rtx",
        "ecn_marks",
        "trims",
        "trims_last_hop",
        "drops_queue",
        "ev_bad",
    ):
        assert plain.totals[name] == watched.totals[name]


def test_the_series_adds_up_to_the_totals() -> None:
    o = story(TRANSPORTS[0], 5)
    s = o.series
    assert (np.diff(s["time_ns"]) == 1_000).all()
    # The last interval may be cut off by the end of the run.
    assert 0 <= o.flows["delivered_bytes"][0] - s["flow_bytes"][:, 0].sum() <= 20_000
    assert 0 <= o.flows["delivered_bytes"].sum() - s["plane_bytes"].sum() <= 100_000
    assert s["plane_bytes"].sum() == s["group_bytes"].sum()
    up = o.watch_links.index("p1.t0-0.t1-0.up")
    port = [o.link_name(i) for i in range(2 * o.fabric.links)].index("p1.t0-0.t1-0.up")
    assert 0 <= o.links["tx_bytes"][port] - s["link_bytes"][:, up].sum() <= 20_000
    assert o.totals["drops_queue"] + o.totals["drops_loss"] + o.totals["drops_link"] >= s["drops"].sum() > 0
