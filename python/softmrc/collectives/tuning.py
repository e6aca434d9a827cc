"""Which algorithm a collective uses, by size and ranks: one table.

Decides thresholds and message sizes; leaves the steps to the algorithms. One table for networks, one for ranks that
exchange long messages through the memory of their host. The figures are measured ones
(docs/collectives.md); `override` replaces some of them for a measurement. Every rank of a group must use the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from softmrc.errors import UsageError

__all__ = ["NEAR", "Tuning", "override", "tuning"]

_PAGE = 4096


@dataclass(frozen=True, slots=True)
class Tuning:
    """The table. Sizes are bytes."""

    exchange_max: int = 64 * 1024
    """all_reduce, reduce: up to this size everyone sends everything to everyone (to the root) in one round; among
    more than four ranks in proportion less."""

    exchange_ranks: int = 8
    """The same: up to this many ranks."""

    doubling_min: int = 4096
    """all_reduce among 4, 8, 16... ranks: from this size on doubling instead, log2(n) rounds with fewer bytes."""

    doubling_max: int = 128 * 1024
    """Doubling, and a binomial tree for reduce, up to this size."""

    eager_max: int = 32768
    """Pieces up to this size go through the slots of the lanes (in messages of `EAGER_MAX`), longer ones straight
    from user memory to user memory after an announcement."""

    direct_ranks: int = 16
    """Up to this many ranks each pair exchanges its pieces directly; beyond, rings."""

    direct_max: int = 64 * 1024
    """Reductions of more bytes go round a ring, or by halving, from three ranks on: fewer pairs are busy at once."""

    spread_max: int = 512 * 1024
    """broadcast and all_gather of more bytes go from rank to rank, from three ranks on, for the same reason."""

    halving_ranks: int = 64
    """all_reduce among 4, 8, 16... ranks: up to this many halving and doubling instead of a ring."""

    halving_max: int = 2 * 1024 * 1024
    """The same: up to this many bytes."""

    chunk: int = 1024 * 1024
    """Messages of long pieces, so that sending, reducing and handing on overlap."""

    chunk_max: int = 4 * 1024 * 1024
    """Messages of very long pieces: a program has no more steps than it needs."""

    chunks: int = 64
    """Pieces are cut into at most this many messages, as far as `chunk_max` allows."""

    window: int = 2
    """Messages under way towards a landing zone of a reduction; twice as many in a ring."""

    flat_ranks: int = 4
    """broadcast: up to this many ranks the root sends small data to each itself; beyond, a binomial tree."""

    def __post_init__(self) -> None:
        for name in (
            "exchange_ranks",
            "direct_ranks",
            "chunk",
            "chunks",
            "window",
            "flat_ranks",
            "halving_ranks",
        ):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} {getattr(self, name)} is below 1")
        sizes = (
            self.eager_max,
            self.exchange_max,
            self.doubling_min,
            self.doubling_max,
            self.direct_max,
            self.halving_max,
        )
        if self.chunk_max < self.chunk or min(sizes) < 0:
            raise UsageError("chunk_max must not be below chunk, and no size negative")

    def exchanged(self, ranks: int) -> int:
        """Bytes up to which everyone sends everything to everyone."""
        return self.exchange_max * 3 // max(3, ranks - 1) if ranks <= self.exchange_ranks else 0

    def message(self, piece: int) -> int:
        """Bytes of the messages of a long piece."""
        even = (piece // self.chunks + _PAGE) // _PAGE * _PAGE
        return min(max(self.chunk, even), self.chunk_max)


NEAR = Tuning(
    chunk=4 * 1024 * 1024,
    direct_max=1 << 62,
)
"""For ranks of one host that exchange long messages through memory: longer chunks, and pairs may all be busy."""

_current = {False: Tuning(), True: NEAR}


def tuning(near: bool = False) -> Tuning:
    """The table in use.

    Args:
        near: for ranks that exchange long messages through memory.
    """
    return _current[near]


@contextlib.contextmanager
def override(**changes: int) -> Iterator[Tuning]:
    """Use other figures for a while, in this process; every rank has to do the same.

    Example:
        >>> with override(chunk=1 << 20) as table:
        ...     table.chunk
        1048576

    Returns:
        The table for ranks of several hosts; the other one has the same changes.

    Raises:
        UsageError: a figure is out of range.
    """
    global _current
    before = _current
    _current = {near: replace(table, **changes) for near, table in before.items()}
    try:
        yield _current[False]
    finally:
        _current = before
