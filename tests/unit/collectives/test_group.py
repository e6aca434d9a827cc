"""Collectives of real ranks over 127.0.0.1 against NumPy."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.unit.collectives.crew import Crew, crew

from softmrc.collectives import Buffer, Group, Op, Work, as_buffer, override
from softmrc.collectives.dtypes import dtype_named, known_dtypes, op_for
from softmrc.collectives.tuning import NEAR, Tuning
from softmrc.errors import UsageError

COUNTS = (0, 1, 7, 1000, 9001)


@pytest.fixture(
    scope="module",
    params=[
        (2, True, ""),
        (2, False, ""),
        (4, True, ""),
        (4, False, ""),
        (5, False, ""),
        (4, True, "abba"),
        (4, False, "abab"),
        (5, True, "bbaba"),
    ],
    ids=lambda each: f"{each[0]}, {'memory' if each[1] else 'network'}{each[2] and f', {each[2]}'}",
)
def ranks(request: pytest.FixtureRequest) -> Iterator[Crew]:
    size, local, hosts = request.param
    with crew(size, local=local, hosts=hosts) as made:
        yield made


@pytest.fixture(scope="module")
def three() -> Iterator[Crew]:
    with crew(3) as made:
        yield made


def data(dtype: str, count: int, rank: int) -> Any:
    chance = np.random.default_rng(1000 * count + rank)
    if dtype == "bool":
        return chance.random(count) < 0.5
    if dtype.startswith("complex"):
        return (chance.integers(-9, 9, count) + 1j * chance.integers(-9, 9, count)).astype(dtype)
    low = 0 if dtype.startswith("u") else -9
    return chance.integers(low, 9, count).astype(dtype)


REDUCERS = {
    Op.SUM: np.add,
    Op.PRODUCT: np.multiply,
    Op.MIN: np.minimum,
    Op.MAX: np.maximum,
    Op.BAND: np.bitwise_and,
    Op.BOR: np.bitwise_or,
    Op.BXOR: np.bitwise_xor,
}


def reduced(op: Op, dtype: str, columns: list[Any]) -> Any:
    """NumPy's word for it."""
    if dtype == "bool":
        named = {Op.SUM: Op.BOR, Op.MAX: Op.BOR, Op.PRODUCT: Op.BAND, Op.MIN: Op.BAND}
        op = named.get(op, op)
    if op is Op.AVG:
        return np.add.reduce(columns) / np.array(len(columns), dtype=dtype)
    if op is Op.PREMUL_SUM:
        columns = [column * np.array(rank + 1, dtype=dtype) for rank, column in enumerate(columns)]
        op = Op.SUM
    return REDUCERS[op].reduce(np.array(columns), axis=0, dtype=dtype)


def allowed(dtype: str) -> list[Op]:
    ops = []
    for op in Op:
        try:
            op_for(dtype_named(dtype), op)
        except UsageError:
            continue
        ops.append(op)
    return ops


NUMPY_TYPES = [dtype.name for dtype in known_dtypes() if dtype.name != "bfloat16"]


@pytest.mark.parametrize("dtype", NUMPY_TYPES)
def test_reductions_are_numpys_or_refused(three: Crew, dtype: str) -> None:
    """B39: every element type and operation is right, or refused before anything is sent."""

    def calls(group: Group) -> None:
        for op in Op:
            inputs = [data(dtype, 130, rank) for rank in range(group.size)]
            mine = inputs[group.rank].copy()
            if op not in allowed(dtype):
                with pytest.raises(UsageError):
                    group.all_reduce(mine, op)
                continue
            wanted = reduced(op, dtype, inputs)
            group.all_reduce(mine, op, factor=group.rank + 1)
            np.testing.assert_allclose(mine, wanted, rtol=1e-3 if dtype == "float16" else 1e-6)
            assert mine.dtype == wanted.dtype
            pieces = [data(dtype, 30 * group.size, rank) for rank in range(group.size)]
            out = np.zeros(30, dtype)
            group.reduce_scatter(pieces[group.rank], out, op, factor=group.rank + 1)
            wanted = reduced(op, dtype, pieces)[30 * group.rank : 30 * group.rank + 30]
            np.testing.assert_allclose(out, wanted, rtol=1e-3 if dtype == "float16" else 1e-6)
            mine = inputs[group.rank].copy()
            group.reduce(mine, 1, op, factor=group.rank + 1)
            wanted = reduced(op, dtype, inputs) if group.rank == 1 else inputs[group.rank]
            np.testing.assert_allclose(mine, wanted, rtol=1e-3 if dtype == "float16" else 1e-6)

    three.run(calls)


