"""What each collective has to give, by plain formulas over lists: independent of algorithms and programs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from softmrc.collectives.arithmetic import packed
from softmrc.collectives.calls import Call, Collective
from softmrc.collectives.compiled import compiled
from softmrc.collectives.dtypes import DType, Op, dtype_named
from softmrc.collectives.interpreter import Memory, interpret
from softmrc.collectives.placement import Placement
from softmrc.collectives.program import Program
from softmrc.collectives.races import races
from softmrc.collectives.tuning import Tuning


@dataclass
class Case:
    """All ranks of one collective: their elements in, and what must come out (None: not looked at)."""

    call: Call
    ranks: int
    inputs: list[list[Any]]
    outputs: list[list[Any] | None]
    output_bytes: list[int]
    in_place: bool = False
    factors: list[float] = field(default_factory=list)

    @property
    def dtype(self) -> DType:
        return dtype_named(self.call.dtype)


def elements(chance: random.Random, dtype: DType, count: int, op: Op = Op.SUM) -> list[Any]:
    """Elements for which every order of combining gives the same: whole, small numbers."""
    if dtype.kind == "b":
        return [chance.random() < 0.5 for _ in range(count)]
    low, high = (1, 2) if op is Op.PRODUCT else (0, 9)
    if dtype.kind in "ifc" and op is not Op.PRODUCT:
        low = -9
    values: list[Any] = [chance.randint(low, high) for _ in range(count)]
    if dtype.kind == "f":
        return [float(value) for value in values]
    if dtype.kind == "c":
        return [complex(value, chance.randint(low, high) * (op is not Op.PRODUCT)) for value in values]
    return values


def combined(op: Op, dtype: DType, columns: Sequence[Sequence[Any]], factors: Sequence[float]) -> list[Any]:
    """The result of a reduction, element by element."""
    result = []
    for column in zip(*columns, strict=True):
        value = column[0] * factors[0] if op is Op.PREMUL_SUM else column[0]
        for other, factor in zip(column[1:], factors[1:], strict=True):
            value = _one(op, value, other * factor if op is Op.PREMUL_SUM else other, dtype)
        result.append(value * (1.0 / len(column)) if op is Op.AVG else value)
    return result


def _one(op: Op, a: Any, b: Any, dtype: DType) -> Any:
    if dtype.kind == "b":
        if op is Op.BXOR:
            return a != b
        return (a or b) if op in (Op.SUM, Op.MAX, Op.BOR) else (a and b)
    table = {
        Op.PRODUCT: lambda: a * b,
        Op.MIN: lambda: min(a, b),
        Op.MAX: lambda: max(a, b),
        Op.BAND: lambda: a & b,
        Op.BOR: lambda: a | b,
        Op.BXOR: lambda: a ^ b,
    }
    return table[op]() if op in table else a + b


def case(
    chance: random.Random,
    collective: Collective,
    ranks: int,
    dtype: DType,
    op: Op,
    counts: Sequence[int],
    root: int,
    in_place: bool,
) -> Case:
    """One collective with random elements. `counts[0]` is the size where all are equal."""
    size, total = dtype.size, sum(counts)
    factors = [float(chance.choice((0.5, 2.0, -1.0))) for _ in range(ranks)]
    equal = [counts[0]] * ranks
    reducing = collective in (Collective.ALL_REDUCE, Collective.REDUCE)
    listed = collective in (Collective.REDUCE_SCATTER_V, Collective.ALL_GATHER_V)
    lengths = list(counts) if listed else equal
    sizes = tuple(count * size for count in counts) if listed else ()
    if not sum(sizes):
        sizes = sizes if listed and total else ()
    nbytes = counts[0] * size if not listed else total * size
    call = Call(collective, dtype.code, op, root, nbytes, sizes)
    starts = [sum(lengths[:rank]) for rank in range(ranks)]
    everything = sum(lengths)
    if collective in (Collective.ALL_GATHER, Collective.ALL_GATHER_V, Collective.GATHER):
        inputs = [elements(chance, dtype, lengths[rank]) for rank in range(ranks)]
        joined = [value for part in inputs for value in part]
        takes = [collective is not Collective.GATHER or rank == root for rank in range(ranks)]
        outputs = [list(joined) if take else None for take in takes]
        return Case(
            call, ranks, inputs, outputs, [everything * size * take for take in takes], in_place, factors
        )
    if collective is Collective.BROADCAST:
        inputs = [elements(chance, dtype, counts[0]) for _ in range(ranks)]
        return Case(call, ranks, inputs, [inputs[root]] * ranks, [counts[0] * size] * ranks, True, factors)
    if collective is Collective.SCATTER:
        inputs = [elements(chance, dtype, everything if rank == root else 0) for rank in range(ranks)]
        outputs = [inputs[root][starts[rank] : starts[rank] + lengths[rank]] for rank in range(ranks)]
        return Case(call, ranks, inputs, list(outputs), [counts[0] * size] * ranks, in_place, factors)
    if collective is Collective.ALL_TO_ALL:
        inputs = [elements(chance, dtype, everything) for _ in range(ranks)]
        outputs = [
            [value for peer in inputs for value in peer[starts[rank] : starts[rank] + counts[0]]]
            for rank in range(ranks)
        ]
        return Case(call, ranks, inputs, list(outputs), [everything * size] * ranks, False, factors)
    many = counts[0] if reducing else everything
    inputs = [elements(chance, dtype, many, op) for _ in range(ranks)]
    result = combined(op, dtype, inputs, factors)
    if reducing:
        takes = [collective is Collective.ALL_REDUCE or rank == root for rank in range(ranks)]
        outputs = [list(result) if take else None for take in takes]
        return Case(
            call, ranks, inputs, outputs, [counts[0] * size * take for take in takes], in_place, factors
        )
    outputs = [result[starts[rank] : starts[rank] + lengths[rank]] for rank in range(ranks)]
    return Case(call, ranks, inputs, list(outputs), [length * size for length in lengths], in_place, factors)


def memories(case: Case) -> list[Memory]:
    """Fresh buffers of all ranks; with `in_place` the shorter of input and output is a part of the longer."""
    result = []
    for rank in range(case.ranks):
        data = packed(case.inputs[rank], case.dtype)
        if case.in_place and (case.outputs[rank] is not None or case.call.collective is Collective.BROADCAST):
            result.append(_shared(case, rank, data))
        else:
            result.append(Memory(bytearray(data), bytearray(b"\xcc" * case.output_bytes[rank])))
    return result


def _shared(case: Case, rank: int, data: bytes) -> Memory:
    length = case.output_bytes[rank]
    sizes = case.call.sizes or (min(len(data), length),) * case.ranks
    start = sum(sizes[:rank])
    if len(data) == length:
        return Memory(bytearray(), bytearray(data), (0, 0))
    if len(data) > length:
        return Memory(bytearray(), bytearray(data), (0, start))
    whole = bytearray(b"\xcc" * length)
    whole[start : start + len(data)] = data
    return Memory(bytearray(), whole, (start, 0))


def check(
    case: Case,
    table: Tuning,
    *,
    seed: int = 0,
    slots: int = 16,
    racing: bool = True,
    placement: Placement | None = None,
) -> list[Program]:
    """Compile for every rank, look for races, run, and compare with the formulas; inputs must be left alone."""
    where = placement or Placement.apart(case.ranks)
    programs = [
        compiled(case.call, rank, where, case.in_place and case.outputs[rank] is not None, table)
        for rank in range(case.ranks)
    ]
    places = memories(case)
    if racing:
        assert races(programs, [place.shared for place in places]) == []
    before = [bytes(place.input) for place in places]
    interpret(programs, places, seed=seed, slots=slots, factors=case.factors)
    for rank, place in enumerate(places):
        wanted = case.outputs[rank]
        if wanted is None:
            continue
        begin = place.shared[1] if place.shared is not None else 0
        got = bytes(place.output[begin : begin + case.output_bytes[rank]])
        assert got == packed(wanted, case.dtype), f"rank {rank} of {case}"
        assert place.shared is not None or bytes(place.input) == before[rank], (
            f"rank {rank}: its input was written"
        )
    return programs
