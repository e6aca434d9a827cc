"""Fabrics made by hand, in files of ours and of htsim."""

from __future__ import annotations

from pathlib import Path

import pytest

from softmrc.errors import UsageError
from softmrc.sim.config import Clos, Graph
from softmrc.sim.graph_file import read_graph
from softmrc.sim.scenario import Scenario

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
