"""Ring collectives: reduce-scatter, all-gather and both in turn as all-reduce.

In each step every rank sends one shard to the next rank of the ring. Which shard, and so which message it had to wait
for, is the classic schedule: rank i sends shard i - s in step s of a reduce-scatter, and goes on with i + 1 - s in the
all-gather. Shards may be cut into pieces, each of which travels on as soon as it has arrived.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from softmrc.errors import UsageError
from softmrc.sim.builder import Builder
from softmrc.sim.workload import Int64s
from softmrc.sim.workloads.ranks import After, as_ranks, as_size, as_table, cut, join

__all__ = ["ring_all_gather", "ring_all_reduce", "ring_reduce_scatter"]


def ring_all_reduce(
    builder: Builder,
    ranks: int | Sequence[int] | Int64s,
    size: int,
    *,
    pieces: int = 1,
    step_ns: int = 0,
    after: After = None,
    group: str = "all_reduce",
) -> Int64s:
    """Add a ring all-reduce: 2(n-1) steps.

    Args:
        builder: takes 2(n-1) * n * pieces sends.
        ranks: hosts in the order of the ring; a number n means 0..n-1.
        size: bytes of the buffer on each rank.
        pieces: parts of a shard that are pipelined.
        step_ns: time a rank needs between a message and the send that follows from it.
        after: what each rank waits for before its first send.
        group: reporting group.

    Returns:
        A table with a line a rank, in the order given: the messages after which it has the result.

    Raises:
        UsageError: fewer than 2 ranks, a rank twice, or a number out of range.
    """
    hosts, first = as_ranks(ranks), builder.n
    done = _steps(builder, hosts, size, range(2 * (len(hosts) - 1)), pieces, step_ns, after, group)
    builder.collective("all_reduce", len(hosts), size, first)
    return done


def ring_reduce_scatter(
    builder: Builder,
    ranks: int | Sequence[int] | Int64s,
    size: int,
    *,
    pieces: int = 1,
    step_ns: int = 0,
    after: After = None,
    group: str = "reduce_scatter",
) -> Int64s:
    """Add a ring reduce-scatter of buffers of `size` bytes: n-1 steps; the rest as `ring_all_reduce`."""
    hosts, first = as_ranks(ranks), builder.n
    done = _steps(builder, hosts, size, range(len(hosts) - 1), pieces, step_ns, after, group)
    builder.collective("reduce_scatter", len(hosts), size, first)
    return done


def ring_all_gather(
    builder: Builder,
    ranks: int | Sequence[int] | Int64s,
    size: int,
    *,
    pieces: int = 1,
    step_ns: int = 0,
    after: After = None,
    group: str = "all_gather",
) -> Int64s:
    """Add a ring all-gather into buffers of `size` bytes: n-1 steps; the rest as `ring_all_reduce`."""
    hosts, first = as_ranks(ranks), builder.n
    steps = range(len(hosts) - 1, 2 * (len(hosts) - 1))
    done = _steps(builder, hosts, size, steps, pieces, step_ns, after, group)
    builder.collective("all_gather", len(hosts), size, first)
    return done


def _steps(
    builder: Builder,
    hosts: Int64s,
    size: int,
    steps: range,
    pieces: int,
    step_ns: int,
    after: After,
    group: str,
) -> Int64s:
    """Add the steps of the all-reduce schedule that are asked for."""
    n = len(hosts)
    if step_ns < 0:
        raise UsageError(f"step_ns {step_ns} is negative")
    shards = cut(as_size(size), n)
    parts = np.stack([cut(int(s), pieces) for s in shards])
    rank = np.repeat(np.arange(n), pieces)
    piece = np.tile(np.arange(pieces), n)
    source, target = hosts[rank], hosts[(rank + 1) % n]
    # A piece of rank i waits for the same piece that rank i - 1 sent it in the step before.
    before = ((rank - 1) % n) * pieces + piece
    waits = as_table(after, n)
    # A rank that has not begun yet forwards nothing either: its own data, or its buffers, are missing.
    begun = None if waits is None else waits[rank]
    ready, ids = begun, np.zeros(0, dtype=np.int64)
    for step in steps:
        sizes = parts[(rank - step) % n, piece]
        delay = step_ns if step > steps.start else 0
        ids = builder.sends(source, target, sizes, after=ready, delay=delay, group=group)
        ready = ids[before] if begun is None else join(ids[before], begun)
    return np.roll(ids.reshape(n, pieces), 1, axis=0)
