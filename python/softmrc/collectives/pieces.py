"""How bytes are cut: into a piece for each rank, and pieces into messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

__all__ = ["Piece", "cut", "laid_out", "split"]

_LINE = 64


class Piece(NamedTuple):
    """A run of bytes."""

    off: int
    len: int


def split(nbytes: int, parts: int, unit: int) -> list[Piece]:
    """About equal pieces in order, whole elements each; long ones begin at cache lines.

    Args:
        nbytes: a multiple of `unit`.
        parts: number of pieces, at least 1; some may be empty.
        unit: bytes of an element.
    """
    grain = _LINE if _LINE % unit == 0 and nbytes >= parts * _LINE * 4 else unit
    whole, rest = divmod(nbytes // grain, parts)
    pieces = []
    off = 0
    for index in range(parts):
        length = (whole + (index < rest)) * grain
        if index == parts - 1:
            length = nbytes - off
        pieces.append(Piece(off, length))
        off += length
    return pieces


def laid_out(lengths: Sequence[int]) -> list[Piece]:
    """Pieces of given lengths one behind the other."""
    pieces = []
    off = 0
    for length in lengths:
        pieces.append(Piece(off, length))
        off += length
    return pieces


def cut(piece: Piece, most: int, unit: int) -> Iterator[Piece]:
    """The piece in messages of at most `most` bytes, whole elements each; nothing for an empty one."""
    size = max(most - most % unit, unit)
    for off in range(piece.off, piece.off + piece.len, size):
        yield Piece(off, min(size, piece.off + piece.len - off))
