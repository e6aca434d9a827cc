"""Every algorithm in every interleaving: results equal to plain formulas, no races, no byte out of place."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.collectives.formulas import Case, case, check

from softmrc.collectives.arithmetic import packed
from softmrc.collectives.calls import Call, Collective
from softmrc.collectives.compiled import compiled, compiled_all_to_all
from softmrc.collectives.dtypes import DType, Op, dtype_named, known_dtypes, op_for
from softmrc.collectives.interpreter import Memory, interpret
from softmrc.collectives.placement import Placement
from softmrc.collectives.program import Kind
from softmrc.collectives.races import races
from softmrc.collectives.tuning import Tuning
from softmrc.errors import UsageError

MOVES = (
    Collective.ALL_GATHER,
    Collective.ALL_GATHER_V,
    Collective.BROADCAST,
    Collective.GATHER,
    Collective.SCATTER,
    Collective.ALL_TO_ALL,
)
REDUCTIONS = (
    Collective.ALL_REDUCE,
    Collective.REDUCE,
    Collective.REDUCE_SCATTER,
    Collective.REDUCE_SCATTER_V,
)

# Fewer than usual: each example is run on each table.
EXAMPLES = settings().max_examples // 4

# Small figures, so that a few hundred bytes use every algorithm, many chunks and full windows.
_NO_SLOTS = Tuning(exchange_max=0, doubling_max=0, eager_max=0, chunk=64, chunk_max=64, window=2)
_PIECES = Tuning(exchange_max=0, doubling_max=0)
_RINGS = replace(_NO_SLOTS, direct_ranks=2, halving_ranks=2)
TABLES = {
    "slots": Tuning(),
    "exchange": Tuning(doubling_min=1 << 30),
    "direct": _NO_SLOTS,
    "direct, window of one": replace(_NO_SLOTS, chunk=48, chunk_max=128, chunks=3, window=1),
    "rings": replace(_RINGS, window=4),
    "rings, window of one": replace(_RINGS, chunk=40, chunk_max=40, window=1),
    "rings through slots": replace(_PIECES, direct_ranks=2, halving_ranks=2),
    "halving": replace(_NO_SLOTS, direct_max=0),
    "halving, window of one": replace(_NO_SLOTS, direct_max=0, window=1),
    "halving through slots": replace(_PIECES, direct_max=0),
    "doubling and trees": Tuning(exchange_ranks=1, doubling_min=0, flat_ranks=1),
    "pieces through slots": _PIECES,
}
# Used by even placements; of the same figures, "halving" has hosts in more than one segment, with full windows.
HOSTS = replace(_NO_SLOTS, direct_max=0)


PIPELINES = (
    "direct",
    "rings",
    "rings through slots",
    "halving",
    "halving through slots",
    "pieces through slots",
)


@st.composite
def reductions(draw: st.DrawFn) -> tuple[Collective, DType, Op]:
    dtype = draw(st.sampled_from(known_dtypes()))
    ops = [op for op in Op if _fits(dtype, op)]
    return draw(st.sampled_from(REDUCTIONS)), dtype, draw(st.sampled_from(ops))


def _fits(dtype: DType, op: Op) -> bool:
    try:
        op_for(dtype, op)
    except UsageError:
        return False
    return True


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
@settings(max_examples=EXAMPLES)
@given(what=reductions(), ranks=st.integers(1, 9), seed=st.integers(0, 1 << 30), in_place=st.booleans())
def test_reductions_equal_the_formula(
    table: Tuning, what: tuple[Collective, DType, Op], ranks: int, seed: int, in_place: bool
) -> None:
    chance = random.Random(seed)
    collective, dtype, op = what
    counts = _counts(chance, ranks)
    check(
        case(chance, collective, ranks, dtype, op, counts, chance.randrange(ranks), in_place),
        table,
        seed=seed,
        placement=placed(chance, ranks),
    )


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
@settings(max_examples=EXAMPLES)
@given(
    collective=st.sampled_from(MOVES),
    ranks=st.integers(1, 9),
    seed=st.integers(0, 1 << 30),
    in_place=st.booleans(),
)
def test_moves_equal_the_formula(
    table: Tuning, collective: Collective, ranks: int, seed: int, in_place: bool
) -> None:
    chance = random.Random(seed)
    counts = _counts(chance, ranks)
    dtype = dtype_named("uint8")
    one = case(chance, collective, ranks, dtype, Op.SUM, counts, chance.randrange(ranks), in_place)
    check(one, table, seed=seed, placement=placed(chance, ranks))


def placed(chance: random.Random, ranks: int) -> Placement:
    """Ranks on hosts: each on its own, as many on each in any order, or anyhow."""
    each = chance.choice([n for n in range(1, ranks + 1) if ranks % n == 0])
    hosts = [f"host {rank // each}" for rank in range(ranks)]
    chance.shuffle(hosts)
    return Placement.of(chance.choice((hosts, [f"host {chance.randrange(ranks)}" for _ in range(ranks)])))


@pytest.mark.parametrize("hosts", [(2, 2), (2, 3), (3, 2), (2, 4), (4, 2), (3, 3)], ids=str)
@pytest.mark.parametrize("op", [Op.SUM, Op.AVG, Op.PREMUL_SUM], ids=lambda op: op.name.lower())
def test_hosts_with_as_many_ranks_each(hosts: tuple[int, int], op: Op) -> None:
    count, each = hosts
    ranks = count * each
    for seed in range(6):
        chance = random.Random(seed)
        names = [f"host {rank % count}" for rank in range(ranks)]
        chance.shuffle(names)
        where = Placement.of(names)
        elements = chance.choice((1, ranks, 9 * ranks + 5, 50 * ranks))
        dtype = dtype_named(chance.choice(("float32", "float64", "complex128")))
        one = case(chance, Collective.ALL_REDUCE, ranks, dtype, op, [elements] * ranks, 0, seed % 2 == 0)
        table = replace(HOSTS, window=1 + seed % 2)
        programs = check(one, table, seed=seed, placement=where, slots=4)
        crossing = sum(
            step.nbytes
            for rank, program in enumerate(programs)
            for step in program.steps
            if step.kind == Kind.SEND and where.hosts[rank] != where.hosts[step.peer]
        )
        assert crossing == 2 * (count - 1) * elements * dtype.size, "each host sends 2 (h-1)/h of the bytes"


def test_circles_cross_from_host_to_host_as_seldom_as_possible() -> None:
    where = Placement.of(["b", "a", "b", "c", "a", "b", "b"])
    nbytes = 7 * 640
    table = replace(_NO_SLOTS, direct_ranks=2, halving_ranks=2)
    for collective in (Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.BROADCAST, Collective.REDUCE):
        call = Call(collective, dtype_named("int32").code, Op.SUM, 4, nbytes)
        pairs = {
            (rank, step.peer)
            for rank in range(7)
            for step in compiled(call, rank, where, True, table).steps
            if step.kind == Kind.SEND and step.nbytes and where.hosts[rank] != where.hosts[step.peer]
        }
        assert len(pairs) == (3 if collective in (Collective.ALL_REDUCE, Collective.ALL_GATHER) else 2)


def _counts(chance: random.Random, ranks: int) -> list[int]:
    most = chance.choice((1, 3, 20, 90, 300))
    return [chance.randint(0, most) for _ in range(ranks)]


@given(ranks=st.integers(1, 7), seed=st.integers(0, 1 << 30))
def test_uneven_all_to_all(ranks: int, seed: int) -> None:
    chance = random.Random(seed)
    table = chance.choice(list(TABLES.values()))
    amounts = [[chance.choice((0, 0, 1, 70, 200)) for _ in range(ranks)] for _ in range(ranks)]
    data = [[bytes(chance.randbytes(amount)) for amount in row] for row in amounts]
    incoming = [[amounts[src][dst] for src in range(ranks)] for dst in range(ranks)]
    call = Call(Collective.ALL_TO_ALL_V)
    programs = [
        compiled_all_to_all(call, rank, tuple(amounts[rank]), tuple(incoming[rank]), table)
        for rank in range(ranks)
    ]
    places = [
        Memory(bytearray(b"".join(row)), bytearray(sum(incoming[rank]))) for rank, row in enumerate(data)
    ]
    assert races(programs, [None] * ranks) == []
    interpret(programs, places, seed=seed)
    for rank, place in enumerate(places):
        assert bytes(place.output) == b"".join(data[src][rank] for src in range(ranks))
    for a in range(ranks):
        for b in range(ranks):
            assert programs[a].prints[b] == programs[b].prints[a]


@pytest.mark.parametrize("ranks", [2, 3, 5, 8, 16, 17])
@pytest.mark.parametrize("name", PIPELINES)
def test_few_slots_are_enough(ranks: int, name: str) -> None:
    """A lane with 4 slots: no order of events stands still."""
    chance = random.Random(ranks)
    one = case(
        chance, Collective.ALL_REDUCE, ranks, dtype_named("int16"), Op.SUM, [40 * ranks] * ranks, 0, True
    )
    check(one, TABLES[name], seed=ranks, slots=4, racing=ranks < 9)


def test_every_rank_has_the_same_bits() -> None:
    """Floating-point sums differ with their order: all ranks use one order, whatever the interleaving."""
    dtype = dtype_named("float32")
    for name in ("slots", "direct", "rings", "halving", "doubling and trees", "pieces through slots"):
        for ranks in (3, 5, 8):
            results = set()
            for seed in range(4):
                chance = random.Random(7)
                one = case(chance, Collective.ALL_REDUCE, ranks, dtype, Op.SUM, [50] * ranks, 0, True)
                one.inputs = [
                    [chance.uniform(-1, 1) * 10 ** (i % 12 - 6) for i in range(50)] for _ in range(ranks)
                ]
                one.outputs = [None] * ranks
                results |= _results(one, TABLES[name], seed, Placement.apart(ranks))
            assert len(results) == 1, name
            where = Placement.of([f"host {rank // 3}" for rank in range(ranks)])
            assert len(set().union(*(_results(one, TABLES[name], seed, where) for seed in range(4)))) == 1, (
                name
            )


def _results(one: Case, table: Tuning, seed: int, where: Placement) -> set[bytes]:
    programs = [compiled(one.call, rank, where, True, table) for rank in range(one.ranks)]
    places = [Memory(bytearray(), bytearray(packed(values, one.dtype)), (0, 0)) for values in one.inputs]
    interpret(programs, places, seed=seed)
    return {bytes(place.output) for place in places}
