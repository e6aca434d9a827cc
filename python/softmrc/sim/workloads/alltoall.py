"""All-to-all: every rank sends an equal share of its buffer to every other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from softmrc.errors import UsageError
from softmrc.sim.builder import Builder
from softmrc.sim.workload import Int64s
from softmrc.sim.workloads.ranks import After, as_ranks, as_size, as_table

__all__ = ["all_to_all"]


def all_to_all(
    builder: Builder,
    ranks: int | Sequence[int] | Int64s,
    size: int,
    *,
    window: int = 0,
    after: After = None,
    group: str = "all_to_all",
) -> Int64s:
    """Add an all-to-all.

    Rank i sends to i+1, i+2, ... so that no rank is everybody's first.

    Args:
        builder: takes n(n-1) sends, rank by rank.
        ranks: hosts; a number n means 0..n-1.
        size: bytes of the send buffer of a rank; each peer gets size // n, and the share for itself stays.
        window: sends of a rank in flight at once, the next begins when the oldest is acknowledged; 0: all at once.
        after: what each rank waits for before its first send.
        group: reporting group.

    Returns:
        A table with a line a rank: the n-1 messages it receives.

    Raises:
        UsageError: fewer than 2 ranks, a rank twice, or a number out of range.
    """
    hosts = as_ranks(ranks)
    n = len(hosts)
    if window < 0:
        raise UsageError(f"window {window} is negative; 0 means all at once")
    share = as_size(size) // n
    waits = as_table(after, n)
    first = builder.n
    rank = np.repeat(np.arange(n), n - 1)
    turn = np.tile(np.arange(1, n), n)
    peer = (rank + turn) % n
    if 0 < window < n - 1:
        _windowed(builder, hosts, share, window, waits, group)
    else:
        builder.sends(
            hosts[rank], hosts[peer], share, after=None if waits is None else waits[rank], group=group
        )
    builder.collective("all_to_all", n, size, first)
    # The send of rank j to rank i is number (i - j) mod n - 1 of rank j's.
    sender = np.arange(n)[None, :]
    receiver = np.arange(n)[:, None]
    number = (receiver - sender) % n
    ids = _id_of(first, sender, number, n, 0 < window < n - 1)
    return ids[number > 0].reshape(n, n - 1)


def _id_of(first: int, sender: Int64s, number: Int64s, n: int, by_turn: bool) -> Int64s:
    """Return ids of sends, which stand turn by turn where a window orders them, else rank by rank."""
    ids = first + (number - 1) * n + sender if by_turn else first + sender * (n - 1) + number - 1
    return np.asarray(ids, dtype=np.int64)


def _windowed(
    builder: Builder, hosts: Int64s, share: int, window: int, waits: Int64s | None, group: str
) -> None:
    n = len(hosts)
    turns: list[Int64s] = []
    for turn in range(1, n):
        ready = waits if turn <= window else turns[turn - 1 - window]
        turns.append(builder.sends(hosts, np.roll(hosts, -turn), share, after=ready, group=group))
