"""What holds in every run, on random fabrics, queues, faults, transports and workloads, and on the built-in ones.

Bytes in are bytes delivered, dropped or queued; no line is faster than its rate; a finished task has delivered all its
bytes; and every run comes to an end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

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
    Topology,
    Transport,
)
from softmrc.sim.fabric import build
from softmrc.sim.run import Outcome, simulate
from softmrc.sim.scenario import Scenario
from softmrc.sim.workload import Workload

DROPS = (
    "drops_queue",
    "drops_link",
    "drops_loss",
    "drops_corrupt",
    "drops_no_route",
    "drops_switch",
)
OPEN, DONE = 0, 1
PHASES = (Phase.explicit, Phase.generate)  # a run that hangs must not be run again a thousand times
DELAYS = st.sampled_from([0, 1, 500, 3_000, 100_000])
RATES = st.sampled_from([10.0, 100.0, 333.3, 400.0])
SIZES = st.sampled_from([0, 1, 255, 4096, 4097, 60_000, 300_000])


def check_run(o: Outcome, w: Workload) -> None:
    """Assert what holds whatever was run."""
    t = o.totals
    assert t["violations"] == 0
    assert t["timer_stalls"] == 0
    assert t["frames_sent"] == t["frames_delivered"] + sum(t[n] for n in DROPS) + t["frames_queued"]
    rates = np.empty(2 * o.fabric.links)
    rates[0::2], rates[1::2] = o.fabric.link_bps_up, o.fabric.link_bps_down
    busy_ns = o.links["tx_bytes"] * 8e9 / rates
    # What has begun to leave counts as a whole: a longest frame and a lookahead of slack.
    slack = 9_500 * 8e9 / rates + int(o.fabric.link_delay_ns.max()) + 1_000
    assert (busy_ns <= o.sim_ns + slack).all()
    done = (o.tasks["status"] == DONE) & (w.kind == 0)
    assert (o.flows["delivered_bytes"][done] == w.size[done]).all()
    ready, posted, delivered, acked = (
        o.tasks[n][done] for n in ("ready_ns", "posted_ns", "delivered_ns", "acked_ns")
    )
    assert (ready >= w.start[done]).all()
    assert (posted >= ready).all()
    assert (delivered > posted).all()
    assert (acked >= delivered).all()
    assert o.stopped in ("done", "until", "stuck")
    if o.stopped == "done":
        assert (o.tasks["status"] != OPEN).all()


@st.composite
def closes(draw: st.DrawFn) -> Clos:
    below, t0, t1 = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    hosts = max(below * t0 - draw(st.integers(0, below - 1)), 2)
    t0 = -(-hosts // below)
    third: dict[str, Any] = {}
    if draw(st.integers(0, 2)) == 0:
        pods = draw(st.sampled_from([1, 2])) if t0 % 2 == 0 else 1
        third = {"tiers": 3, "pods": pods, "t1_per_pod": t1, "t2_per_plane": t1 * draw(st.integers(1, 2))}
    return Clos(
        hosts=hosts,
        planes=draw(st.integers(1, 4)),
        hosts_per_t0=below,
        t1_per_plane=t1,
        host_gbps=draw(RATES),
        t0_t1_gbps=draw(RATES),
        host_link_ns=draw(DELAYS),
        t0_t1_ns=draw(DELAYS),
        t1_t2_ns=draw(DELAYS),
        switch_ns=draw(st.sampled_from([0, 300])),
        **third,
    )


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """One plane: hosts on random T0s, every T0 on at least one T1 of all, with holes."""
    hosts, t0, t1 = draw(st.integers(2, 6)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    links = [GraphLink(f"h{h}", f"p1.t0-{draw(st.integers(0, t0 - 1))}") for h in range(hosts)]
    for i in range(t0):
        for k in range(t1):
            if k == 0 or draw(st.booleans()):  # the first T1 joins all
                links.append(GraphLink(f"p1.t0-{i}", f"p1.t1-{k}", draw(RATES), draw(RATES), draw(DELAYS)))
    switches = [GraphSwitch(0, 1, i) for i in range(t0)] + [GraphSwitch(1, 1, k) for k in range(t1)]
    return Graph(hosts, switches, links)


@st.composite
def queue_rules(draw: st.DrawFn) -> Queues:
    packet = 9216 + 160
    low = draw(st.sampled_from([0, packet, 40_000]))
    pfc = draw(st.booleans())
    return Queues(
        data_bytes=draw(st.sampled_from([None, packet, 3 * packet, 1_000_000])),
        ecn_min=draw(st.sampled_from([None, low])),
        ecn_max=draw(st.sampled_from([None, low + 50_000])) if low else None,
        ecn_pmax=draw(st.sampled_from([0.05, 1.0])),
        ecn_last_hop=draw(st.booleans()),
        trim_bytes=draw(st.sampled_from([None, 0, packet, 5 * packet])),
        trim_last_hop=draw(st.sampled_from([None, 0, packet])),
        control_bytes=draw(st.sampled_from([1 << 20, 2_000])),
        control=draw(st.sampled_from(["strict", "weighted"])),
        shared_buffer=draw(st.sampled_from([0, 0, 0, 200_000])),
        pfc=pfc,
        pfc_xoff=draw(st.sampled_from([None, 2 * packet])),
        pfc_xon=None,
    )


def mrcs(planes: int) -> st.SearchStrategy[Transport]:
    return st.builds(
        Mrc,
        qps=st.integers(1, 3),
        evs=st.sampled_from([planes, 2 * planes + 1, 64]),
        backups=st.sampled_from([0, planes, 7]),
        mtu=st.sampled_from([256, 1024, 4096, 8960]),
        mode=st.sampled_from(["srv6", "stev", "ecmp"]),
        cc=st.sampled_from(["uet-1.0-nscc", "fixed-window", "null"]),
        policy=st.sampled_from(["bitmap", "rr", "oblivious"]),
        trimming=st.booleans(),
        mpr=st.sampled_from([1, 8]),
        port_remap_ns=st.sampled_from([0, 10_000]),
        denylist=st.booleans(),
    )


def transports(planes: int) -> st.SearchStrategy[Transport]:
    return st.one_of(
        mrcs(planes),
        mrcs(planes),
        st.builds(Rocev2, qps=st.integers(1, 2), pfc=st.booleans(), dcqcn=st.booleans()),
        st.builds(Tcp, cc=st.sampled_from(["cubic", "dctcp"])),
    )


@st.composite
def fault_lists(draw: st.DrawFn, topology: Topology) -> list[Fault]:
    fabric = build(topology)
    out = []
    for _ in range(draw(st.integers(0, 5))):
        at = draw(st.sampled_from([0, 1_000, 7_777, 60_000]))
        link = fabric.link_name(draw(st.integers(0, fabric.links - 1)))
        way = draw(st.sampled_from(["both", "up", "down"]))
        kind = draw(st.sampled_from(["cut", "loss", "corrupt", "rate", "flap", "reboot", "silent"]))
        switch = fabric.node_name(fabric.hosts + draw(st.integers(0, len(fabric.switch_tier) - 1)))
        p = draw(st.sampled_from([1e-6, 0.01, 0.3, 0.9, 1.0]))
        if kind == "cut":
            out.append(Fault(at, "link_down", link, direction=way))
        elif kind in ("loss", "corrupt"):
            out.append(Fault(at, f"link_{kind}", link, p, way))
        elif kind == "rate":
            out.append(Fault(at, "link_rate", link, max(p, 0.01), way))
        elif kind == "flap":
            out += [Fault(at, "link_down", link), Fault(at + 5_000, "link_up", link)]
        elif kind == "reboot":
            out.append(Fault(at, "switch_reboot", switch, 20_000))
        else:
            out.append(Fault(at, "switch_down", switch))
    return out


@st.composite
def workloads(draw: st.DrawFn, hosts: int) -> Workload:
    b = Builder()
    for _ in range(draw(st.integers(1, 6))):
        src = draw(st.integers(0, hosts - 1))
        dst = (src + draw(st.integers(1, hosts - 1))) % hosts
        after = [draw(st.integers(0, b.n - 1))] if b.n and draw(st.booleans()) else None
        b.sends([src], [dst], draw(SIZES), after=after, start=draw(st.sampled_from([0, 999, 50_000])))
        if draw(st.booleans()):
            b.computes([dst], draw(st.sampled_from([0, 2_000])), after=[b.n - 1])
    return b.build(hosts)


@given(st.data())
@settings(max_examples=300, phases=PHASES)
def test_random_runs_keep_the_books(data: st.DataObject) -> None:
    topology: Topology = data.draw(st.one_of(closes(), closes(), graphs()))
    transport = data.draw(transports(topology.planes))
    queues = data.draw(queue_rules())
    faults = data.draw(fault_lists(topology))
    w = data.draw(workloads(topology.hosts))
    seed = data.draw(st.integers(0, 1 << 32))
    try:
        o = simulate(
            topology, w, transport, queues=queues, faults=faults, seed=seed, until_ns=60_000_000, check=True, wall_s=30
        )  # fmt: skip
    except UsageError as refused:
        # A denylist of all that is down at the start may leave nothing.
        if "no path" not in str(refused) or not (isinstance(transport, Mrc) and transport.denylist):
            raise
        return
    check_run(o, w)


@given(st.data())
@settings(max_examples=100, phases=PHASES)
def test_without_faults_everything_arrives(data: st.DataObject) -> None:
    topology = data.draw(closes())
    transport = data.draw(transports(topology.planes))
    if isinstance(transport, Mrc):
        transport = replace(transport, cc="uet-1.0-nscc")
    w = data.draw(workloads(topology.hosts))
    o = simulate(topology, w, transport, seed=data.draw(st.integers(0, 99)), check=True, wall_s=30)
    check_run(o, w)
    assert o.stopped == "done"
    assert (o.tasks["status"] == DONE).all()


@pytest.mark.parametrize("name", [n for n, _ in Scenario.list() if n != "full-131072"])
def test_built_in_scenarios_keep_the_books(name: str) -> None:
    training = name in ("t1-dies-silently", "training-64-flaps")
    s = Scenario.load(name, quick=True, overrides={"workload.steps": 2} if training else None)
    w = s.workload()
    o = simulate(
        s.topology, w, s.transport, queues=s.queues, faults=s.faults, seed=s.seed, until_ns=s.stop.until_ns, check=True
    )  # fmt: skip
    check_run(o, w)
    assert o.stopped == ("done" if s.stop.until_ns is None else "until")
