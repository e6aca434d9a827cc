"""The core's reductions against plain Python: every element type and operation, bit by bit."""

from __future__ import annotations

import math
import random

import pytest

from softmrc._core import coll_reduce, coll_scale
from softmrc.collectives.arithmetic import combine, packed, scale, unpacked
from softmrc.collectives.dtypes import DType, Op, known_dtypes, op_for
from softmrc.errors import UsageError

EDGES = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 6e-8, 65504.0, 3.4e38, 1e-45, 0.1, -2.5]
REAL = (Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX, Op.BAND, Op.BOR, Op.BXOR)


def values(chance: random.Random, dtype: DType, count: int) -> bytes:
    if dtype.kind == "b":
        return bytes(chance.randrange(2) for _ in range(count))
    if dtype.kind in "iu":
        return chance.randbytes(count * dtype.size)
    draw = [
        chance.choice(EDGES) if chance.random() < 0.3 else chance.uniform(-50, 50) for _ in range(2 * count)
    ]
    if dtype.kind == "c":
        # Whole numbers: where a product is rounded in between is nobody's business.
        finite = [float(chance.randint(-50, 50)) for _ in range(2 * count)]
        return packed([complex(finite[i], finite[-i - 1]) for i in range(count)], dtype)
    return packed(draw[:count], dtype)


def same(a: bytes, b: bytes, dtype: DType) -> bool:
    """Equal bits, but any NaN is as good as another."""
    if dtype.kind != "f":
        return a == b
    pairs = zip(unpacked(a, dtype), unpacked(b, dtype), strict=True)
    return all(
        (x != x and y != y) or (x == y and math.copysign(1, x) == math.copysign(1, y)) for x, y in pairs
    )


@pytest.mark.parametrize("op", REAL)
@pytest.mark.parametrize("dtype", known_dtypes(), ids=lambda dtype: dtype.name)
def test_reductions(dtype: DType, op: Op) -> None:
    try:
        core_op = op_for(dtype, op)
    except UsageError:
        with pytest.raises(ValueError, match="no meaning"):
            coll_reduce(dtype.code, int(op), bytearray(64), bytes(64))
        return
    chance = random.Random(op * 100 + dtype.code)
    for count in (0, 1, 5, 16, 129):
        acc, src = values(chance, dtype, count), values(chance, dtype, count)
        result = bytearray(acc)
        coll_reduce(dtype.code, int(core_op), result, src)
        assert same(bytes(result), combine(dtype.code, core_op, acc, src), dtype)
        other = bytearray(src)
        coll_reduce(dtype.code, int(core_op), other, acc)
        assert same(bytes(other), bytes(result), dtype), "ranks combine in either order"


@pytest.mark.parametrize("dtype", [d for d in known_dtypes() if d.kind in "fc"], ids=lambda dtype: dtype.name)
def test_scaling(dtype: DType) -> None:
    chance = random.Random(dtype.code)
    data = values(chance, dtype, 77)
    for factor in (0.5, 3.0, -1.0):
        result = bytearray(len(data))
        coll_scale(dtype.code, result, data, factor)
        assert same(bytes(result), scale(dtype.code, data, factor), dtype)
