"""Scenario files: how they are read, changed and refused; the built-in ones; those of the documentation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.sim.scenarios import SMALL, scenario

from softmrc.errors import UsageError
from softmrc.sim.config import Clos, Fault, Mrc, Queues, Rocev2, Tcp
from softmrc.sim.graph_file import read_graph
from softmrc.sim.scenario import Scenario
from softmrc.sim.scenario_workloads import KINDS


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
