"""Workloads: how they are built, and which are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softmrc.errors import UsageError
from softmrc.sim.builder import Builder
from softmrc.sim.workload import GREEDY, MAX_SIZE, MAX_TIME_NS, TaskKind, Workload


def two_sends() -> Workload:
    b = Builder()
    first = b.sends([0, 1], [1, 2], 4096)
    b.sends([1, 2], [0, 1], [8, 9], after=first, delay=5)
    return b.build(hosts=3)


def changed(name: str, at: int, value: int) -> Workload:
    work = two_sends()
    array = getattr(work, name).copy()
    array[at] = value
    return replace(work, **{name: array})


def graph(n: int, edges: list[tuple[int, int]]) -> Workload:
    """Delays 0..n-1; an edge (a, b): a waits for b."""
    b = Builder()
    b.computes(np.zeros(n, dtype=int), 1)
    waits: list[list[int]] = [[] for _ in range(n)]
    for a, other in edges:
        waits[a].append(other)
    ptr = np.cumsum([0, *(len(w) for w in waits)])
    return replace(
        b.build(),
        dep_ptr=ptr.astype(np.int64),
        dep_idx=np.array([d for w in waits for d in w], dtype=np.int32),
    )


def test_ids_count_up_and_rows_stretch() -> None:
    work = two_sends()
    assert work.n == 4
    assert work.size.tolist() == [4096, 4096, 8, 9]
    assert work.delay.tolist() == [0, 0, 5, 5]
    assert [work.dependencies(i).tolist() for i in range(4)] == [[], [], [0], [1]]
    assert work.sends.tolist() == [0, 1, 2, 3]
    assert work.bytes == 8209
    assert set(work.to_arrays()) >= {
        "kind",
        "node",
        "peer",
        "size",
        "start",
        "delay",
        "qp",
        "group",
        "dep_ptr",
    }


def test_a_table_of_dependencies_skips_and_merges() -> None:
    b = Builder()
    b.computes([0, 1, 2], 7)
    b.computes([0, 1], 1, after=[[0, -1, 2], [1, 1, 0]])
    shared = b.computes([0, 1], 1, after=[[0, 1, 2]])
    work = b.build(hosts=3)
    assert [work.dependencies(i).tolist() for i in range(3, 7)] == [[0, 2], [0, 1], [0, 1, 2], [0, 1, 2]]
    assert shared.tolist() == [5, 6]


def test_a_barrier_waits_for_all() -> None:
    b = Builder()
    ids = b.computes([0, 1, 2], [5, 6, 7])
    barrier = b.barrier([ids, [-1, -1, 0]], node=2)
    work = b.build(hosts=3)
    assert work.dependencies(barrier).tolist() == [0, 1, 2]
    assert (work.kind[barrier], work.delay[barrier], work.node[barrier]) == (TaskKind.COMPUTE, 0, 2)


def test_groups_steps_and_notes() -> None:
    b = Builder()
    b.sends(0, 1, 1, group="a")
    b.sends(1, 0, 1, group="b")
    b.step("step 0", [1, 0, 1])
    b.note("hm")
    b.note("hm")
    work = b.build(hosts=2)
    assert (work.groups, work.group.tolist()) == (["a", "b"], [0, 1])
    assert work.steps[0][0] == "step 0"
    assert work.steps[0][1].tolist() == [0, 1]
    assert work.notes == ["hm"]


def test_large_sizes_and_times() -> None:
    b = Builder()
    b.sends(0, 1, 1 << 40, start=1 << 45, delay=1 << 33)
    b.sends(0, 1, GREEDY)
    b.sends(0, 1, MAX_SIZE, start=MAX_TIME_NS)
    work = b.build(hosts=2)
    assert work.size.tolist() == [1 << 40, GREEDY, MAX_SIZE]
    assert work.bytes == (1 << 40) + MAX_SIZE
    assert work.start[0] == 1 << 45


def test_five_thousand_flows_of_one_host() -> None:
    b = Builder()
    ids = b.sends(np.zeros(5000, dtype=int), np.arange(1, 5001), 4096)
    assert len(ids) == b.build(hosts=5001).n == 5000


@pytest.mark.parametrize(
    ("add", "words"),
    [
        (lambda b: b.sends([0, 3], [1, 3], 1), "host 3 sends to itself"),
        (lambda b: b.sends([0, 1], [1, 2, 3], 1), "different lengths"),
        (lambda b: b.sends(0, 1, 1.5), "whole numbers"),
        (lambda b: b.sends(0, 1, 1, after=[0]), "not there yet"),
        (lambda b: b.sends([0, 1], [1, 0], 1, after=[[[0]]]), "shape"),
        (lambda b: b.sends(1 << 40, 1, 1), "32 bits"),
        (lambda b: b.build(), "without a single task"),
        (lambda b: [b.sends(0, 1, 1, group=str(i)) for i in range(65)], "the most is 64"),
    ],
)
def test_the_builder_refuses(add: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        add(Builder())


@pytest.mark.parametrize(
    ("name", "at", "value", "words"),
    [
        ("kind", 2, 7, "task 2: kind 7"),
        ("node", 3, 3, r"task 3: host 3 is outside 0\.\.2"),
        ("node", 3, -1, "task 3: host -1"),
        ("peer", 0, 9, "task 0: destination 9"),
        ("peer", 0, 0, "task 0: host 0 sends to itself"),
        ("kind", 0, 1, "no peer"),
        ("size", 1, -5, "task 1: size -5 is negative"),
        ("size", 1, MAX_SIZE + 1, "the most is"),
        ("start", 0, -1, "start -1"),
        ("delay", 0, MAX_TIME_NS + 1, "delay"),
        ("qp", 0, -2, "queue pair -2"),
        ("group", 0, 1, "group 1 has no name"),
        ("dep_idx", 0, 4, "task 2 waits for task 4; there are 4"),
        ("dep_idx", 0, 2, "2 -> 2"),
        ("dep_ptr", 4, 1, "dep_ptr"),
        ("dep_ptr", 3, 5, "dep_ptr falls after task 3"),
    ],
)
def test_validate_names_the_task(name: str, at: int, value: int, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        changed(name, at, value).validate(3)


def test_wrong_types_are_refused() -> None:
    work = two_sends()
    with pytest.raises(UsageError, match="'size' is no contiguous row of int64"):
        replace(work, size=work.size.astype(np.int32)).validate(3)
    with pytest.raises(UsageError, match="'qp' has 3 entries for 4 tasks"):
        replace(work, qp=work.qp[:3].copy()).validate(3)
    with pytest.raises(UsageError, match="no task 9"):
        work.dependencies(9)


def test_a_dependency_twice_or_without_end_is_refused() -> None:
    with pytest.raises(UsageError, match="task 1 lists dependency 0 twice"):
        graph(2, [(1, 0), (1, 0)]).validate(1)
    b = Builder()
    endless = b.sends(0, 1, GREEDY)
    b.computes(1, 1, after=endless)
    with pytest.raises(UsageError, match="task 1 waits for task 0, a greedy send"):
        b.build(hosts=2)


def test_a_cycle_is_named() -> None:
    with pytest.raises(UsageError, match=r"3 tasks wait for one another.*1 -> 3 -> 2 -> 1"):
        graph(5, [(1, 3), (3, 2), (2, 1), (4, 0)]).validate(1)


def test_a_long_chain_the_wrong_way_round_is_no_cycle() -> None:
    n = 20000
    chain = graph(n, [(i, i + 1) for i in range(n - 1)])
    chain.validate(1)
    assert len(chain.dep_idx) == n - 1


@given(st.integers(2, 200), st.data())
def test_cycles_are_found_as_by_search(n: int, data: st.DataObject) -> None:
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    edges = sorted(set(data.draw(st.lists(pair, max_size=3 * n))))
    waits: dict[int, set[int]] = {i: set() for i in range(n)}
    for a, other in edges:
        waits[a].add(other)
    left = dict(waits)
    while ready := [i for i, w in left.items() if not w & left.keys()]:
        for i in ready:
            del left[i]
    work = graph(n, edges)
    if left:
        with pytest.raises(UsageError, match="wait for one another"):
            work.validate(1)
    else:
        work.validate(1)
