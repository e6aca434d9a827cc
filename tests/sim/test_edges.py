"""What has broken other simulators: extreme delays, buffers, flow counts, sizes, times and losses; what cannot be.

Each is refused in plain words, or right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from softmrc.errors import UsageError
from softmrc.sim.builder import Builder
from softmrc.sim.config import (
    Clos,
    Fault,
    Graph,
    GraphLink,
    GraphSwitch,
    Mrc,
    Queues,
    Rocev2,
    Tcp,
    Transport,
)
from softmrc.sim.run import Outcome, simulate
from softmrc.sim.workload import GREEDY, Workload

DONE, FAILED = 1, 2
PACKET = 4096 + 160
FABRIC: dict[str, Any] = {"hosts": 8, "planes": 2, "hosts_per_t0": 2, "t1_per_plane": 2}
MRC = Mrc(evs=8, backups=2)
TRANSPORTS: list[Transport] = [
    MRC,
    Rocev2(pfc=False),
    Rocev2(),
    Tcp(),
    Tcp(cc="dctcp"),
]
NAMES = ["mrc", "rocev2", "rocev2-pfc", "tcp", "dctcp"]
every_transport = pytest.mark.parametrize("transport", TRANSPORTS, ids=NAMES)


def sends(
    source: Sequence[int], destination: Sequence[int], size: int | list[int], hosts: int = 8, **more: Any
) -> Workload:
    b = Builder()
    b.sends(list(source), list(destination), size, **more)
    return b.build(hosts)


def shifted(size: int = 100_000) -> Workload:
    """Every host to the one three further on."""
    return sends(range(8), [(h + 3) % 8 for h in range(8)], size)


def run(transport: Transport, w: Workload | None = None, **more: Any) -> Outcome:
    fabric = Clos(**(FABRIC | more.pop("fabric", {})))
    o = simulate(fabric, w or shifted(), transport, check=True, wall_s=50, **more)
    assert o.totals["violations"] == 0
    assert o.totals["timer_stalls"] == 0
    return o


def all_done(o: Outcome) -> bool:
    return o.stopped == "done" and bool((o.tasks["status"] == DONE).all())


@every_transport
@pytest.mark.parametrize(
    "delays",
    [
        {"host_link_ns": 0, "t0_t1_ns": 100_000_000, "switch_ns": 0},
        {"host_link_ns": 100_000_000, "t0_t1_ns": 0, "switch_ns": 0},
    ],
    ids=["t1-far", "hosts-far"],
)
def test_links_of_no_delay_and_of_100_ms_in_one_fabric(transport: Transport, delays: dict[str, int]) -> None:
    if isinstance(transport, Rocev2):
        transport = replace(
            transport, rto_ns=1_000_000_000
        )  # the default gives up before an answer can be there
    o = run(transport, fabric=delays)
    assert all_done(o)
    # Nothing arrives earlier than light, and a flow that waits for no answer needs one way only.
    assert o.tasks["delivered_ns"].min() >= 200_000_000
    assert o.tasks["acked_ns"].min() >= 400_000_000
    assert o.sim_ns < 3_000_000_000


@every_transport
def test_a_fabric_without_any_delay(transport: Transport) -> None:
    assert all_done(run(transport, fabric={"host_link_ns": 0, "t0_t1_ns": 0, "switch_ns": 0}))


@every_transport
@pytest.mark.parametrize("trim", [0, PACKET])
def test_buffers_of_one_packet(transport: Transport, trim: int) -> None:
    q = Queues(data_bytes=PACKET, ecn_min=0, ecn_max=0, trim_bytes=trim, trim_last_hop=trim)
    assert all_done(run(transport, queues=q))


@every_transport
def test_small_pfc_thresholds_and_shared_buffers(transport: Transport) -> None:
    assert all_done(run(transport, queues=Queues(pfc=True, pfc_xoff=2 * PACKET, pfc_xon=0)))
    assert all_done(run(transport, queues=Queues(shared_buffer=3 * PACKET)))


@every_transport
def test_5000_flows_of_one_host(transport: Transport) -> None:
    o = run(transport, sends([0] * 5000, [3, 4, 5, 6, 7] * 1000, 3000))
    assert all_done(o)
    assert (o.flows["delivered_bytes"] >= 3000).all()


def test_5000_queue_pairs_of_one_host() -> None:
    o = run(MRC, sends([0] * 5000, [7] * 5000, 2000, qp=np.arange(5000) % 4096))
    assert all_done(o)


@pytest.mark.parametrize(
    ("transport", "n"), [(Mrc(evs=8, backups=0), 1000), (Tcp(), 5000)], ids=["mrc", "tcp"]
)
def test_thousands_of_hosts_send_to_one(transport: Transport, n: int) -> None:
    fabric = {"hosts": n + 1, "planes": 1, "hosts_per_t0": 128, "t1_per_plane": 8}
    o = run(transport, sends(range(1, n + 1), [0] * n, 2000, n + 1), fabric=fabric)
    assert all_done(o)
    # n packets of more than 2,086 bytes behind one line of 100 Gbit/s.
    assert o.sim_ns > n * 2086 * 8 / 100


def test_a_message_of_3_gib() -> None:
    size = 3 << 30
    fabric = {"hosts": 2, "planes": 4, "host_gbps": 800.0}
    o = run(Mrc(evs=16, backups=0, mtu=8192), sends([0], [1], size, 2), fabric=fabric)
    assert all_done(o)
    assert o.flows["delivered_bytes"][0] >= size
    assert o.totals["data_bytes"] == size
    # 3.2 Tbit/s: 8.05 ms for the payload.
    assert 8_053_000 < o.sim_ns < 9_000_000


@every_transport
def test_starts_and_delays_beyond_2_to_the_31_ns(transport: Transport) -> None:
    b = Builder()
    first = b.sends([0], [5], 10_000, start=5_000_000_000)
    second = b.sends([5], [0], 10_000, after=first, delay=3_000_000_000)
    b.computes([0], 4_000_000_000, after=second)
    o = run(transport, b.build(8))
    assert all_done(o)
    t = o.tasks
    assert t["ready_ns"][0] == 5_000_000_000
    assert t["posted_ns"][1] >= t["delivered_ns"][0] + 3_000_000_000
    assert t["delivered_ns"][2] == t["delivered_ns"][1] + 4_000_000_000


@every_transport
@pytest.mark.parametrize("loss", [1e-6, 1e-3, 0.1, 0.9, 1.0])
@pytest.mark.parametrize("kind", ["link_loss", "link_corrupt"])
def test_loss_from_one_in_a_million_to_all(transport: Transport, loss: float, kind: str) -> None:
    faults = [Fault(0, kind, "p1", loss), Fault(0, kind, "p2", loss)]
    o = run(transport, faults=faults, until_ns=200_000_000_000)
    status = o.tasks["status"]
    if loss <= 1e-3:
        assert (status == DONE).all()
    if loss >= 0.9:
        assert not (status == DONE).any()
    if loss == 1.0:
        assert o.totals["frames_delivered"] == 0
    assert (o.flows["delivered_bytes"][status == DONE] >= 100_000).all()


@every_transport
def test_all_links_die_in_the_middle(transport: Transport) -> None:
    o = run(transport, faults=[Fault(5_000, "link_down", "p1"), Fault(5_000, "link_down", "p2")])
    # Nobody has a port, and every transport finds out by its timers.
    assert o.stopped == "done"
    assert (o.tasks["status"] == FAILED).all()


@every_transport
def test_all_links_are_dead_from_the_start(transport: Transport) -> None:
    o = run(transport, faults=[Fault(0, "link_down", "p1"), Fault(0, "link_down", "p2")])
    assert o.stopped == "done"
    assert (o.tasks["status"] == FAILED).all()


@every_transport
def test_messages_of_0_and_1_bytes(transport: Transport) -> None:
    o = run(transport, sends([0, 1, 2], [3, 4, 5], [0, 1, 4096]))
    assert all_done(o)


@pytest.mark.parametrize("mtu", [256, 320, 1024, 4096, 8960])
def test_every_packet_size(mtu: int) -> None:
    o = run(Mrc(evs=8, backups=2, mtu=mtu))
    assert all_done(o)
    assert o.totals["data_packets"] == 8 * -(-100_000 // mtu)


@pytest.mark.parametrize("mtu", [256, 1500, 9216])
def test_every_packet_size_of_the_baselines(mtu: int) -> None:
    assert all_done(run(Rocev2(mtu=mtu)))
    assert all_done(run(Tcp(mss=mtu)))


@pytest.mark.parametrize("cc", ["uet-1.0-nscc", "fixed-window", "null"])
@pytest.mark.parametrize("policy", ["bitmap", "bitmap-flat", "rr", "oblivious"])
def test_every_congestion_control_and_policy(cc: str, policy: str) -> None:
    # Four to one: the queue overflows where nothing holds senders back.
    o = run(Mrc(evs=8, backups=2, cc=cc, policy=policy), sends([1, 3, 5, 7], [0] * 4, 200_000))
    assert all_done(o)


@pytest.mark.parametrize("mode", ["srv6", "stev", "ecmp"])
@pytest.mark.parametrize("evs", [1, 2, 7, 4096])
def test_every_mode_and_number_of_evs(mode: str, evs: int) -> None:
    assert all_done(run(Mrc(evs=evs, backups=0, mode=mode), fabric={"planes": 1}))


def test_31_planes_and_not_32() -> None:
    assert all_done(run(Mrc(evs=62, backups=31), fabric={"planes": 31}))
    with pytest.raises(UsageError, match="planes = 32"):
        Clos(**(FABRIC | {"planes": 32}))


def test_one_host_can_compute_and_nothing_else() -> None:
    b = Builder()
    b.computes([0], 1_000)
    o = simulate(Clos(hosts=1), b.build(1), MRC, check=True)
    assert (o.stopped, o.sim_ns) == ("done", 1_000) or o.tasks["acked_ns"][0] == 1_000
    with pytest.raises(UsageError, match="itself"):
        sends([0], [0], 1, 1)


def test_flows_to_oneself_are_refused() -> None:
    with pytest.raises(UsageError, match="host 4 sends to itself"):
        sends([3, 4], [4, 4], 1000)


def test_hosts_without_a_path_are_named() -> None:
    switches = [GraphSwitch(0, 1, 0), GraphSwitch(0, 1, 1)]
    links = [GraphLink("h0", "p1.t0-0"), GraphLink("h1", "p1.t0-0"), GraphLink("h2", "p1.t0-1")]
    g = Graph(4, switches, links)
    assert simulate(g, sends([0], [1], 5000, 4), MRC).stopped == "done"
    for dst in (2, 3):  # another island; no link at all
        with pytest.raises(UsageError, match=f"host (0|{dst}) to host (0|{dst}): no p"):
            simulate(g, sends([0], [dst], 5000, 4), MRC)


@pytest.mark.parametrize("transport", TRANSPORTS[1:4:2], ids=["rocev2", "tcp"])
def test_hosts_without_a_path_fail_or_are_refused_by_the_baselines(transport: Transport) -> None:
    switches = [GraphSwitch(0, 1, 0), GraphSwitch(0, 1, 1)]
    g = Graph(2, switches, [GraphLink("h0", "p1.t0-0"), GraphLink("h1", "p1.t0-1")])
    try:
        o = simulate(g, sends([0], [1], 5000, 2), transport, check=True)
    except UsageError:
        return
    assert o.stopped in ("done", "stuck")
    assert o.tasks["status"][0] != DONE


def test_things_named_twice_are_refused() -> None:
    twice = [GraphSwitch(0, 1, 0), GraphSwitch(0, 1, 0)]
    with pytest.raises(UsageError, match=r"p1\.t0-0"):
        Graph(2, twice, [])
    links = [GraphLink("h0", "p1.t0-0"), GraphLink("h0", "p1.t0-0"), GraphLink("h1", "p1.t0-0")]
    with pytest.raises(UsageError, match="host 0 has two links"):
        simulate(Graph(2, twice[:1], links), sends([0], [1], 1, 2), MRC)


@pytest.mark.parametrize("transport", [MRC, Rocev2(pfc=False), Tcp()], ids=["mrc", "rocev2", "tcp"])
@pytest.mark.parametrize(
    "queues", [Queues(data_bytes=4233), Queues(shared_buffer=4233)], ids=["port", "shared"]
)
def test_buffers_below_a_packet_are_refused(transport: Transport, queues: Queues) -> None:
    with pytest.raises(UsageError, match=r"no packet fits; .* at least 4234"):
        run(transport, queues=queues)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Clos(hosts=0), "hosts"),
        (lambda: Clos(hosts=8, hosts_per_t0=4, t1_per_plane=0), "no T1"),
        (lambda: Clos(hosts=8, host_gbps=0), "host_gbps"),
        (lambda: Clos(hosts=8, t0_t1_ns=-1), "t0_t1_ns"),
        (lambda: Clos(hosts=8, tiers=4), "tiers"),
        (lambda: Queues(ecn_min=5, ecn_max=4), "ecn_min"),
        (lambda: Queues(data_bytes=1 << 32), "data_bytes"),
        (lambda: Queues(control="fair"), "control"),
        (lambda: Mrc(mtu=100), "mtu"),
        (lambda: Mrc(mtu=9216), "mtu"),
        (lambda: Mrc(mode="mpls"), "mode"),
        (lambda: Mrc(evs=0), "evs"),
        (lambda: Rocev2(mtu=10_000), "mtu"),
        (lambda: Tcp(cc="bbr"), "cc"),
        (lambda: Fault(0, "link_loss", "p1", 1.1), "link_loss"),
        (lambda: Fault(-1, "link_down", "p1"), "at_ns"),
        (lambda: Fault(0, "meteor", "p1"), "meteor"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(make: Callable[[], object], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        make()


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"transport": Mrc(cc="bbr")}, "bbr.*uet-1.0-nscc"),
        ({"transport": Mrc(policy="guess")}, "guess.*bitmap"),
        ({"faults": [Fault(0, "link_down", "h8.p1")]}, "h8"),
        ({"faults": [Fault(0, "link_down", "p3.t0-0.t1-0")]}, "p3"),
        ({"faults": [Fault(0, "switch_down", "p1.t2-0")]}, "t2-0"),
        ({"faults": [Fault(0, "port_down", "p1.t0-0.t1-0")]}, "port"),
        ({"watch_links": ["p1.t0-0.t1-9"]}, "t1-9"),
        ({"watch_hosts": [8]}, "host"),
        ({"watch_flows": [99]}, "flow"),
    ],
)
def test_what_this_fabric_does_not_have_is_refused(more: dict[str, Any], word: str) -> None:
    more = dict(more)
    with pytest.raises(UsageError, match=word):
        run(more.pop("transport", MRC), **more)


def test_greedy_flows_need_an_end() -> None:
    w = sends([0], [5], GREEDY)
    with pytest.raises(UsageError, match="greedy"):
        run(MRC, w)
    o = run(MRC, w, until_ns=1_000_000)
    assert (o.stopped, o.sim_ns) == ("until", 1_000_000)
    # Two planes of 100 Gbit/s for 1 ms: 25 MB on the wire, 24 MB of payload.
    assert 20_000_000 < o.flows["delivered_bytes"][0] < 24_300_000


def test_limits_leave_a_partial_outcome_that_says_so() -> None:
    big = shifted(1 << 28)
    o = simulate(Clos(**FABRIC), big, MRC, wall_s=0.05, check=True)
    assert o.stopped == "wall"
    assert o.partial
    assert 0 < o.flows["delivered_bytes"].sum() < 8 << 28
    assert o.totals["violations"] == 0
    assert simulate(Clos(**FABRIC), big, MRC, max_rss_mib=1).stopped == "memory"


def test_an_interrupt_leaves_a_partial_outcome() -> None:
    seen = []

    def stop(p: object) -> None:
        seen.append(p)
        raise KeyboardInterrupt

    o = simulate(Clos(**FABRIC), shifted(1 << 26), MRC, progress=stop)
    assert seen
    assert o.stopped == "interrupted" or not o.partial


def test_more_hashed_evs_than_numbers_are_refused() -> None:
    builder = Builder()
    builder.sends([0], [4], [1_000])
    with pytest.raises(UsageError, match="at most 4096 EVs a plane"):
        simulate(
            Clos(hosts=8, planes=1, hosts_per_t0=4, t1_per_plane=4),
            builder.build(),
            Mrc(mode="ecmp", evs=4096, backups=8),
        )


def test_a_slow_link_may_become_slower_than_anything() -> None:
    builder = Builder()
    builder.sends([0], [4], [1_000])
    seen = simulate(
        Clos(hosts=8, planes=1, hosts_per_t0=4, t1_per_plane=4, host_gbps=1e-6),
        builder.build(),
        Mrc(),
        faults=[Fault(0, "link_rate", "h4.p1", value=1.1e-6)],
        until_ns=10**9,
        check=True,
    )
    assert seen.stopped == "until"
    assert seen.tasks["delivered_ns"][0] == -1
    assert seen.totals["violations"] == 0
