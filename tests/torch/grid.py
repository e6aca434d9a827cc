"""The grid of cases: element type, layout, reduction, collective; what is right, and what is to be refused.

The oracle is torch's own arithmetic in one process. Values are small whole numbers, so that every order of adding
gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

DTYPES = [
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.bool,
    torch.complex64,
    torch.complex128,
]
MOVED_ONLY = [
    getattr(torch, name)
    for name in ("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2")
    if hasattr(torch, name)
]
LAYOUTS = ["plain", "column", "every_second", "odd_offset", "empty", "scalar", "permuted"]
OPS = ["SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"]
REDUCING = ["all_reduce", "reduce", "reduce_scatter", "reduce_scatter_list"]
MOVING = [
    "broadcast",
    "all_gather",
    "all_gather_list",
    "gather",
    "scatter",
    "all_to_all",
    "all_to_all_list",
    "send",
]
FACTOR = 0.5


@dataclass(frozen=True)
class Case:
    """One call of one collective, the same on all ranks."""

    collective: str
    dtype: torch.dtype
    layout: str
    op: str = ""

    def __str__(self) -> str:
        return f"{self.collective} {self.op} {self.dtype} {self.layout}"


def full() -> Iterator[Case]:
    """All cases."""
    for dtype in DTYPES:
        for layout in LAYOUTS:
            yield from (Case(name, dtype, layout, op) for name in REDUCING for op in OPS)
            yield from (Case(name, dtype, layout) for name in MOVING)
    for dtype in MOVED_ONLY:
        yield from (Case(name, dtype, "plain") for name in MOVING)


def refused(case: Case) -> bool:
    """Whether the case must be refused: there is no right answer, or torch refuses it before asking a backend."""
    if not case.op:
        return False
    inexact = case.dtype.is_floating_point or case.dtype.is_complex
    if case.op in ("AVG", "PREMUL_SUM"):
        return not inexact
    if case.op in ("BAND", "BOR", "BXOR"):
        return inexact
    if not case.dtype.is_complex:
        return False
    # Torch itself refuses products in all_reduce, where it hands complex tensors over as pairs of real numbers.
    return case.op in ("MIN", "MAX") or (case.op == "PRODUCT" and case.collective == "all_reduce")


def values(case: Case, count: int, rank: int, part: int = 0) -> Tensor:
    """What a rank puts in, flat."""
    raw = (torch.arange(count) * 3 + rank * 5 + part * 7 + 1) % 4
    if case.dtype.is_complex:
        return torch.complex(raw.double(), ((raw + rank) % 3).double()).to(case.dtype)
    return raw.to(case.dtype)


def shaped(case: Case, flat: Tensor) -> Tensor:
    """A tensor with these values, in the layout of the case."""
    count = flat.numel()
    if case.layout in ("plain", "empty", "scalar"):
        return flat.clone().reshape(()) if case.layout == "scalar" else flat.clone()
    rows = count // 2
    if case.layout == "column":
        return flat.clone().reshape(2, rows).t().contiguous().t()
    if case.layout == "permuted":
        return flat.clone().reshape(2, 1, rows).permute(2, 0, 1).contiguous().permute(1, 2, 0)
    if case.layout == "odd_offset":
        room = torch.zeros(count + 5, dtype=flat.dtype)
        room[3 : 3 + count] = flat
        return room[3 : 3 + count]
    room = torch.zeros(2 * count, dtype=flat.dtype)
    room[::2] = flat
    return room[::2]


def counts(case: Case) -> int:
    """Elements of one tensor of the case; a multiple of what all numbers of ranks divide where it is a part."""
    return {"empty": 0, "scalar": 1}.get(case.layout, 120)


def flat_of(tensor: Tensor) -> Tensor:
    return tensor.detach().clone().reshape(-1)


def combine(op: str, tensors: list[Tensor], dtype: torch.dtype) -> Tensor:
    """The reduction as torch does it on one process."""
    if dtype == torch.bool:
        any_of = op in ("SUM", "MAX", "BOR")
        if op == "BXOR":
            return reduce(torch.logical_xor, tensors)
        return reduce(torch.logical_or if any_of else torch.logical_and, tensors)
    if op in ("AVG", "PREMUL_SUM"):
        wide = torch.complex128 if dtype.is_complex else torch.float64
        total = reduce(torch.add, [tensor.to(wide) for tensor in tensors])
        return (total / len(tensors) if op == "AVG" else total * FACTOR).to(dtype)
    step: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "SUM": torch.add,
        "PRODUCT": torch.mul,
        "MIN": torch.minimum,
        "MAX": torch.maximum,
        "BAND": torch.bitwise_and,
        "BOR": torch.bitwise_or,
        "BXOR": torch.bitwise_xor,
    }
    return reduce(step[op], tensors)


def reduce_op(name: str) -> Any:
    return dist._make_nccl_premul_sum(FACTOR) if name == "PREMUL_SUM" else getattr(dist.ReduceOp, name)


def equal(got: Tensor, expected: Tensor, op: str) -> bool:
    """Bit-equal; an average of half-precision numbers may round once more on its way."""
    got, expected = flat_of(got), expected.reshape(-1)
    if got.dtype != expected.dtype or got.numel() != expected.numel():
        return False
    if op == "AVG":
        return torch.allclose(got.to(torch.complex128), expected.to(torch.complex128), rtol=8e-3, atol=0)
    if got.dtype.is_floating_point or got.dtype.is_complex:
        got, expected = got.contiguous().view(torch.uint8), expected.contiguous().view(torch.uint8)
    return torch.equal(got, expected)
