from __future__ import annotations

import numpy as np

from softmrc.paper import flows
from softmrc.sim.workload import GREEDY


def test_neighbours_of_the_ring_are_below_different_t0s():
    order = flows.crossing_order(64, 8)
    assert sorted(order) == list(range(64))
    racks = [host // 8 for host in order]
    assert all(a != b for a, b in zip(racks, racks[1:] + racks[:1], strict=True))


def test_parts_add_up():
    assert flows.parts(10, 3) == [4, 3, 3]
    assert flows.parts(2, 16) == [1, 1]


def test_ring_waits_for_what_came_from_the_left():
    work, rounds = flows.ring([0, 2, 1, 3], 1000, (3,), 2)
    work.validate(4)
    assert rounds[0].tolist() == list(range(3 * 4 * 2))
    assert work.bytes == 3 * 4 * 1000
    for task in range(8, 24):
        waits = work.dependencies(task)
        # Everything a host waits for was sent to it one step earlier.
        assert set(work.peer[waits]) == {work.node[task]}
        assert sorted(work.qp[waits]) == [0, 1]
        assert {int(w) // 8 for w in waits} == {task // 8 - 1}


def test_a_round_begins_at_a_host_when_all_its_rings_are_through():
    work, rounds = flows.ring([0, 2, 1, 3], 1000, (2, 1), 1, channels=3)
    work.validate(4)
    assert [len(ids) for ids in rounds] == [2 * 4 * 3, 4 * 3]
    assert work.bytes == 3 * 4 * 1000
    for task in rounds[1]:
        (kernel,) = work.dependencies(int(task))
        assert work.node[kernel] == work.node[task]
        came = work.dependencies(int(kernel))
        assert set(work.peer[came]) == {work.node[task]}
        assert sorted(work.qp[came]) == [0, 1, 2]


def test_all_to_all():
    work = flows.all_to_all(4, 4000, 2)
    work.validate(4)
    assert work.n == 4 * 3 * 2
    assert work.bytes == 4 * 3 * 1000
    pairs = {(int(a), int(b)) for a, b in zip(work.node, work.peer, strict=True)}
    assert len(pairs) == 12


def test_greedy_pairs_have_one_task_a_qp():
    work, tasks = flows.greedy_pairs([(0, 1), (1, 0)], 3)
    work.validate(2)
    assert tasks == [[0, 1, 2], [3, 4, 5]]
    assert np.all(work.size == GREEDY)
    assert work.qp.tolist() == [0, 1, 2, 0, 1, 2]
