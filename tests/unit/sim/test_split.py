"""Messages cut over several queue pairs."""

from __future__ import annotations

import numpy as np
import pytest

from softmrc.errors import UsageError
from softmrc.sim.builder import Builder
from softmrc.sim.scenario import Scenario
from softmrc.sim.split import split_over_qps
from softmrc.sim.workload import GREEDY, TaskKind
from softmrc.sim.workloads import ring_all_reduce, training_job


def test_parts_and_what_waits_for_them() -> None:
    b = Builder()
    first = b.sends([0, 1], [1, 2], [10, 2])
    middle = b.computes([1], 5, after=first[:1])
    b.sends([1, 2], [0, 1], [7, GREEDY], after=[[first[0], middle[0]], [first[1], -1]])
    b.step("s", [0, 2])
    b.collective("send_recv", 2, 10, 2)
    work = split_over_qps(b.build(hosts=3), 3)
    work.validate(3)
    assert work.size.tolist() == [4, 3, 3, 1, 1, 0, 0, 3, 2, 2, GREEDY, GREEDY, GREEDY]
    assert work.qp.tolist() == [0, 1, 2, 0, 1, 2, -1, 0, 1, 2, 0, 1, 2]
    assert work.node.tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2]
    waits = [work.dependencies(i).tolist() for i in range(work.n)]
    assert waits == [[]] * 6 + [[0, 1, 2]] + [[0, 1, 2, 6]] * 3 + [[3, 4, 5]] * 3
    assert work.steps[0][1].tolist() == [0, 1, 2, 6]
    assert (work.collectives[0].first, work.collectives[0].last) == (6, 13)


def test_a_job_keeps_its_bytes_and_steps() -> None:
    b = Builder()
    training_job(b, 8, lambda b, ready: ring_all_reduce(b, 8, 1001, after=ready), steps=2, compute_ns=10)
    plain = b.build(hosts=8)
    work = split_over_qps(plain, 16)
    work.validate(8)
    assert work.bytes == plain.bytes
    assert (work.kind == TaskKind.COMPUTE).sum() == (plain.kind == TaskKind.COMPUTE).sum()
    assert work.delay[work.steps[1][1]].tolist() == plain.delay[plain.steps[1][1]].tolist()
    assert np.bincount(work.qp[work.sends]).tolist() == [len(plain.sends)] * 16


def test_one_part_changes_nothing() -> None:
    b = Builder()
    b.sends(0, 1, 5)
    work = b.build()
    assert split_over_qps(work, 1) is work


def test_what_cannot_be_split() -> None:
    b = Builder()
    b.sends([0, 1], [1, 0], 5, qp=[-1, 3])
    with pytest.raises(UsageError, match="task 1 names its queue pair"):
        split_over_qps(b.build(), 2)
    for parts in (0, 1025):
        with pytest.raises(UsageError, match="split_qps"):
            split_over_qps(b.build(), parts)
    wide = Builder()
    ids = wide.sends(np.zeros(600, dtype=int), np.arange(1, 601), 5)
    wide.sends(np.arange(1, 601), 0, 5, after=np.broadcast_to(ids, (600, 600)))
    with pytest.raises(UsageError, match="use fewer parts"):
        split_over_qps(wide.build(), 64)


def test_scenarios_take_it() -> None:
    data = {
        "fabric": {"hosts": 4, "t1_per_plane": 0},
        "workload": {"kind": "send_recv", "size": 9, "split_qps": 2},
    }
    assert Scenario.from_tables(data).workload().size.tolist() == [5, 4] * 4
    data["workload"]["split_qps"] = "2"
    with pytest.raises(UsageError, match="split_qps is a whole number"):
        Scenario.from_tables(data).workload()
