"""What REDUCE and SCALE mean, in plain Python: slow, obvious, and independent of the core.

The second opinion that programs and the core's reductions are checked against.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

from softmrc.collectives.dtypes import DType, Op, dtype_named

__all__ = ["combine", "packed", "scale", "unpacked"]

_LETTERS = {"int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q"}
_LETTERS |= {"uint64": "Q", "float16": "e", "float32": "f", "float64": "d", "bool": "?", "bfloat16": "H"}
_LETTERS |= {"complex64": "f", "complex128": "d"}


def unpacked(data: bytes | bytearray | memoryview, dtype: DType) -> list[Any]:
    """The elements of little-endian bytes."""
    letter = _LETTERS[dtype.name]
    values: Sequence[Any] = struct.unpack(f"<{len(data) // struct.calcsize(letter)}{letter}", data)
    if dtype.name == "bfloat16":
        return [struct.unpack("<f", struct.pack("<I", value << 16))[0] for value in values]
    if dtype.kind == "c":
        return [complex(*values[i : i + 2]) for i in range(0, len(values), 2)]
    return list(values)


def packed(values: Sequence[Any], dtype: DType) -> bytes:
    """Elements as little-endian bytes, rounded to nearest, ties to even; integers wrap."""
    if dtype.kind == "c":
        flat = [part for value in values for part in (value.real, value.imag)]
        return b"".join(_float_bytes(value, dtype.size // 2) for value in flat)
    if dtype.name == "bfloat16":
        return b"".join(_bfloat(value) for value in values)
    if dtype.kind == "f":
        return b"".join(_float_bytes(value, dtype.size) for value in values)
    if dtype.kind == "b":
        return bytes(int(value) for value in values)
    wrapped = [value & ((1 << (8 * dtype.size)) - 1) for value in values]
    return b"".join(value.to_bytes(dtype.size, "little") for value in wrapped)


def _float_bytes(value: float, size: int) -> bytes:
    form = {2: "<e", 4: "<f", 8: "<d"}[size]
    try:
        return struct.pack(form, value)
    except OverflowError:
        return struct.pack(form, math.copysign(math.inf, value))


def _bfloat(value: float) -> bytes:
    if math.isnan(value):
        return b"\xc0\x7f"
    bits = int.from_bytes(_float_bytes(value, 4), "little")
    return (((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF).to_bytes(2, "little")


def _smallest(a: Any, b: Any) -> Any:
    if a != a or b != b:
        return math.nan
    if a == b == 0 and isinstance(a, float):
        return a if math.copysign(1, a) < 0 else b
    return min(a, b)


def _largest(a: Any, b: Any) -> Any:
    return -_smallest(-a, -b) if isinstance(a, float) else max(a, b)


_OPS: dict[Op, Callable[[Any, Any], Any]] = {
    Op.SUM: lambda a, b: a + b,
    Op.PRODUCT: lambda a, b: a * b,
    Op.MIN: _smallest,
    Op.MAX: _largest,
    Op.BAND: lambda a, b: a & b,
    Op.BOR: lambda a, b: a | b,
    Op.BXOR: lambda a, b: a ^ b,
}


def combine(dtype: int, op: int, acc: bytes | memoryview, src: bytes | memoryview) -> bytes:
    """op(acc, src), element by element; each result is rounded to the type."""
    kind, function = dtype_named(dtype), _OPS[Op(op)]
    pairs = zip(unpacked(acc, kind), unpacked(src, kind), strict=True)
    return packed([function(a, b) for a, b in pairs], kind)


def scale(dtype: int, src: bytes | memoryview, factor: float) -> bytes:
    """Src * factor, element by element."""
    kind = dtype_named(dtype)
    return packed([value * factor for value in unpacked(src, kind)], kind)
