"""Scenario files: how they are read, changed and refused; the built-in ones; faults and hand-made fabrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softmrc.errors import UsageError
from softmrc.sim.config import Clos, Fault, Graph, Mrc, Queues, Rocev2, Tcp
from softmrc.sim.fabric import build
from softmrc.sim.fault_plan import plan_faults
from softmrc.sim.graph_file import read_graph
from softmrc.sim.quantity import parse_bytes, parse_ns
from softmrc.sim.scenario import Scenario
from softmrc.sim.scenario_workloads import KINDS
from softmrc.sim.workload import GREEDY

SMALL: dict[str, Any] = {
    "fabric": {"hosts": 8, "planes": 2, "hosts_per_t0": 2, "t1_per_plane": 2},
    "workload": {"kind": "permutation", "size": "64 KiB"},
}


def scenario(workload: dict[str, Any] | None = None, **tables: Any) -> Scenario:
    data = {**SMALL, **tables}
    if workload is not None:
        data["workload"] = workload
    return Scenario.from_tables(data)


def pairs(s: Scenario) -> list[tuple[int, int]]:
    w = s.workload()
    return list(zip(w.node[w.sends].tolist(), w.peer[w.sends].tolist(), strict=True))


def test_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        """
about = "a test"
seed = 7
[fabric]
hosts = 8
planes = 2
hosts_per_t0 = 2
t1_per_plane = 4
host_gbps = 100
host_link_ns = "0.7 us"
[queues]
data_bytes = "512 KiB"
[transport]
qps = 2
[transport.mrc]
evs = 16
tail_timer_ns = "100 us"
[transport.rocev2]
rto_ns = "2 ms"
[workload]
kind = "permutation"
size = "1 MB"
[[fault]]
kind = "link_down"
target = "p1.t0-0.t1-3"
at_ns = "5 us"
duration_ns = "5 us"
[sample]
interval_ns = "1 us"
flows = [0]
links = ["h3.p2", "p2.t0-1.t1-0.up"]
[cost]
gpus = 8
[stop]
until_ns = "1 ms"
wall_s = 10
[quick]
workload.size = "64 KB"
stop = { until_ns = "9 us" }
"""
    )
    s = Scenario.load(path)
    assert (s.name, s.about, s.seed) == ("mine", "a test", 7)
    assert s.topology == Clos(
        hosts=8, planes=2, hosts_per_t0=2, t1_per_plane=4, host_gbps=100.0, host_link_ns=700
    )
    assert s.transport == Mrc(qps=2, evs=16, tail_timer_ns=100_000)
    assert s.queues == Queues(data_bytes=512 << 10)
    assert s.faults == (Fault(5000, "link_down", "p1.t0-0.t1-3"), Fault(10_000, "link_up", "p1.t0-0.t1-3"))
    assert (s.sample.interval_ns, s.sample.flows, s.sample.links) == (
        1000,
        (0,),
        ("h3.p2", "p2.t0-1.t1-0.up"),
    )
    assert (s.stop.until_ns, s.stop.wall_s, s.stop.max_rss_mib) == (1_000_000, 10.0, None)
    assert s.cost == {"gpus": 8}
    assert set(s.workload().size.tolist()) == {1_000_000}
    assert s.workload().peer.tolist() == s.workload(7).peer.tolist() != s.workload(8).peer.tolist()
    small = Scenario.load(path, quick=True)
    assert set(small.workload().size.tolist()) == {64_000}
    assert (small.stop.until_ns, small.stop.wall_s) == (9000, 10.0)
    other = Scenario.load(path, overrides={"transport.name": "rocev2", "transport.qps": 16})
    assert other.transport == Rocev2(qps=16, rto_ns=2_000_000)
    without = Scenario.load(path, overrides={"transport.name": "mrc:no-trimming+8qp"})
    assert without.transport == Mrc(qps=8, evs=16, tail_timer_ns=100_000, trimming=False)


def test_overrides_reach_everything() -> None:
    fault = [{"kind": "link_down", "target": "p1.t0-0.t1-1"}]
    data = {**SMALL, "fault": fault}
    s = Scenario.from_tables(
        data,
        overrides={
            "fault.0.at_ns": 77,
            "workload.size": 5,
            "transport.evs": 64,
            "seed": 3,
            "fabric.planes": 1,
        },
    )
    assert s.faults[0].at_ns == 77
    assert set(s.workload().size.tolist()) == {5}
    assert (s.transport, s.seed, s.topology.planes) == (Mrc(evs=64), 3, 1)
    assert data["fault"] == fault
    assert Scenario.from_tables(SMALL, overrides={"transport.name": "tcp"}).transport == Tcp()
    for key, words in (
        ("fault.1.at_ns", r"fault has entries 0\.\.0, not '1'"),
        ("workload.size.x", "workload.size is no table"),
        ("fabrik.planes", "fabrik is unknown; did you mean fabric"),
    ):
        with pytest.raises(UsageError, match=words):
            Scenario.from_tables(data, overrides={key: 1})


def test_settings_are_json_and_tell_runs_apart(tmp_path: Path) -> None:
    one = scenario()
    assert json.loads(json.dumps(one.settings())) == one.settings()
    assert one.settings() == scenario().settings()
    for change in (
        {"transport": {"evs": 64}},
        {"workload": {"kind": "permutation", "size": 1}},
        {"cost": {"gpus": 1}},
    ):
        assert scenario(**change).settings() != one.settings()
    (tmp_path / "m.cm").write_text("Nodes 4\nConnections 1\n0->1 start 0 size 5\n")
    named = {**SMALL, "workload": {"kind": "htsim", "file": "m.cm"}}
    before = Scenario.from_tables(named, folder=tmp_path).settings()
    (tmp_path / "m.cm").write_text("Nodes 4\nConnections 1\n0->1 start 0 size 6\n")
    assert Scenario.from_tables(named, folder=tmp_path).settings() != before
    (tmp_path / "m.cm").unlink()
    with pytest.raises(UsageError, match="cannot read"):
        Scenario.from_tables(named, folder=tmp_path).settings()


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"fabrics": {}}, "fabrics is unknown; did you mean fabric"),
        ({"fabric": 3}, "fabric is a table, not 3"),
        ({"fabric": {"hosts": 4, "plane": 2}}, "fabric.plane is unknown; did you mean planes"),
        ({"fabric": {"planes": 2}}, "fabric.hosts is missing"),
        ({"fabric": {"hosts": "many"}}, "fabric.hosts is a whole number, not 'many'"),
        ({"fabric": {"hosts": True}}, "fabric.hosts is a whole number, not True"),
        ({"fabric": {"hosts": 8, "host_gbps": "fast"}}, "fabric.host_gbps is a number"),
        ({"fabric": {"hosts": 8, "host_gbps": float("nan")}}, "fabric.host_gbps is a number"),
        ({"fabric": {"hosts": 8, "host_gbps": -1}}, r"\[fabric\] host_gbps = -1"),
        ({"fabric": {"hosts": 8, "switch_ns": "5 lightyears"}}, "fabric.switch_ns is a time"),
        ({"fabric": {"hosts": 8, "switch_ns": "0.3 ns"}}, "no whole number of the smallest unit"),
        ({"fabric": {"hosts": 8, "pods": 2}}, "pods = 2: two tiers have none"),
        ({"fabric": {"hosts": 8, "tiers": 3, "pods": 0, "t1_per_pod": 1, "t2_per_plane": 1}}, "pods = 0"),
        ({"fabric": {"hosts": 8, "tiers": 3, "pods": -1, "t1_per_pod": 1, "t2_per_plane": 1}}, "pods = -1"),
        ({"fabric": {"hosts": 0}}, "hosts = 0: must be 1 to 1048576"),
        ({"fabric": {"hosts": 10**30}}, "fabric.hosts = 10{30} is out of range"),
        ({"queues": {"ecn_min": "2 MB", "ecn_max": "1 MB"}}, r"\[queues\] ecn_min is above ecn_max"),
        ({"queues": {"pfc": 1}}, "queues.pfc is true or false, not 1"),
        ({"transport": {"name": "quic"}}, "no transport 'quic'; there is mrc, rocev2, tcp"),
        ({"transport": {"name": "mrc:no-brakes"}}, "no option 'no-brakes' of mrc"),
        ({"transport": {"name": 5}}, "transport.name is a text"),
        ({"transport": {"evz": 4}}, "transport.evz is unknown; did you mean evs"),
        ({"transport": {"dcqcn": True}}, r"transport.dcqcn is for rocev2, not for mrc.*\[transport.rocev2\]"),
        ({"transport": {"rocev2": {"rto": 4}}}, "transport.rocev2.rto is unknown; did you mean rto_ns"),
        ({"transport": {"evs": 0}}, "evs = 0"),
        ({"transport": {"cc_config": 5}}, "transport.cc_config is a table"),
        ({"workload": {}}, "workload.kind = None: permutation, incast"),
        ({"workload": {"kind": "permute"}}, "workload.kind = 'permute'"),
        ({"sample": {"interval_ns": 0}}, r"\[sample\] interval_ns = 0"),
        ({"sample": {"flows": [1.5]}}, "sample.flows is a list of whole numbers"),
        ({"sample": {"hosts": [-1]}}, "hosts = -1: numbers of hosts count from 0"),
        ({"sample": {"flows": [1 << 32]}}, "flows = 4294967296: numbers of flows count from 0"),
        ({"sample": {"flows": 1}}, "sample.flows is a list of whole numbers"),
        ({"stop": {"until_ns": -5}}, r"\[stop\] until_ns = -5"),
        ({"stop": {"wall_s": 0}}, r"\[stop\] wall_s"),
        ({"cost": {"gpu": 5}}, "cost.gpu is unknown"),
        ({"seed": "x"}, "seed is a whole number"),
        ({"fault": {"kind": "link_down"}}, r"fault is a list of tables, each written as \[\[fault\]\]"),
        ({"fault": [5]}, "fault.0 is a table"),
    ],
)
def test_wrong_keys_and_values_are_named(tables: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        scenario(**tables)


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ({"kind": "permutation"}, r"\[workload\] permutation.size is missing"),
        ({"kind": "permutation", "size": "big"}, "permutation.size is bytes"),
        ({"kind": "permutation", "size": 5, "sise": 5}, "permutation.sise is unknown; did you mean size"),
        ({"kind": "permutation", "size": -5}, "size -5 is negative"),
        (
            {"kind": "permutation", "size": "greedy"},
            r"flows without end; say when to stop: \[stop\] until_ns",
        ),
        ({"kind": "incast", "size": 5, "senders": [0, 1]}, "host 0 sends to itself"),
        ({"kind": "incast", "size": 5, "senders": 9}, r"senders = 9: there are 1\.\.6"),
        ({"kind": "incast", "size": 5, "senders": [9]}, r"host 9 is outside 0\.\.7"),
        ({"kind": "incast", "size": 5, "senders": 2, "victim": [1]}, "source and destination"),
        ({"kind": "ring_all_reduce", "size": 5, "window": 2}, "ring_all_reduce.window is unknown"),
        ({"kind": "ring_all_reduce", "size": 5, "hosts": 9}, "hosts = 9: the fabric has 8"),
        ({"kind": "ring_all_reduce", "size": 5, "hosts": [1, 8]}, r"the fabric has hosts 0\.\.7"),
        ({"kind": "ring_all_reduce", "size": 5, "hosts": [1, 1]}, "host 1 is listed twice"),
        ({"kind": "ring_all_reduce", "size": 5, "order": "random"}, "order = 'random'"),
        ({"kind": "ring_all_reduce", "size": 5, "rounds": 0}, "rounds = 0"),
        ({"kind": "hierarchical_all_reduce", "size": 5, "rails": 3}, "no whole nodes"),
        (
            {"kind": "training", "steps": 1, "compute_ns": 1, "collective": {"kind": "ring"}},
            "collective.kind = 'ring'",
        ),
        (
            {
                "kind": "training",
                "steps": 0,
                "compute_ns": 1,
                "collective": {"kind": "all_to_all", "size": 5},
            },
            "0 steps",
        ),
        (
            {"kind": "arrivals", "load": 0.5, "duration_ns": "1 ms", "sizes": "web"},
            "no size distribution 'web'",
        ),
        ({"kind": "arrivals", "load": 0.5, "duration_ns": "1 ms", "sizes": "x.csv"}, "cannot read"),
        ({"kind": "flows", "flow": [{"source": 1, "destination": 1, "size": 5}]}, "host 1 sends to itself"),
        ({"kind": "flows", "flow": [{"source": 1, "destination": 0}]}, "flow.0.size is missing"),
        (
            {"kind": "flows", "flow": [{"source": 1, "destination": 0, "size": 5, "id": "a"}] * 2},
            "flow.1: the id 'a' is taken",
        ),
        (
            {"kind": "flows", "flow": [{"source": 1, "destination": 0, "size": 5, "after": ["b"]}]},
            "after names 'b', which is no earlier flow",
        ),
        ({"kind": "mix", "part": [{"kind": "mix"}]}, "part.0: kind = 'mix'"),
        ({"kind": "mix", "part": [3]}, "part.0 is a table"),
        ({"kind": "htsim", "file": "none.cm"}, "cannot read the connection matrix"),
        ({"kind": "chakra", "prefix": "none"}, "no trace none.0.et"),
    ],
)
def test_wrong_workloads_are_named(workload: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        scenario(workload).workload()


def test_workloads_of_every_kind() -> None:
    assert len(pairs(scenario())) == 8
    far = pairs(scenario({"kind": "permutation", "size": 5, "across_t0": True}))
    assert all(a // 2 != b // 2 for a, b in far)
    many = scenario({"kind": "incast", "size": 5, "senders": 4, "receiver": 6, "victim": [0, 7]})
    assert pairs(many) == [(1, 6), (2, 6), (3, 6), (4, 6), (0, 7)]
    ring = scenario({"kind": "ring_all_reduce", "size": 800, "order": "across-t0", "rounds": 2})
    assert dict(pairs(ring)) == {0: 2, 2: 4, 4: 6, 6: 1, 1: 3, 3: 5, 5: 7, 7: 0}
    assert len(ring.workload().collectives) == 2
    kinds = ["all_gather", "reduce_scatter", "tree_all_reduce", "all_to_all", "broadcast", "send_recv"]
    for kind in kinds:
        work = scenario({"kind": kind, "size": 4096, "hosts": [3, 1, 5]}).workload()
        assert set(work.node.tolist()) <= {3, 1, 5}
        assert work.collectives[0].ranks == 3
    node = scenario({"kind": "hierarchical_all_reduce", "size": 4096, "rails": 4}).workload()
    assert {
        abs(a - b) for a, b in pairs(scenario({"kind": "hierarchical_all_reduce", "size": 8, "rails": 4}))
    } == {4}
    assert node.collectives[0].ranks == 8
    job = scenario(
        {
            "kind": "training",
            "steps": 2,
            "compute_ns": "1 ms",
            "collective": {"kind": "all_to_all", "size": "1 MB"},
        }
    )
    assert len(job.workload().steps) == 2
    mix = scenario({"kind": "mix", "part": [SMALL["workload"], {"kind": "send_recv", "size": 1}]})
    assert mix.workload().groups == ["permutation", "send_recv"]


def test_flows_one_by_one() -> None:
    flow = [
        {"source": 0, "destination": 1, "size": "3 GB", "id": "first", "start_ns": "3 s", "qp": 2},
        {"source": 1, "destination": 2, "size": 9, "after": ["first"], "delay_ns": 4, "group": "second"},
    ]
    work = scenario({"kind": "flows", "flow": flow}).workload()
    assert work.size.tolist() == [3_000_000_000, 9]
    assert work.start.tolist() == [3_000_000_000, 0]
    assert (work.qp.tolist(), work.delay.tolist()) == ([2, -1], [0, 4])
    assert work.dependencies(1).tolist() == [0]
    assert work.groups == ["flows", "second"]


def test_arrivals_know_the_rate_of_a_host(tmp_path: Path) -> None:
    work = scenario({"kind": "arrivals", "load": 0.5, "duration_ns": "10 ms", "sizes": 100_000}).workload()
    assert work.bytes * 8 / 10_000_000 == pytest.approx(0.5 * 8 * 200, rel=0.1)
    (tmp_path / "sizes.csv").write_text("50, 0.5\n100, 1\n")
    data = {
        **SMALL,
        "workload": {"kind": "arrivals", "load": 0.01, "duration_ns": "1 ms", "sizes": "sizes.csv"},
    }
    s = Scenario.from_tables(data, folder=tmp_path)
    assert 50 <= s.workload().size.min() <= s.workload().size.max() <= 100
    assert list(s.files()) == ["sizes.csv"]


@pytest.mark.parametrize("name", [name for name, _ in Scenario.list()])
def test_built_in_scenarios_load(name: str) -> None:
    for quick in (True, False):
        s = Scenario.load(name, quick=quick)
        assert s.about
        json.dumps(s.settings())
        if quick and name != "full-131072":
            assert s.workload().n > 0
    # Every one runs with every transport by the name alone.
    for transport in ("mrc", "rocev2", "tcp"):
        if name != "full-131072":
            assert Scenario.load(name, overrides={"transport.name": transport}).transport.name == transport


def test_the_list_of_scenarios() -> None:
    names = [name for name, _ in Scenario.list()]
    assert names == sorted(names)
    assert {"two-hosts", "incast-victim", "full-131072"} <= set(names)
    with pytest.raises(UsageError, match=r"no scenario 'fulll'; there are .*two-hosts"):
        Scenario.load("fulll")
    with pytest.raises(UsageError, match="cannot read"):
        Scenario.load("none.toml")


def test_the_largest_fabric_as_described() -> None:
    s = Scenario.load("full-131072", quick=True)
    assert isinstance(s.topology, Clos)
    assert (s.topology.t0, s.topology.t1, s.topology.hosts * s.topology.planes) == (512, 256, 1 << 20)
    dead = [f.target for f in s.faults if f.kind == "link_down"]
    assert len(set(dead)) == len(dead) == round(8 * 512 * 256 * 0.01)
    assert [f.target for f in s.faults if f.kind == "switch_down"] == ["p3.t1-100"]
    work = s.workload()
    assert (work.n, work.bytes) == (131_072, 131_072 * 64_000)


def test_toml_errors_name_the_line(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("[fabric\n")
    with pytest.raises(UsageError, match=r"bad.toml: .*line 1"):
        Scenario.load(tmp_path / "bad.toml")


def faults(*tables: dict[str, Any], **fabric: Any) -> tuple[Fault, ...]:
    return plan_faults(tables, Clos(**{**SMALL["fabric"], **fabric}))


def test_faults_by_name() -> None:
    assert faults({"kind": "link_loss", "target": "h3.p2", "value": 1e-6, "direction": "up", "at_ns": 5}) == (
        Fault(5, "link_loss", "h3.p2", 1e-6, "up"),
    )
    together = faults({"kind": "port_down", "target": ["h0.p1", "h0.p2"], "at_ns": 9, "duration_ns": 3})
    assert together == (
        Fault(9, "port_down", "h0.p1"), Fault(9, "port_down", "h0.p2"),
        Fault(12, "port_up", "h0.p1"), Fault(12, "port_up", "h0.p2"),
    )  # fmt: skip
    assert faults({"kind": "switch_reboot", "target": "p1.t1-0", "duration_ns": "2 s"}) == (
        Fault(0, "switch_reboot", "p1.t1-0", 2e9),
    )
    degraded = faults({"kind": "link_rate", "target": "p2", "value": 0.25, "duration_ns": 5})
    assert degraded[1] == Fault(5, "link_rate", "p2", 1.0)
    flaps = faults(
        {"kind": "link_down", "target": "h3", "at_ns": 10, "times": 3, "every_ns": 100, "duration_ns": 40}
    )
    assert [(f.at_ns, f.kind) for f in flaps] == [
        (t, k) for at in (10, 110, 210) for t, k in ((at, "link_down"), (at + 40, "link_up"))
    ]


def test_faults_drawn_from_many() -> None:
    drawn = faults({"kind": "link_down", "pick": {"of": "t0-t1", "fraction": 0.25}})
    assert len({f.target for f in drawn}) == 4
    fabric = build(Clos(**SMALL["fabric"]))
    assert all(fabric.tier_of_links()[fabric.link(f.target)] == 1 for f in drawn)
    assert drawn == faults({"kind": "link_down", "pick": {"of": "t0-t1", "fraction": 0.25}})
    assert drawn != faults({"kind": "link_down", "pick": {"of": "t0-t1", "fraction": 0.25}, "seed": 2})
    plane = faults({"kind": "switch_down", "pick": {"of": "t0", "count": 4, "plane": 2}})
    assert sorted(f.target for f in plane) == [f"p2.t0-{i}" for i in range(4)]
    assert len(faults({"kind": "port_down", "pick": {"of": "host-t0", "fraction": 1.0}})) == 16


def test_poisson_flaps() -> None:
    table = {"kind": "link_down", "pick": {"of": "t0-t1", "fraction": 1.0}, "poisson": True, "at_ns": 1000}
    found = faults({**table, "every_ns": 1000, "until_ns": 2_001_000, "duration_ns": 10})
    begun = [f.at_ns for f in found if f.kind == "link_down"]
    assert len(begun) == pytest.approx(2000, rel=0.1)
    assert min(begun) >= 1000
    assert max(begun) < 2_001_000
    assert [f.at_ns for f in found] == sorted(f.at_ns for f in found)
    assert len({f.target for f in found}) == 16


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"kind": "link_down"}, r"\[fault.0\] give target .* or pick"),
        ({"kind": "link_down", "target": "h9.p1"}, r"\[fault.0\] no link h9.p1: 8 hosts"),
        ({"kind": "link_down", "target": []}, "target is an empty list"),
        ({"kind": "switch_down", "target": "p1.t1-9"}, "no switch p1.t1-9"),
        ({"kind": "link_melts", "target": "h0.p1"}, "no fault 'link_melts'"),
        ({"kind": "link_loss", "target": "h0.p1", "value": 1.5}, "value = 1.5: must be 0 to 1"),
        ({"kind": "link_rate", "target": "h0.p1", "value": 0.0}, "link_rate h0.p1: value"),
        ({"kind": "link_down", "target": "h0.p1", "direction": "left"}, "direction = 'left'"),
        ({"kind": "link_down", "target": "h0.p1", "at_ns": -4}, "at_ns = -4"),
        ({"kind": "link_down", "target": "h0.p1", "duration": 4}, "did you mean duration_ns"),
        ({"kind": "link_down", "target": "h0.p1", "duration_ns": 0}, "duration_ns = 0"),
        ({"kind": "link_up", "target": "h0.p1", "duration_ns": 4}, "it is a repair"),
        ({"kind": "switch_reboot", "target": "p1.t0-0"}, "needs duration_ns"),
        ({"kind": "link_down", "target": "h0.p1", "times": 2}, "every_ns > 0"),
        (
            {"kind": "link_down", "target": "h0.p1", "times": 2, "every_ns": 5, "duration_ns": 5},
            "does not end before",
        ),
        ({"kind": "link_down", "target": "h0.p1", "poisson": True, "every_ns": 5}, "goes with until_ns"),
        ({"kind": "link_down", "target": "h0.p1", "until_ns": 5}, "goes with until_ns"),
        (
            {"kind": "link_down", "target": "h0.p1", "poisson": True, "every_ns": 1, "until_ns": 1 << 40},
            "more than 1048576 faults",
        ),
        ({"kind": "link_down", "target": "h0", "times": (1 << 20) + 1, "every_ns": 5}, "the most is 1048576"),
        ({"kind": "link_down", "pick": {"of": "t2-t3", "count": 1}}, "of = 't2-t3': host-t0"),
        ({"kind": "link_down", "pick": {"of": "t1-t2", "count": 1}}, "the fabric has no t1-t2"),
        (
            {"kind": "link_down", "pick": {"of": "t0-t1", "count": 99}},
            "99 of t0-t1 asked for, the fabric has 16",
        ),
        ({"kind": "link_down", "pick": {"of": "t0-t1"}}, "count or fraction"),
        ({"kind": "link_down", "pick": {"of": "t0-t1", "fraction": 0.0}}, "fraction = 0"),
        ({"kind": "link_down", "pick": {"of": "t0-t1", "count": 1, "plane": 3}}, "no t0-t1 in plane 3"),
    ],
)
def test_wrong_faults_are_named(table: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        faults(table)


FABRIC = """
hosts = 3
planes = 1
[[switch]]
tier = 0
count = 2
[[switch]]
tier = 1
[[link]]
low = "h0"
high = "p1.t0-0"
[[link]]
low = "h1"
high = "p1.t0-1"
gbps = 25
[[link]]
low = "h2"
high = "p1.t0-1"
delay_ns = "100 ms"
[[link]]
low = "p1.t0-0"
high = "p1.t1-0"
gbps = 10
gbps_down = 5
[[link]]
low = "p1.t0-1"
high = "p1.t1-0"
delay_ns = 0
"""


def test_a_hand_made_fabric(tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text(FABRIC)
    data = {
        "fabric": {"file": "net.toml"},
        "workload": {"kind": "permutation", "size": 5},
        "fault": [{"kind": "link_down", "pick": {"of": "t0-t1", "count": 2}}],
    }
    s = Scenario.from_tables(data, folder=tmp_path)
    assert isinstance(s.topology, Graph)
    assert [(x.low, x.high) for x in s.topology.links][3] == ("p1.t0-0", "p1.t1-0")
    assert [x.delay_ns for x in s.topology.links] == [800, 800, 100_000_000, 800, 0]
    assert (s.topology.links[3].gbps, s.topology.links[3].gbps_down) == (10.0, 5.0)
    assert s.workload().n == 3
    assert [f.target for f in s.faults] == ["p1.t0-0.t1-0", "p1.t0-1.t1-0"]
    assert "net.toml" in s.settings()["files"]
    arrivals = {**data, "workload": {"kind": "arrivals", "load": 0.5, "duration_ns": "1 ms", "sizes": 1000}}
    flows = Scenario.from_tables(arrivals, folder=tmp_path).workload()
    assert flows.bytes * 8 / 1e6 == pytest.approx(0.5 * (100 + 25 + 100), rel=0.1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("hosts = 3", "hosts = 2"), "there is no host or switch h2"),
        (('low = "h1"', 'low = "p1.t0-7"'), "no host or switch p1.t0-7"),
        (("tier = 1", "tier = 1\nspeed = 3"), "switch.1.speed is unknown"),
        (("count = 2", "count = 0"), r"\[switch.0\] count 0"),
        (("gbps = 25", "gbps = -1"), "gbps = -1"),
        (("hosts = 3", 'hosts = "3"'), "hosts .* is a whole number"),
        (("hosts = 3", "hosts = 3\nracks = 4"), "racks is unknown"),
        (('high = "p1.t0-0"', 'hight = "p1.t0-0"'), "link.0.hight is unknown; did you mean high"),
    ],
)
def test_wrong_fabrics_are_named(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    path = tmp_path / "net.toml"
    assert change[0] in FABRIC
    path.write_text(FABRIC.replace(*change, 1))
    with pytest.raises(UsageError, match=f"net.toml: .*{words}"):
        read_graph(path)


def test_a_fabric_without_links(tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text("hosts = 2\n")
    with pytest.raises(UsageError, match=r"\[\[switch\]\] tables"):
        read_graph(tmp_path / "net.toml")


def test_a_fabric_of_htsim(tmp_path: Path) -> None:
    (tmp_path / "net.topo").write_text(
        "Nodes 4\nTiers 2\nPodsize 4\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 2\nRadix_Up 2\n"
        "Downlink_Latency_ns 500\nTier 1\nDownlink_speed_Gbps 100\nRadix_Down 2\nDownlink_Latency_ns 500\n"
    )
    data = {"fabric": {"file": "net.topo", "planes": 2}, "workload": {"kind": "permutation", "size": 5}}
    topology = Scenario.from_tables(data, folder=tmp_path).topology
    assert isinstance(topology, Clos)
    assert (topology.hosts, topology.planes, topology.t1) == (4, 2, 2)
    with pytest.raises(UsageError, match=r"fabric\.planes is a whole number"):
        Scenario.from_tables({**data, "fabric": {"file": "net.topo", "planes": "two"}}, folder=tmp_path)
    with pytest.raises(UsageError, match=r"fabric\.hosts is unknown"):
        Scenario.from_tables({**data, "fabric": {"file": "net.topo", "hosts": 4}}, folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("64 KiB", 65536),
        ("1MB", 10**6),
        ("1.5 GB", 1_500_000_000),
        (7, 7),
        ("7", 7),
        ("1e3 b", 1000),
        ("greedy", GREEDY),
    ],
)
def test_bytes_as_people_write_them(text: str | int, value: int) -> None:
    assert parse_bytes(text, "x") == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("20 us", 20_000),
        ("1.5 ms", 1_500_000),
        ("2 s", 2 * 10**9),
        (800, 800),
        ("1 min", 60 * 10**9),
        ("3 µs", 3000),
    ],
)
def test_times_as_people_write_them(text: str | int, value: int) -> None:
    assert parse_ns(text, "x") == value


@pytest.mark.parametrize(
    "text", ["", "5 parsec", "-3 us", "us", "1,5 ms", "0.0001 ns", "1e999999999 s", "9" * 99, True]
)
def test_no_amounts(text: Any) -> None:
    with pytest.raises(UsageError, match="x "):
        parse_ns(text, "x")
    with pytest.raises(UsageError, match="x "):
        parse_bytes(text, "x")


def test_numpy_is_not_needed_to_read_settings() -> None:
    s = scenario({"kind": "ring_all_reduce", "size": 800})
    assert not any(isinstance(v, np.generic) for v in s.settings()["workload"].values())


def blocks(language: str) -> list[str]:
    text = (Path(__file__).parents[3] / "docs" / "sim-workloads.md").read_text()
    return [part.split("```")[0] for part in text.split(f"```{language}\n")[1:]]


def test_the_files_of_the_documentation_load(tmp_path: Path) -> None:
    whole, net = blocks("toml")
    (tmp_path / "whole.toml").write_text(whole)
    (tmp_path / "net.toml").write_text(net)
    s = Scenario.load(tmp_path / "whole.toml", quick=True)
    assert len(s.workload().steps) == 3
    assert Scenario.load(tmp_path / "whole.toml", overrides={"transport.name": "rocev2"}).transport == Rocev2(
        qps=1
    )
    assert read_graph(tmp_path / "net.toml").links[2].gbps_down == 50.0


def test_the_documentation_names_every_kind() -> None:
    text = (Path(__file__).parents[3] / "docs" / "sim-workloads.md").read_text()
    assert [kind for kind in KINDS if f"`{kind}`" not in text] == []
