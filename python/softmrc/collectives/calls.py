"""What a rank called, in 64 bits that travel with its first message to each peer, so that differing calls show.

Most calls fit and can be read back: collective, element type, operation, root, bytes. Where a pair of ranks has its
own sizes (uneven all_to_all), or every rank has a list of them, a checksum stands for the sizes.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from softmrc.collectives.dtypes import Op, dtype_named

__all__ = ["Call", "Collective", "describe", "pair_print", "read_print"]

_BYTES_BITS = 40
_ROOT_BITS = 12
_MOST = (1 << _BYTES_BITS) - 1


class Collective(IntEnum):
    """The collectives, as numbered in a print. 0 is none, so that no print is 0."""

    ALL_REDUCE = 1
    REDUCE_SCATTER = 2
    REDUCE_SCATTER_V = 3
    ALL_GATHER = 4
    ALL_GATHER_V = 5
    BROADCAST = 6
    REDUCE = 7
    GATHER = 8
    SCATTER = 9
    ALL_TO_ALL = 10
    ALL_TO_ALL_V = 11
    BARRIER = 12


_REDUCING = {Collective.ALL_REDUCE, Collective.REDUCE, Collective.REDUCE_SCATTER, Collective.REDUCE_SCATTER_V}
_ROOTED = {Collective.BROADCAST, Collective.REDUCE, Collective.GATHER, Collective.SCATTER}
_LISTED = {Collective.REDUCE_SCATTER_V, Collective.ALL_GATHER_V}


@dataclass(frozen=True, slots=True)
class Call:
    """What was called. Calls that may meet are equal on all ranks."""

    collective: Collective
    dtype: int = 0
    """Code of the element type; 0 where bytes are only moved."""

    op: Op = Op.SUM
    root: int = 0
    nbytes: int = 0
    """Bytes of the elements: all of them, or of one piece where each rank has one."""

    sizes: tuple[int, ...] = ()
    """Bytes by rank, where they differ."""

    def print(self) -> int:
        """The 64 bits."""
        amount = min(self.nbytes, _MOST)
        if self.sizes:
            amount = zlib.crc32(b"".join(size.to_bytes(8, "little") for size in self.sizes))
        head = (self.collective << 8) | (self.dtype << 4) | self.op
        return (((head << _ROOT_BITS) | (self.root & 0xFFF)) << _BYTES_BITS) | amount

    def text(self) -> str:
        """In words."""
        return describe(self.print())


def read_print(value: int) -> Call | None:
    """The call of a print, sizes as their checksum in `nbytes`; None when it is none."""
    amount, head = value & _MOST, value >> _BYTES_BITS
    root, head = head & 0xFFF, head >> _ROOT_BITS
    try:
        return Call(Collective(head >> 8), (head >> 4) & 0xF, Op(head & 0xF), root, amount)
    except ValueError:
        return None


def describe(value: int) -> str:
    """A print in words, for instance "all_reduce(sum) of 4,096 bytes of float32"."""
    call = read_print(value)
    if call is None:
        return f"an unknown call ({value:#x})"
    name = call.collective.name.lower()
    if call.collective is Collective.BARRIER:
        return name
    reducing = call.collective in _REDUCING
    op = f"({call.op.name.lower()})" if reducing else ""
    elements = f" of {dtype_named(call.dtype).name}" if reducing and call.dtype <= 14 else ""
    root = f" with root {call.root}" if call.collective in _ROOTED else ""
    if call.collective in _LISTED or call.collective is Collective.ALL_TO_ALL_V:
        return f"{name}{op}{elements} with sizes of checksum {call.nbytes:08x}"
    return f"{name}{op} of {call.nbytes:,} bytes{elements}{root}"


def pair_print(call: Call, rank: int, peer: int, outgoing: Sequence[int], incoming: Sequence[int]) -> int:
    """The print of one pair of ranks in an uneven all_to_all: both agree when their sizes do."""
    there, back = outgoing[peer], incoming[peer]
    sizes = (there, back) if rank < peer else (back, there)
    return Call(call.collective, call.dtype, call.op, 0, 0, sizes).print()