@pytest.mark.parametrize(
    "table", [{}, {"exchange_max": 0, "doubling_max": 0, "eager_max": 0, "chunk": 4096}, {"direct_ranks": 2}]
)
def test_every_collective_is_the_formula(ranks: Crew, table: dict[str, int]) -> None:
    with override(**table):
        ranks.run(_all_collectives)


def _all_collectives(group: Group) -> None:
    n, me = group.size, group.rank
    for count in COUNTS:
        inputs = [data("float64", count, rank) for rank in range(n)]
        whole = np.concatenate(inputs)
        total = np.sum(inputs, axis=0)
        mine = inputs[me].copy()
        group.all_reduce(mine)
        assert (mine == total).all()
        out = np.zeros(count * n)
        group.all_gather(inputs[me], out)
        assert (out == whole).all()
        for root in range(n):
            mine = inputs[me].copy()
            group.broadcast(mine, root)
            assert (mine == inputs[root]).all()
            gathered = np.zeros(count * n)
            group.gather(inputs[me], gathered if me == root else None, root)
            assert me != root or (gathered == whole).all()
            part = np.zeros(count)
            group.scatter(whole if me == root else None, part, root)
            assert (part == inputs[me]).all()
        pieces = [data("int32", count * n, rank) for rank in range(n)]
        out = np.zeros(count * n, np.int32)
        group.all_to_all(pieces[me], out)
        rows = [piece.reshape(n, count)[me] for piece in pieces]
        assert (out == np.concatenate(rows)).all()
        _uneven(group, count)
    group.barrier()


def test_all_ranks_choose_by_what_all_of_them_know(ranks: Crew) -> None:
    """Ranks that share a host use the table for it, on every rank or on none."""
    tables = ranks.run(lambda group: group._programs.table())
    assert len(set(tables)) == 1
    memories = set(ranks.meshes[0].memories)
    assert tables[0] == (NEAR if len(memories) == 1 and memories != {""} else Tuning())


def _uneven(group: Group, count: int) -> None:
    n, me = group.size, group.rank
    counts = [(rank * count) % 977 for rank in range(n)]
    inputs = [data("int64", counts[rank], rank) for rank in range(n)]
    out = np.zeros(sum(counts), np.int64)
    group.all_gather_v(inputs[me], out, [8 * each for each in counts])
    assert (out == np.concatenate(inputs)).all()
    wide = [data("int64", sum(counts), rank) for rank in range(n)]
    part = np.zeros(counts[me], np.int64)
    group.reduce_scatter_v(wide[me], part, [8 * each for each in counts], "max")
    start = sum(counts[:me])
    assert (part == np.max(wide, axis=0)[start : start + counts[me]]).all()


def test_in_place_and_odd_offsets(three: Crew) -> None:
    """B39: parts of larger memory, at any address; the input may be its place in the output."""

    def calls(group: Group) -> None:
        n, me = group.size, group.rank
        memory = bytearray(8 * 1000 * n + 3)
        view = memoryview(memory)[3 : 3 + 8 * 1000 * n]
        numbers = np.frombuffer(view, np.float64)
        numbers.reshape(n, 1000)[me] = np.arange(1000) + me
        start = as_buffer(view, write=True)
        whole = Buffer(start.addr, start.nbytes, dtype_named("float64").code, memory)
        group.all_gather(whole.part(8000 * me, 8000), whole)
        assert (numbers.reshape(n, 1000) == np.arange(1000) + np.arange(n)[:, None]).all()
        group.reduce_scatter(whole, whole.part(8000 * me, 8000))
        assert (numbers.reshape(n, 1000)[me] == n * (np.arange(1000) + me)).all()
        assert memory[:3] == b"\0\0\0"

    three.run(calls)


