"""Transports by name, and what each experiment switches off in a run."""

from __future__ import annotations

from typing import Any

import pytest

from softmrc.errors import UsageError
from softmrc.sim.ablations import ABLATIONS, changes_of, transport_names, transport_of
from softmrc.sim.builder import Builder
from softmrc.sim.config import Clos, Fault, Mrc, Queues, Rocev2, Tcp
from softmrc.sim.run import Outcome, simulate
from softmrc.sim.workload import Workload

FABRIC = Clos(hosts=8, planes=4, hosts_per_t0=4, t1_per_plane=4)
LOSSY = (Fault(0, "link_loss", "p1.t0-0.t1-1", 0.05),)


def across(size: int = 1_000_000) -> Workload:
    builder = Builder()
    builder.sends([0, 1, 2, 3], [4, 5, 6, 7], size)
    return builder.build()


def incast(size: int = 300_000) -> Workload:
    builder = Builder()
    builder.sends([0, 1, 2, 3], 4, size)
    return builder.build()


def run(name: str, workload: Workload | None = None, **more: Any) -> Outcome:
    settings = {"evs": 16, "backups": 8} if name.startswith("mrc") else {}
    outcome = simulate(
        FABRIC, workload or across(), transport_of(name, **settings), seed=3, check=True, **more
    )
    assert outcome.totals["violations"] == 0
    return outcome


def test_names() -> None:
    assert transport_of("mrc") == Mrc()
    assert transport_of("mrc:no-trimming+8qp") == Mrc(trimming=False, qps=8)
    assert transport_of("mrc:fixed-ev", evs=7) == Mrc(evs=7, fixed_ev=True)
    assert transport_of("rocev2:16qp-nopfc") == Rocev2(qps=16, pfc=False)
    assert transport_of("rocev2:nopfc+nodcqcn") == Rocev2(pfc=False, dcqcn=False)
    assert transport_of("tcp:dctcp") == Tcp(cc="dctcp")
    assert changes_of("mrc:oblivious") == (
        "mrc",
        {"policy": "oblivious", "ecn_steering": False, "demotion": False},
    )


def test_every_name_makes_a_transport() -> None:
    for name in transport_names():
        assert transport_of(name).name == name.partition(":")[0]
    assert {f"mrc:{a}" for a in ABLATIONS} <= set(transport_names())
    assert all(made != Mrc() for made in ABLATIONS.values())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("udp", "no transport 'udp'; there is mrc, rocev2, tcp"),
        ("", "no transport ''"),
        ("mrc:", "no option ''"),
        ("mrc:no-such", "no option 'no-such' of mrc; there is no-trimming"),
        ("rocev2:0qp", "no option '0qp'"),
        ("mrc:2qp+4qp", "two options set qps"),
        ("tcp:cubic+dctcp", "two options set cc"),
        ("rocev2:9999qp", "qps = 9999"),
    ],
)
def test_names_that_are_none(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words.replace("(", r"\(")):
        transport_of(name)


@pytest.mark.parametrize("name", [n for n in transport_names() if n != "mrc:fixed-ev"])
def test_every_one_delivers_all_over_a_lossy_link(name: str) -> None:
    outcome = run(name, faults=LOSSY)
    assert outcome.stopped == "done"
    assert outcome.tasks["status"].tolist() == [1] * 4
    assert (outcome.flows["delivered_bytes"] >= 1_000_000).all()


def test_no_trimming() -> None:
    queues = Queues(data_bytes=60_000, trim_bytes=30_000, trim_last_hop=30_000)
    trimmed = run("mrc", incast(), queues=queues)
    dropped = run("mrc:no-trimming", incast(), queues=queues)
    assert trimmed.totals["trims"] + trimmed.totals["trims_last_hop"] > 0
    assert dropped.totals["trims"] + dropped.totals["trims_last_hop"] == 0
    assert dropped.totals["drops_queue"] > 0


def test_no_demotion_leaves_every_ev_in_use() -> None:
    assert run("mrc", faults=LOSSY).totals["ev_bad"] > 0
    assert run("mrc:no-demotion", faults=LOSSY).totals["ev_bad"] == 0
    assert run("mrc:oblivious", faults=LOSSY).totals["ev_bad"] == 0


