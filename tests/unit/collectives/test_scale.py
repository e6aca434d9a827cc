"""Programs of large calls: few steps, messages within their limits, scratch memory that does not grow."""

from __future__ import annotations

import pytest

from softmrc.collectives.calls import Call, Collective, describe, read_print
from softmrc.collectives.compiled import compiled, compiled_all_to_all
from softmrc.collectives.dtypes import Op, dtype_named
from softmrc.collectives.pieces import cut, split
from softmrc.collectives.placement import Placement
from softmrc.collectives.program import EAGER_MAX, MESSAGE_MAX, SCRATCH, Flag, Kind, Program
from softmrc.collectives.tuning import Tuning, override, tuning
from softmrc.errors import UsageError

GIB = 1 << 30
SIZES = (1000, 64_000, 1 << 20, 64 << 20, 5 * GIB + 12)
ALL = [each for each in Collective if each not in (Collective.BARRIER, Collective.ALL_TO_ALL_V)]


@pytest.mark.parametrize("ranks", [2, 3, 8, 64])
@pytest.mark.parametrize("collective", ALL, ids=lambda each: each.name.lower())
def test_limits(collective: Collective, ranks: int) -> None:
    """Beyond 2^31 bytes, too: offsets are right, no message is longer than allowed."""
    listed = collective in (Collective.REDUCE_SCATTER_V, Collective.ALL_GATHER_V)
    for size in SIZES if ranks < 64 else SIZES[:3]:
        sizes = tuple(size + 4 * rank for rank in range(ranks)) if listed else ()
        total = sum(sizes) if listed else size * ranks
        call = Call(collective, dtype_named("float32").code, Op.SUM, 0, total if listed else size, sizes)
        for rank in (0, ranks - 1):
            program = compiled(call, rank, Placement.apart(ranks), False, Tuning())
            within_limits(program, total)
            assert len(program.steps) < 6 * ranks * (64 + total // (1 << 20)), size


def within_limits(program: Program, total: int) -> None:
    for index, step in enumerate(program.steps):
        assert all(0 <= dep < index for dep in step.deps)
        assert 0 <= step.nbytes <= (total if step.kind > Kind.RECV else MESSAGE_MAX)
        if step.kind <= Kind.RECV and step.flags & Flag.EAGER:
            assert step.nbytes <= EAGER_MAX
        for buf, off in ((step.src_buf, step.src_off), (step.dst_buf, step.dst_off)):
            assert off >= 0
            if buf == SCRATCH and step.kind != Kind.SEND:
                assert off + step.nbytes <= program.scratch_bytes
    assert program.scratch_bytes <= 32 << 20 or program.scratch_bytes <= 16 * program.ranks << 20


def test_uneven_all_to_all_of_several_gib() -> None:
    sizes = (3 * GIB, 5, 0)
    program = compiled_all_to_all(Call(Collective.ALL_TO_ALL_V), 1, sizes, sizes, Tuning())
    within_limits(program, sum(sizes))
    assert sum(step.nbytes for step in program.steps if step.kind == Kind.SEND) == 3 * GIB
    assert program.bases == (0, 3 * GIB, 3 * GIB + 5)


def test_pieces_cover_everything_once() -> None:
    for nbytes, parts, unit in ((0, 3, 8), (8, 3, 8), (4096, 5, 4), (1_000_000, 7, 16), (160, 9, 16)):
        pieces = split(nbytes, parts, unit)
        assert len(pieces) == parts
        ends = [0] + [piece.off + piece.len for piece in pieces]
        assert [piece.off for piece in pieces] == ends[:-1]
        assert ends[-1] == nbytes
        assert all(piece.len % unit == 0 for piece in pieces)
        chunks = [chunk for piece in pieces for chunk in cut(piece, 100, unit)]
        assert sum(chunk.len for chunk in chunks) == nbytes
        assert all(0 < chunk.len <= 100 and chunk.len % unit == 0 for chunk in chunks)


def test_prints_can_be_read_back() -> None:
    for call in (
        Call(Collective.ALL_REDUCE, 14, Op.PREMUL_SUM, 0, 5 * GIB),
        Call(Collective.BROADCAST, 0, Op.SUM, 63, 4),
        Call(Collective.BARRIER),
    ):
        assert 0 < call.print() < 1 << 64
        assert read_print(call.print()) == call
    assert read_print(0) is None
    assert describe(0) == "an unknown call (0x0)"
    assert (
        Call(Collective.ALL_REDUCE, 10, Op.AVG, 0, 4096).text() == "all_reduce(avg) of 4,096 bytes of float32"
    )
    assert Call(Collective.GATHER, 0, Op.SUM, 3, 9).text() == "gather of 9 bytes with root 3"


def test_other_figures_for_a_while() -> None:
    before = tuning()
    with override(chunk=4096, window=7) as table:
        assert (tuning(), table.chunk, table.window) == (table, 4096, 7)
    assert tuning() == before
    for wrong in ({"chunk": 0}, {"window": 0}, {"chunk": 1 << 40}, {"eager_max": -1}, {"direct_ranks": 0}):
        with pytest.raises(UsageError), override(**wrong):
            pass
