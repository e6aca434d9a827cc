"""What all collectives share: who takes part, how a buffer is cut, and from which tasks each rank goes on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from softmrc.errors import UsageError
from softmrc.sim.workload import MAX_SIZE, Int64s

__all__ = ["After", "as_ranks", "as_size", "as_table", "cut", "join"]

After = ArrayLike | None
"""What the ranks wait for before they begin: nothing, one id a rank, or a table with a line a rank (-1: nothing)."""


def as_ranks(ranks: int | Sequence[int] | Int64s, least: int = 2) -> Int64s:
    """Return the hosts that take part, in order; a number n means hosts 0..n-1.

    Raises:
        UsageError: fewer than `least`, or a host twice.
    """
    hosts = np.arange(ranks) if isinstance(ranks, int) else np.asarray(ranks, dtype=np.int64)
    if hosts.ndim != 1 or len(hosts) < least:
        raise UsageError(f"{hosts.size} ranks; at least {least} have to take part")
    values, counts = np.unique(hosts, return_counts=True)
    if (counts > 1).any():
        raise UsageError(f"host {values[counts > 1][0]} is listed twice; each rank is a host of its own")
    return hosts.astype(np.int64)


def as_size(size: int, what: str = "size") -> int:
    """Return a number of bytes.

    Raises:
        UsageError: negative or beyond MAX_SIZE.
    """
    if not 0 <= size <= MAX_SIZE:
        raise UsageError(f"{what} {size} bytes is outside 0..{MAX_SIZE}")
    return int(size)


def as_table(after: After, ranks: int) -> Int64s | None:
    """Return `after` as a table with a line a rank, None when there is nothing to wait for.

    Raises:
        UsageError: it has another number of lines.
    """
    if after is None:
        return None
    table = np.asarray(after, dtype=np.int64)
    table = table.reshape(-1, 1) if table.ndim == 1 else table
    if table.ndim != 2 or len(table) != ranks:
        raise UsageError(
            f"dependencies for {len(table)} ranks, but {ranks} take part; give one line for each rank"
        )
    return table


def cut(size: int, parts: int) -> Int64s:
    """Cut bytes into parts that differ by at most one, first parts last in line for the odd bytes.

    Raises:
        UsageError: fewer than one part.
    """
    if parts < 1:
        raise UsageError(f"a buffer is cut into at least 1 part, not {parts}")
    base, odd = divmod(size, parts)
    sizes = np.full(parts, base, dtype=np.int64)
    sizes[parts - odd :] += 1
    return sizes


def join(*tables: Int64s) -> Int64s:
    """Put tables of dependencies side by side; a row of ids is a table of one column."""
    return np.concatenate([t if t.ndim == 2 else t.reshape(-1, 1) for t in tables], axis=1)