def test_several_at_once_and_callbacks(three: Crew) -> None:
    """Many collectives under way, waited for in another order; callbacks come once each."""

    def calls(group: Group) -> None:
        arrays = [np.full(size, group.rank + 1.0) for size in (1, 50_000, 10, 300_000, 4000)]
        done: list[int] = []
        told = threading.Event()

        def tell(index: int, work: Work) -> None:
            done.append(index)
            if len(done) == len(arrays):
                told.set()

        works = [group.all_reduce(array, async_op=True) for array in arrays]
        for index, work in enumerate(works):
            work.add_done_callback(partial(tell, index))
        for work in reversed(works):
            assert work.wait()
            assert work.done()
            assert work.exception() is None
        assert told.wait(10)
        assert sorted(done) == list(range(5))
        assert all((array == 6.0).all() for array in arrays)

    three.run(calls)


def test_more_under_way_than_the_runner_runs_at_once(three: Crew) -> None:
    """The rest waits its turn; results are those of the calls in their order."""

    def calls(group: Group) -> None:
        arrays = [np.full(10 + 700 * (index % 7), float(index)) for index in range(200)]
        works = [
            group.all_reduce(array, async_op=True) if index % 3 else group.broadcast(array, 1, async_op=True)
            for index, array in enumerate(arrays)
        ]
        works[-1].wait()
        for index, (array, work) in enumerate(zip(arrays, works, strict=True)):
            work.wait()
            assert (array == index * (3 if index % 3 else 1)).all()

    three.run(calls)


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
def test_the_same_bits_on_every_rank_every_time(ranks: Crew, dtype: str) -> None:
    """Sums that depend on their order: one order for one number of ranks."""

    def calls(group: Group) -> list[bytes]:
        results = []
        for count in (50, 3000, 40_000, 700_000):
            for _ in range(2):
                chance = np.random.default_rng(group.rank)
                values = (chance.standard_normal(count) * 10.0 ** chance.integers(-3, 3, count)).astype(dtype)
                group.all_reduce(values)
                results.append(values.tobytes())
        return results

    first, *others = ranks.run(calls)
    assert all(other == first for other in others)
    assert all(first[index] == first[index + 1] for index in range(0, len(first), 2))


def test_subgroups_run_beside_each_other(three: Crew) -> None:
    """Groups of some ranks, in their own order, beside that of all."""

    def calls(group: Group) -> float:
        if group.rank == 1:
            group.barrier()
            return 0.0
        pair = Group(group.mesh, [2, 0], key="pair")
        value = np.array([10.0 * pair.rank + 1])
        work = group.barrier(async_op=True)
        pair.broadcast(value, root=0)
        work.wait()
        pair.close()
        return float(value[0])

    assert three.run(calls) == [1.0, 0.0, 1.0]


def test_one_rank_needs_no_network() -> None:
    with crew(1) as alone:

        def calls(group: Group) -> None:
            values = np.array([1.0, 2.0])
            for op, wanted in (("sum", [1.0, 2.0]), ("avg", [1.0, 2.0]), ("premul_sum", [3.0, 6.0])):
                out = np.zeros(2)
                group.all_reduce(values, op, out=out, factor=3.0)
                assert out.tolist() == wanted
                assert values.tolist() == [1.0, 2.0]
            out = np.zeros(2)
            for move in (
                group.all_gather,
                group.all_to_all,
                group.scatter,
                group.gather,
                group.reduce_scatter,
            ):
                out[:] = 0
                move(values, out)
                assert out.tolist() == [1.0, 2.0]
            group.broadcast(values)
            group.barrier()
            group.all_reduce(np.zeros(0))

        alone.run(calls)
