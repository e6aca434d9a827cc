"""Workloads of scenario files: every kind, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.sim.scenarios import SMALL, pairs, scenario

from softmrc.errors import UsageError
from softmrc.sim.scenario import Scenario


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
