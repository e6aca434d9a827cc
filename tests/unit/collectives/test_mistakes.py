"""Ranks that do not call the same, and buffers that cannot work: an error everywhere, never a wrong result."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.unit.collectives.crew import Crew, crew

from softmrc.collectives import Group, override
from softmrc.errors import PeerError, UsageError


@pytest.fixture(scope="module")
def three() -> Iterator[Crew]:
    with crew(3) as made:
        yield made


def in_new_group(made: Crew, key: str, call: Callable[[Group], Any], timeout: float = 10.0) -> list[Any]:
    """Run it in a group that may break."""

    def calls(group: Group) -> Any:
        own = Group(group.mesh, key=key, timeout=timeout)
        try:
            return call(own)
        finally:
            own.close(0.0)

    return made.each(calls)


SIZES = {
    "small": ({}, 100, 200),
    "small beside large": ({}, 100, 200_000),
    "large": ({}, 100_000, 200_000),
    "nothing beside something": ({}, 0, 100),
    "nothing beside much": ({}, 0, 200_000),
    "many rounds": ({"exchange_ranks": 1}, 100, 200),
    "rings": ({"direct_ranks": 2}, 100_000, 120_000),
}


@pytest.mark.parametrize("name", SIZES)
def test_other_sizes_are_an_error_on_all_ranks(three: Crew, name: str) -> None:
    """Rank 1 has another size: everyone raises one text that names two ranks and both sizes; soon."""
    table, size, other = SIZES[name]

    def calls(group: Group) -> None:
        group.all_reduce(np.ones(other if group.rank == 1 else size, np.float32))

    began = time.monotonic()
    with override(**table):
        errors = in_new_group(three, f"sizes {name}", calls, timeout=19.0)
    assert time.monotonic() - began < 9.5, "half of the timeout of the group"
    assert all(isinstance(error, PeerError) for error in errors), errors
    assert len({str(error) for error in errors}) == 1, errors
    text = str(errors[0])
    assert "rank 1" in text
    assert f"{4 * size:,} bytes" in text
    assert f"{4 * other:,} bytes" in text


DIFFERENT: dict[str, tuple[Callable[[Group], object], Callable[[Group], object], str]] = {
    "type": (
        lambda g: g.all_reduce(np.ones(50, np.float32)),
        lambda g: g.all_reduce(np.ones(50, np.int32)),
        "int32",
    ),
    "operation": (lambda g: g.all_reduce(np.ones(50)), lambda g: g.all_reduce(np.ones(50), "max"), "max"),
    "collective": (lambda g: g.barrier(), lambda g: g.all_reduce(np.ones(50)), "all_reduce"),
    "sizes of pieces": (
        lambda g: g.all_gather_v(np.ones(g.rank + 1), np.ones(6), [8, 16, 24]),
        lambda g: g.all_gather_v(np.ones(2), np.ones(6), [16, 16, 16]),
        "all_gather_v",
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_other_calls_are_an_error_on_all_ranks(three: Crew, name: str) -> None:
    most, one, word = DIFFERENT[name]
    errors = in_new_group(three, f"calls {name}", lambda group: (one if group.rank == 1 else most)(group))
    assert all(isinstance(error, PeerError) for error in errors), errors
    assert len({str(error) for error in errors}) == 1, errors
    assert word in str(errors[0])


def test_other_pieces_of_all_to_all(three: Crew) -> None:
    """What one rank sends is not what the other expects."""

    def calls(group: Group) -> None:
        sizes = [[8, 8, 8], [8, 8, 16], [8, 8, 8]][group.rank]
        group.all_to_all_v(np.ones(sum(sizes) // 8), np.ones(3), sizes, [8, 8, 8])
        group.barrier()  # Rank 0 agrees with both others and may be done: then its next call fails.

    errors = in_new_group(three, "pieces", calls)
    assert all(isinstance(error, PeerError) for error in errors), errors
    assert len({str(error) for error in errors}) == 1, errors
    assert "rank 1" in str(errors[0])
    assert "rank 2" in str(errors[0])


def test_a_rank_that_does_not_come_is_named(three: Crew) -> None:
    """The others raise within the timeout; the group is of no use afterwards, the mesh is."""
    raised = threading.Barrier(3)

    def calls(group: Group) -> list[str]:
        texts = []
        if group.rank != 2:
            texts.append(error_of(lambda: group.all_reduce(np.ones(10))))
        raised.wait(19)
        texts.append(error_of(group.barrier))
        return texts

    began = time.monotonic()
    results = in_new_group(three, "late", calls, timeout=1.0)
    assert time.monotonic() - began < 8, "not the 20 s of the mesh"
    texts = [text for result in results for text in result]
    assert len(texts) == 5
    assert len(set(texts)) == 1
    assert "rank 2" in texts[0]
    assert three.run(lambda group: group.barrier().done()) == [True] * 3


def error_of(call: Callable[[], object]) -> str:
    with pytest.raises(PeerError) as caught:
        call()
    return str(caught.value)


def test_callbacks_come_for_failures(three: Crew) -> None:
    def calls(group: Group) -> object:
        work = group.all_reduce(np.ones(3 + group.rank), async_op=True)
        told: queue.SimpleQueue[object] = queue.SimpleQueue()
        work.add_done_callback(lambda done: told.put(done.exception()))
        with pytest.raises(PeerError):
            work.wait()
        return told.get(timeout=10)

    assert all(isinstance(error, PeerError) for error in in_new_group(three, "callbacks", calls))


def test_time_runs_out_without_anyone_waiting(three: Crew) -> None:
    """A work with a callback fails by itself when its time has run out."""
    over = threading.Barrier(3)

    def calls(group: Group) -> object:
        told: queue.SimpleQueue[object] = queue.SimpleQueue()
        if group.rank:
            work = group.barrier(async_op=True, timeout=0.3)
            work.add_done_callback(lambda work: told.put(work.exception()))
        try:
            return told.get(timeout=10) if group.rank else None
        finally:
            over.wait(15)

    nothing, *errors = in_new_group(three, "unwatched", calls)
    assert nothing is None
    assert all(isinstance(error, PeerError) for error in errors), errors


def test_abort_ends_the_calls_of_all_ranks(three: Crew) -> None:
    def calls(group: Group) -> None:
        if group.rank == 0:
            raise group.abort("enough")
        group.all_reduce(np.ones(10))

    errors = in_new_group(three, "abort", calls)
    assert all(isinstance(error, PeerError) and "enough" in str(error) for error in errors), errors


REFUSED: dict[str, tuple[Callable[[Group], object], str]] = {
    "strided": (lambda g: g.all_reduce(np.ones((4, 4))[:, 1]), "not contiguous"),
    "transposed": (lambda g: g.all_reduce(np.ones((4, 3)).T), "not contiguous"),
    "read-only": (lambda g: g.all_reduce(b"12345678"), "read-only"),
    "no buffer": (lambda g: g.all_reduce([1.0, 2.0]), "no buffer"),
    "objects": (lambda g: g.all_reduce(np.array([object()])), "cannot be reduced"),
    "another byte order": (lambda g: g.all_reduce(np.ones(3, ">f8")), "another order"),
    "average of integers": (lambda g: g.all_reduce(np.ones(3, np.int32), "avg"), "AVG of int32"),
    "order of complex": (lambda g: g.all_reduce(np.ones(3, np.complex64), "max"), "no order"),
    "bits of floats": (lambda g: g.all_reduce(np.ones(3), "bxor"), "bitwise"),
    "unknown operation": (lambda g: g.all_reduce(np.ones(3), "median"), "median"),
    "types differ": (lambda g: g.all_reduce(np.ones(3), out=np.ones(6, np.float32)), "must be alike"),
    "lengths differ": (lambda g: g.all_reduce(np.ones(3), out=np.ones(4)), "must be alike"),
    "no such root": (lambda g: g.broadcast(np.ones(3), 3), "rank 3"),
    "short output": (lambda g: g.all_gather(np.ones(3), np.ones(8)), "3 times"),
    "uneven input": (lambda g: g.reduce_scatter(np.ones(10), np.ones(3)), "3 times"),
    "pieces do not add up": (lambda g: g.all_gather_v(np.ones(3), np.ones(9), [24, 24, 16]), "sum"),
    "no output at the root": (lambda g: g.gather(np.ones(3), None, g.rank), "`out`"),
    "overlap": (lambda g: _overlap(g), "overlap"),
    "cut elements": (lambda g: g.reduce_scatter_v(np.ones(3), np.ones(1), [4, 12, 8]), "whole"),
}


def _overlap(group: Group) -> None:
    values = np.ones(10)
    group.all_reduce(values[:8], out=values[2:])


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_work_is_refused_before_anything_is_sent(three: Crew, name: str) -> None:
    """B39: a clear refusal, and the group goes on as if nothing had been."""
    call, words = REFUSED[name]

    def calls(group: Group) -> None:
        with pytest.raises(UsageError, match=words):
            call(group)
        group.barrier()

    three.run(calls)
