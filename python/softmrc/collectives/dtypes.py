"""Which element types and operations there are, and which of them go together.

The codes are those of the reductions in the core. Decides what is refused (AVG of integers, an order of complex
numbers, bits of floats); leaves the arithmetic to the core.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from softmrc.errors import UsageError

__all__ = ["DType", "Op", "dtype_named", "known_dtypes", "op_for", "op_named"]


@dataclass(frozen=True, slots=True)
class DType:
    """An element type."""

    name: str
    """Name as in NumPy; `bfloat16` where NumPy has none."""

    code: int
    """Number in programs and in the core."""

    size: int
    """Bytes of one element."""

    kind: str
    """`b` bool, `i` signed, `u` unsigned, `f` floating point, `c` complex."""


class Op(IntEnum):
    """How elements of several ranks become one."""

    SUM = 0
    """The sum; of bools: true when any is."""
    PRODUCT = 1
    """The product; of bools: true when all are."""
    MIN = 2
    """The smallest; NaN when any is NaN."""
    MAX = 3
    """The largest; NaN when any is NaN."""
    BAND = 4
    """Bitwise and, of integers and bools."""
    BOR = 5
    """Bitwise or, of integers and bools."""
    BXOR = 6
    """Bitwise exclusive or, of integers and bools."""
    AVG = 7
    """The sum divided by the number of ranks, of floating-point and complex numbers."""
    PREMUL_SUM = 8
    """The sum of each rank's elements times its factor, of floating-point and complex numbers."""


_DTYPES = (
    DType("uint8", 0, 1, "u"),
    DType("int8", 1, 1, "i"),
    DType("int16", 2, 2, "i"),
    DType("uint16", 3, 2, "u"),
    DType("int32", 4, 4, "i"),
    DType("uint32", 5, 4, "u"),
    DType("int64", 6, 8, "i"),
    DType("uint64", 7, 8, "u"),
    DType("float16", 8, 2, "f"),
    DType("bfloat16", 9, 2, "f"),
    DType("float32", 10, 4, "f"),
    DType("float64", 11, 8, "f"),
    DType("bool", 12, 1, "b"),
    DType("complex64", 13, 8, "c"),
    DType("complex128", 14, 16, "c"),
)

_BY_NAME = {dtype.name: dtype for dtype in _DTYPES}
_ALIASES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "cfloat": "complex64",
    "cdouble": "complex128",
}
_OP_NAMES = {"sum": Op.SUM, "product": Op.PRODUCT, "prod": Op.PRODUCT, "min": Op.MIN, "max": Op.MAX}
_OP_NAMES |= {"band": Op.BAND, "bor": Op.BOR, "bxor": Op.BXOR, "avg": Op.AVG, "premul_sum": Op.PREMUL_SUM}
_BOOL_OPS = {Op.SUM: Op.BOR, Op.MAX: Op.BOR, Op.PRODUCT: Op.BAND, Op.MIN: Op.BAND}
_BITS = frozenset({Op.BAND, Op.BOR, Op.BXOR})
_WEIGHED = frozenset({Op.AVG, Op.PREMUL_SUM})


def known_dtypes() -> tuple[DType, ...]:
    """All element types, in the order of their codes."""
    return _DTYPES


def dtype_named(name: str | int | DType) -> DType:
    """The element type of a name (`float32`, `torch.float32`), a code, or itself.

    Raises:
        UsageError: there is no such type; says which there are.
    """
    if isinstance(name, DType):
        return name
    if isinstance(name, int):
        if 0 <= name < len(_DTYPES):
            return _DTYPES[name]
        raise UsageError(f"dtype code {name} is none of 0 to {len(_DTYPES) - 1}")
    plain = name.rpartition(".")[2]
    found = _BY_NAME.get(_ALIASES.get(plain, plain))
    if found is None:
        raise UsageError(
            f"elements of type {name} cannot be reduced or sent; the types are {', '.join(_BY_NAME)}"
        )
    return found


def op_named(op: str | int | Op) -> Op:
    """The operation of a name (`sum`, `avg`), a code, or itself.

    Raises:
        UsageError: there is no such operation; says which there are.
    """
    if isinstance(op, Op):
        return op
    if isinstance(op, int):
        try:
            return Op(op)
        except ValueError:
            raise UsageError(f"operation code {op} is none of 0 to {len(Op) - 1}") from None
    found = _OP_NAMES.get(op.lower())
    if found is None:
        raise UsageError(f"no operation is called {op!r}; the operations are {', '.join(_OP_NAMES)}")
    return found


def op_for(dtype: DType, op: Op) -> Op:
    """What to compute for an operation on elements of a type.

    Returns:
        The operation itself; for bools the bitwise one that does the same.

    Raises:
        UsageError: they do not go together; says why and what to do.
    """
    kind = dtype.kind
    if kind == "b":
        if op in _WEIGHED:
            raise UsageError(f"{op.name} of bool is refused: a bool cannot hold it; convert to float32 first")
        return _BOOL_OPS.get(op, op)
    if kind in "iu" and op in _WEIGHED:
        raise UsageError(
            f"{op.name} of {dtype.name} is refused: integers cannot hold it; convert to float32, or use SUM and divide"
        )
    if kind in "fc" and op in _BITS:
        raise UsageError(f"{op.name} of {dtype.name} is refused: bitwise operations need integers or bool")
    if kind == "c" and op in (Op.MIN, Op.MAX):
        raise UsageError(f"{op.name} of {dtype.name} is refused: complex numbers have no order")
    return op
