"""Generators of workloads: who sends what to whom, after what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softmrc.errors import UsageError
from softmrc.sim.builder import Builder
from softmrc.sim.sizes import SizeDistribution, named_sizes, read_sizes
from softmrc.sim.workload import GREEDY, Int64s, TaskKind, Workload
from softmrc.sim.workloads import (
    alg_bandwidth,
    all_to_all,
    broadcast,
    bus_bandwidth,
    bus_factor,
    hierarchical_all_reduce,
    incast,
    permutation,
    permutation_pairs,
    poisson_flows,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
    send_recv_ring,
    training_job,
    tree_all_reduce,
)


def built(add: Callable[[Builder], Any], hosts: int) -> tuple[Workload, Any]:
    b = Builder()
    out = add(b)
    return b.build(hosts=hosts), out


def sent(work: Workload, hosts: int) -> list[int]:
    return np.bincount(work.node[work.sends], work.size[work.sends], hosts).astype(int).tolist()


def received(work: Workload, hosts: int) -> list[int]:
    return np.bincount(work.peer[work.sends], work.size[work.sends], hosts).astype(int).tolist()


def heard_from(work: Workload, ids: Int64s) -> set[int]:
    """Hosts whose data can be in what these messages bring: they or what they waited for began there."""
    todo, seen = [int(i) for i in ids.reshape(-1) if i >= 0], set()
    while todo:
        task = todo.pop()
        if task not in seen:
            seen.add(task)
            todo += work.dependencies(task).tolist()
    return {int(work.node[t]) for t in seen}


def waits_only_for_its_own(work: Workload) -> bool:
    """Every send waits only for what its host can see: messages to it, and tasks of its own."""
    for task in work.sends.tolist():
        for dep in work.dependencies(task).tolist():
            if work.node[task] not in (work.peer[dep], work.node[dep]):
                return False
    return True


def test_permutation_hits_everybody_once_and_nobody_itself() -> None:
    work, ids = built(lambda b: permutation(b, 100, 5000, seed=3), 100)
    assert work.node[ids].tolist() == list(range(100))
    assert sorted(work.peer[ids].tolist()) == list(range(100))
    assert work.bytes == 500_000
    assert permutation_pairs(100, 3).tolist() == work.peer.tolist()
    assert permutation_pairs(100, 4).tolist() != work.peer.tolist()


def test_permutation_of_two_and_across_racks() -> None:
    assert permutation_pairs(2, 1).tolist() == [1, 0]
    to = permutation_pairs(64, 1, apart=16)
    assert sorted(to.tolist()) == list(range(64))
    assert (to // 16 != np.arange(64) // 16).all()
    assert permutation_pairs(4, 9, apart=2).tolist() in (
        [2, 3, 0, 1],
        [3, 2, 1, 0],
        [2, 3, 1, 0],
        [3, 2, 0, 1],
    )
    with pytest.raises(UsageError, match="leaves groups of 8"):
        permutation_pairs(12, 1, apart=8)
    with pytest.raises(UsageError, match="at least 2 hosts"):
        permutation_pairs(1, 1)


def test_permutations_are_drawn_evenly() -> None:
    drawn = [tuple(permutation_pairs(4, seed).tolist()) for seed in range(900)]
    counts = np.unique(drawn, axis=0, return_counts=True)[1]
    assert len(counts) == 9
    assert counts.min() > 50


def test_incast_with_a_victim() -> None:
    work, (ids, victim) = built(lambda b: incast(b, [4, 5, 6], 0, GREEDY, victim=(8, 1), victim_size=77), 16)
    assert work.peer[ids].tolist() == [0, 0, 0]
    assert (work.node[victim], work.peer[victim], work.size[victim]) == (8, 1, 77)
    assert work.groups == ["incast", "victim"]
    assert built(lambda b: incast(b, [1], 0, 5), 2)[1][1] == -1
    with pytest.raises(UsageError, match="host 4 is listed twice"):
        built(lambda b: incast(b, [4, 4], 0, 5), 5)


def test_send_recv_ring() -> None:
    work, done = built(lambda b: send_recv_ring(b, [3, 1, 2], 100, rounds=2), 4)
    assert work.n == 6
    assert work.dependencies(3).tolist() == [0, 2]
    assert done.tolist() == [[5, 3], [3, 4], [4, 5]]
    assert work.collectives[0].size == 200


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("hosts", [[0, 1], [2, 0, 1], list(range(8))])
def test_ring_all_reduce(hosts: list[int], pieces: int) -> None:
    n, size = len(hosts), 1001
    work, done = built(lambda b: ring_all_reduce(b, hosts, size, pieces=pieces, step_ns=7), 8)
    assert work.n == 2 * (n - 1) * n * pieces
    assert work.bytes == 2 * (n - 1) * size
    for rank, host in enumerate(hosts):
        assert set(work.peer[done[rank]]) == {host}
        assert heard_from(work, done[rank]) == set(hosts)
    assert waits_only_for_its_own(work)
    assert (work.delay == np.where(np.arange(work.n) < n * pieces, 0, 7)).all()
    to = dict(zip(work.node.tolist(), work.peer.tolist(), strict=True))
    assert to == {h: hosts[(i + 1) % n] for i, h in enumerate(hosts)}


def test_ring_schedule_moves_each_shard_round() -> None:
    """Sizes tell the shards apart: what a rank sends on in a step is what it received in the step before."""
    work, _ = built(lambda b: ring_all_reduce(b, 5, 12), 5)
    assert sorted(set(work.size.tolist())) == [2, 3]
    for task in range(5, work.n):
        (dep,) = work.dependencies(task).tolist()
        assert work.peer[dep] == work.node[task]
        assert work.size[dep] == work.size[task]


def test_halves_of_the_ring() -> None:
    work, _ = built(lambda b: ring_reduce_scatter(b, 4, 400), 4)
    assert sent(work, 4) == [300] * 4
    b = Builder()
    done = ring_reduce_scatter(b, 4, 403)
    done = ring_all_gather(b, 4, 403, after=done)
    whole = b.build(hosts=4)
    together, _ = built(lambda b: ring_all_reduce(b, 4, 403), 4)
    assert whole.size.tolist() == together.size.tolist()
    # The second half also waits at every step for what its rank was given to wait for.
    assert [whole.dependencies(i).tolist()[0] for i in range(4, 16)] == together.dep_idx.tolist()[:12]
    assert all(set(together.dependencies(i)) <= set(whole.dependencies(i)) for i in range(whole.n))
    assert [c.kind for c in whole.collectives] == ["reduce_scatter", "all_gather"]


@pytest.mark.parametrize("window", [0, 1, 2, 9])
def test_all_to_all(window: int) -> None:
    work, done = built(lambda b: all_to_all(b, [0, 2, 1, 4, 3], 503, window=window), 5)
    pairs = set(zip(work.node.tolist(), work.peer.tolist(), strict=True))
    assert len(pairs) == work.n == 20
    assert set(work.size.tolist()) == {100}
    for rank, host in enumerate([0, 2, 1, 4, 3]):
        assert set(work.peer[done[rank]]) == {host}
        assert set(work.node[done[rank]]) == {0, 1, 2, 3, 4} - {host}
    if window in (1, 2):
        waiting = np.diff(work.dep_ptr) == 1
        assert waiting.sum() == 5 * (4 - window)
        assert (work.node[work.dep_idx] == work.node[waiting]).all()


@pytest.mark.parametrize("trees", [1, 2])
@pytest.mark.parametrize("n", [2, 3, 6, 7, 13])
def test_tree_all_reduce(n: int, trees: int) -> None:
    work, done = built(lambda b: tree_all_reduce(b, n, 1000, pieces=3, trees=trees), n)
    assert work.bytes == 2 * (n - 1) * 1000
    assert waits_only_for_its_own(work)
    for rank in range(n):
        assert heard_from(work, done[rank]) | {rank} == set(range(n))
        ids = done[rank][done[rank] >= 0]
        assert set(work.peer[ids]) == {rank}
        assert len(ids) >= 3 * trees
    if trees == 2 and n == 6:
        # Nobody is a leaf of both trees, so every rank sends more than its own buffer.
        assert min(sent(work, n)) > 1000


@pytest.mark.parametrize("shape", ["tree", "chain"])
def test_broadcast(shape: str) -> None:
    work, got = built(lambda b: broadcast(b, 6, 999, root=2, shape=shape, pieces=4), 6)
    assert work.bytes == 5 * 999
    assert received(work, 6) == [999, 999, 0, 999, 999, 999]
    assert got[2].tolist() == [-1] * 4
    for rank in (0, 1, 3, 4, 5):
        assert 2 in heard_from(work, got[rank])
    assert waits_only_for_its_own(work)
    if shape == "chain":
        assert max(sent(work, 6)) == 999


def test_everything_waits_for_what_it_is_given() -> None:
    generators: list[Callable[[Builder, Int64s], Any]] = [
        lambda b, r: ring_all_reduce(b, 4, 4096, after=r),
        lambda b, r: tree_all_reduce(b, 4, 4096, after=r),
        lambda b, r: broadcast(b, 4, 4096, after=r),
        lambda b, r: all_to_all(b, 4, 4096, after=r),
        lambda b, r: all_to_all(b, 4, 4096, window=1, after=r),
        lambda b, r: send_recv_ring(b, 4, 4096, after=r),
        lambda b, r: hierarchical_all_reduce(b, 2, 2, 4096, after=r),
    ]
    for add in generators:
        b = Builder()
        ready = b.computes(np.arange(4), 100)
        add(b, ready)
        work = b.build(hosts=4)
        for task in work.sends.tolist():
            assert ready[work.node[task]] in closure(work, task)
        with pytest.raises(UsageError, match="3 ranks"):
            add(Builder(), np.array([-1, -1, -1]))


def test_hierarchical() -> None:
    work, done = built(lambda b: hierarchical_all_reduce(b, 3, 4, 8_000_000, inside_gbps=480, pieces=2), 12)
    # 6 MB of 8 move inside, at 60 GB/s: 100 us, before and after.
    assert set(work.delay[work.kind == TaskKind.COMPUTE].tolist()) == {0, 100_000}
    assert {
        (int(a) % 4, int(b) % 4) for a, b in zip(work.node[work.sends], work.peer[work.sends], strict=True)
    } == {(r, r) for r in range(4)}
    assert sent(work, 12) == pytest.approx([2_000_000 * 4 / 3] * 12, abs=2)
    for nic in range(12):
        assert heard_from(work, done[nic]) == set(range(12))
    assert [c.kind for c in work.collectives] == ["all_reduce"]
    assert (work.collectives[0].first, work.collectives[0].last) == (0, work.n)


def test_training_job() -> None:
    def add(b: Builder) -> Int64s:
        return training_job(
            b,
            4,
            lambda b, ready: ring_all_reduce(b, 4, 4096, after=ready),
            steps=3,
            compute_ns=1_000_000,
            jitter=0.05,
            buckets=2,
            seed=5,
        )

    work, barriers = built(add, 4)
    assert [name for name, _ in work.steps] == ["step 0", "step 1", "step 2"]
    assert [ids.tolist() for _, ids in work.steps] == [[b] for b in barriers]
    parts = work.delay[(work.kind == TaskKind.COMPUTE) & (work.group == work.groups.index("compute"))]
    assert len(parts) == 3 * 2 * 4
    assert len(set(parts.tolist())) == 12
    assert parts.mean() == pytest.approx(500_000, rel=0.1)
    # The first task of step 1 waits for the barrier alone; no send of step 1 can begin before it.
    for task in range(int(barriers[0]) + 1, int(barriers[1])):
        assert barriers[0] in closure(work, task)
    again, _ = built(add, 4)
    assert again.delay.tolist() == work.delay.tolist()
    with pytest.raises(UsageError, match="the collective has 3 ranks"):
        training_job(Builder(), 4, lambda b, r: r[:3], steps=1, compute_ns=1)


def closure(work: Workload, task: int) -> set[int]:
    todo, seen = [task], set()
    while todo:
        for dep in work.dependencies(todo.pop()).tolist():
            if dep not in seen:
                seen.add(dep)
                todo.append(dep)
    return seen


def test_poisson_flows_offer_the_load() -> None:
    sizes = named_sizes("websearch")

    def add(b: Builder) -> Int64s:
        return poisson_flows(b, 20, sizes, load=0.6, host_gbps=100, duration_ns=100_000_000, seed=2)

    work, ids = built(add, 20)
    offered = work.bytes * 8 / 100_000_000 / (20 * 100)
    assert offered == pytest.approx(0.6, rel=0.1)
    assert (np.diff(work.start[ids]) >= 0).all()
    assert work.start.max() < 100_000_000
    gaps = np.diff(work.start)
    assert np.std(gaps) == pytest.approx(np.mean(gaps), rel=0.1)
    with pytest.raises(UsageError, match="no flow arrives"):
        built(lambda b: poisson_flows(b, 2, sizes, load=0.1, host_gbps=1, duration_ns=10), 2)
    with pytest.raises(UsageError, match="load 3"):
        built(lambda b: poisson_flows(b, 2, sizes, load=3, host_gbps=1, duration_ns=10), 2)


def test_sizes_follow_their_table() -> None:
    sizes = named_sizes("datamining")
    drawn = sizes.draw(100_000, np.random.default_rng(1))
    for size, share in zip(sizes.sizes[1:], sizes.shares[1:], strict=True):
        assert (drawn <= size).mean() == pytest.approx(share, abs=0.01)
    assert drawn.mean() == pytest.approx(sizes.mean, rel=0.1)
    assert named_sizes("websearch").mean == pytest.approx(1.7e6, rel=0.05)
    assert SizeDistribution((4096,), (1.0,)).mean == 4096
    assert set(SizeDistribution((4096,), (1.0,)).draw(9, np.random.default_rng(1)).tolist()) == {4096}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("100,0\n50,1\n", "must not fall"),
        ("100,0\n200,0.9\n", "last share of a distribution is 1"),
        ("100,0\nx,1\n", r"sizes.csv:2: expected bytes, share"),
        ("100,0,1\n", r"sizes.csv:1: .*3 cells"),
        ("0,0\n10,1\n", "from 0 to 10 bytes"),
        ("100,-0.1\n200,1", "begin below 0"),
        ("# nothing\n", "at least one"),
    ],
)
def test_bad_size_files(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "sizes.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match=words):
        read_sizes(path)


def test_a_size_file(tmp_path: Path) -> None:
    path = tmp_path / "sizes.csv"
    path.write_text("# bytes, share\n100, 0\n\n300, 1\n")
    assert read_sizes(path).mean == 200
    with pytest.raises(UsageError, match="cannot read"):
        read_sizes(tmp_path / "other.csv")
    with pytest.raises(UsageError, match="there are websearch, datamining"):
        named_sizes("web")


def test_bandwidths_are_those_of_nccl_tests() -> None:
    # 1 GB in 80 ms over 8 ranks: 100 Gb/s of algorithm bandwidth.
    assert alg_bandwidth(1_000_000_000, 80_000_000) == 100
    assert bus_bandwidth("all_reduce", 8, 1_000_000_000, 80_000_000) == 175
    assert bus_bandwidth("all_gather", 8, 1_000_000_000, 80_000_000) == 87.5
    assert bus_factor("reduce_scatter", 2) == bus_factor("all_to_all", 2) == 0.5
    assert bus_factor("broadcast", 64) == bus_factor("send_recv", 64) == 1
    for call in (
        lambda: bus_factor("scan", 4),
        lambda: bus_factor("all_reduce", 1),
        lambda: alg_bandwidth(1, 0),
    ):
        with pytest.raises(UsageError):
            call()


@pytest.mark.parametrize(
    "add",
    [
        lambda b: ring_all_reduce(b, 1, 5),
        lambda b: ring_all_reduce(b, 4, -5),
        lambda b: ring_all_reduce(b, 4, 5, pieces=0),
        lambda b: ring_all_reduce(b, 4, 5, step_ns=-1),
        lambda b: all_to_all(b, 4, 5, window=-1),
        lambda b: tree_all_reduce(b, 4, 5, trees=3),
        lambda b: broadcast(b, 4, 5, root=4),
        lambda b: broadcast(b, 4, 5, shape="star"),
        lambda b: hierarchical_all_reduce(b, 1, 4, 5),
        lambda b: hierarchical_all_reduce(b, 2, 4, 5, inside_gbps=0),
        lambda b: training_job(b, 2, ring_all_reduce, steps=0, compute_ns=1),
        lambda b: training_job(b, 2, ring_all_reduce, steps=1, compute_ns=1, jitter=0.5),
        lambda b: training_job(b, 2, ring_all_reduce, steps=1, compute_ns=1, buckets=0),
        lambda b: send_recv_ring(b, 4, 5, rounds=0),
        lambda b: poisson_flows(b, 1, named_sizes("websearch"), load=1, host_gbps=1, duration_ns=5),
    ],
)
def test_numbers_out_of_range_are_refused(add: Callable[[Builder], Any]) -> None:
    with pytest.raises(UsageError):
        add(Builder())