def test_no_fast_loss() -> None:
    assert run("mrc", faults=LOSSY).totals["rtx_inferred"] > 0
    slow = run("mrc:no-fast-loss", faults=LOSSY).totals
    assert slow["rtx_inferred"] == 0
    assert slow["rtx_probe"] + slow["rtx_timeout"] > 0


def test_fixed_ev_keeps_to_one_link_a_hop() -> None:
    builder = Builder()
    builder.sends([0], [4], 400_000)
    outcome = run("mrc:fixed-ev", builder.build())
    up = [i for i in range(len(outcome.links["tx_bytes"])) if outcome.link_name(i).startswith("h0.")]
    busy = [outcome.link_name(i) for i in up if outcome.links["tx_bytes"][i] > 0]
    # One plane, both ways.
    assert sorted(name.rsplit(".", 1)[1] for name in busy) == ["down", "up"]
    assert len({name.rsplit(".", 1)[0] for name in busy}) == 1
    spines = {
        outcome.link_name(i)
        for i, sent in enumerate(outcome.links["tx_bytes"])
        if sent > 400_000 and ".t1-" in outcome.link_name(i)
    }
    assert len(spines) == 2  # data goes up one link and down another


def test_no_ecn_steering_marks_and_does_not_steer() -> None:
    """One of two uplinks at half its rate: with steering load moves to the other one."""
    fabric = Clos(hosts=8, planes=1, hosts_per_t0=4, t1_per_plane=2, t0_t1_gbps=200.0)
    slow = [Fault(0, "link_rate", "p1.t0-0.t1-1", 0.5)]
    share = []
    for name in ("mrc:no-demotion", "mrc:no-demotion+no-ecn-steering", "mrc:oblivious"):
        kind = transport_of(name, evs=8, backups=0)
        outcome = simulate(fabric, across(4_000_000), kind, faults=slow, seed=3)
        assert outcome.totals["ecn_marks"] > 0
        sent = {outcome.link_name(i): int(b) for i, b in enumerate(outcome.links["tx_bytes"])}
        narrow, wide = sent["p1.t0-0.t1-1.up"], sent["p1.t0-0.t1-0.up"]
        share.append(narrow / (narrow + wide))
    steered, blind, oblivious = share
    assert blind == pytest.approx(0.5, abs=0.03)
    assert oblivious == pytest.approx(0.5, abs=0.03)
    assert steered < blind - 0.05


def test_any_plane_moves_load_to_other_planes() -> None:
    """Three of four uplinks of plane 1 are dead: spares of other planes take the place of its EVs."""
    dead = [Fault(0, "link_down", f"p1.t0-0.t1-{k}") for k in (0, 1, 2)]
    share = {}
    for name in ("mrc", "mrc:any-plane"):
        outcome = run(name, across(4_000_000), faults=dead)
        assert outcome.stopped == "done"
        nics = [
            (outcome.link_name(i), b)
            for i, b in enumerate(outcome.links["tx_bytes"])
            if outcome.link_name(i).startswith("h") and outcome.link_name(i).endswith(".up")
        ]
        share[name] = sum(b for n, b in nics if ".p1." in n) / sum(b for _, b in nics)
    assert share["mrc"] == pytest.approx(0.25, abs=0.05)
    assert share["mrc:any-plane"] < 0.9 * share["mrc"]


def test_fixed_reverse_ev_keeps_one_link_for_answers() -> None:
    builder = Builder()
    builder.sends([0], [4], 4_000_000)
    used = {}
    for name in ("mrc", "mrc:fixed-reverse-ev"):
        outcome = run(name, builder.build())
        used[name] = sum(
            bool(packets > 0)
            for i, packets in enumerate(outcome.links["tx_packets"])
            if ".t0-1.t1-" in outcome.link_name(i) and outcome.link_name(i).endswith(".up")
        )
    assert used["mrc:fixed-reverse-ev"] == FABRIC.planes
    assert used["mrc"] > FABRIC.planes
