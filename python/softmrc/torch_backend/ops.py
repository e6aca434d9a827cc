"""Names torch gives to element types and reductions, in the terms of `softmrc.collectives`.

Decides which types are reduced at all; which reductions go with a type is `softmrc.collectives.dtypes`'.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
from torch.distributed import ReduceOp

from softmrc.collectives.dtypes import dtype_named, known_dtypes, op_for, op_named
from softmrc.errors import UsageError

__all__ = ["BYTES", "Reduction", "reduction"]

BYTES = dtype_named("uint8").code
"""Element code of plain bytes: what moves without being reduced."""

# By name, since a torch may lack some (the wider unsigned types are newer than the others).
_CODES = {getattr(torch, kind.name): kind.code for kind in known_dtypes() if hasattr(torch, kind.name)}

_Kind = ReduceOp.RedOpType


class Reduction(NamedTuple):
    """A reduction as `softmrc.collectives` takes it."""

    op: str
    factor: float
    code: int


def reduction(op: Any, dtype: torch.dtype, call: str) -> Reduction:
    """Return the reduction torch asks for.

    Args:
        op: a `ReduceOp` or `ReduceOp.RedOpType`.
        dtype: element type it is to work on.
        call: name of the collective, for messages.

    Raises:
        UsageError: this reduction has no meaning for this type, or the type only moves (broadcast, gather, send).
    """
    # `isinstance(ReduceOp.SUM, ReduceOp)` holds, though that is a plain RedOpType.
    kind = op if type(op) is _Kind else op.op
    if kind.name == "PREMUL_SUM":
        # The factor shows in the pickled state only.
        return _plain(kind.name.lower(), dtype, call)._replace(factor=float(op.__getstate__()[1]))
    return _plain(kind.name.lower(), dtype, call)


@cache
def _plain(name: str, dtype: torch.dtype, call: str) -> Reduction:
    code = _CODES.get(dtype)
    if code is None:
        raise UsageError(
            f"{call}: no reduction of {dtype}; convert it first, or view it as torch.uint8 to move it only"
        )
    try:
        op_for(dtype_named(code), op_named(name))
    except UsageError as error:
        raise UsageError(f"{call}: {error}") from None
    return Reduction(name, 1.0, code)
