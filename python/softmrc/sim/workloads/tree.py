"""Tree collectives: broadcast, and all-reduce as a reduction to the root and a broadcast back.

Trees are binary heaps over the given order of ranks. With two trees each carries half of the bytes, and the second is
built over the order turned round: a rank that is a leaf in one is an inner node of the other, so all NICs work both
ways (the idea of double binary trees, Sanders, Speck and Traeff 2009).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from softmrc.errors import UsageError
from softmrc.sim.builder import Builder
from softmrc.sim.workload import Int64s
from softmrc.sim.workloads.ranks import After, as_ranks, as_size, as_table, cut

__all__ = ["broadcast", "tree_all_reduce"]


def tree_all_reduce(
    builder: Builder,
    ranks: int | Sequence[int] | Int64s,
    size: int,
    *,
    pieces: int = 8,
    trees: int = 2,
    after: After = None,
    group: str = "all_reduce",
) -> Int64s:
    """Add a tree all-reduce, pipelined by pieces.

    Args:
        builder: takes 2(n-1) * pieces * trees sends.
        ranks: hosts; a number n means 0..n-1.
        size: bytes of the buffer on each rank.
        pieces: parts the share of a tree is cut into; each moves on alone.
        trees: 1 or 2.
        after: what each rank waits for before it takes part.
        group: reporting group.

    Returns:
        A table with a line a rank: the messages after which it has the result (of the root of a tree, what its
        children sent).

    Raises:
        UsageError: fewer than 2 ranks, a rank twice, or a number out of range.
    """
    hosts = as_ranks(ranks)
    n = len(hosts)
    if trees not in (1, 2):
        raise UsageError(f"{trees} trees; there are 1 or 2")
    waits = as_table(after, n)
    first = builder.n
    done = []
    for number, share in enumerate(cut(as_size(size), trees).tolist()):
        order = np.arange(n) if number == 0 else np.arange(n)[::-1]
        ready = None if waits is None else waits[order]
        table = _reduce_then_spread(builder, hosts[order], cut(share, pieces), ready, group)
        done.append(table[np.argsort(order)])
    builder.collective("all_reduce", n, size, first)
    return np.concatenate(done, axis=1)


def broadcast(
    builder: Builder,
    ranks: int | Sequence[int] | Int64s,
    size: int,
    *,
    root: int = 0,
    shape: str = "tree",
    pieces: int = 8,
    after: After = None,
    group: str = "broadcast",
) -> Int64s:
    """Add a broadcast, pipelined by pieces.

    Args:
        builder: takes (n-1) * pieces sends.
        ranks: hosts; a number n means 0..n-1.
        size: bytes.
        root: index into the ranks of the one that has the data.
        shape: "tree" (binary) or "chain" (each passes it on to the next; fewest bytes on any NIC).
        pieces: parts that travel on alone.
        after: what each rank waits for before it takes part; the root's line counts for its sends, the others' for
            passing on.
        group: reporting group.

    Returns:
        A table with a line a rank: the messages after which it has everything; -1 for the root.

    Raises:
        UsageError: fewer than 2 ranks, no such root or shape, or a number out of range.
    """
    hosts = as_ranks(ranks)
    n = len(hosts)
    if not 0 <= root < n:
        raise UsageError(f"root {root} is no rank; there are 0..{n - 1}")
    if shape not in ("tree", "chain"):
        raise UsageError(f"a broadcast has the shape tree or chain, not {shape!r}")
    order = np.roll(np.arange(n), -root)
    waits = as_table(after, n)
    ready = None if waits is None else waits[order]
    first = builder.n
    arity = 2 if shape == "tree" else 1
    got = _spread(builder, hosts[order], cut(as_size(size), pieces), ready, None, arity, group)
    builder.collective("broadcast", n, size, first)
    return got[np.argsort(order)]


def _levels(n: int, arity: int) -> list[Int64s]:
    """Return the places of a heap without its root, level by level."""
    levels: list[Int64s] = []
    begin, width = 1, arity
    while begin < n:
        levels.append(np.arange(begin, min(begin + width, n)))
        begin, width = begin + width, width * arity
    return levels


def _reduce_then_spread(
    builder: Builder, hosts: Int64s, parts: Int64s, ready: Int64s | None, group: str
) -> Int64s:
    n, pieces = len(hosts), len(parts)
    up = np.full((n, pieces), -1, dtype=np.int64)
    for level in reversed(_levels(n, 2)):
        waits = _from_children(up, level)
        ids = _level_sends(builder, hosts, level, (level - 1) // 2, parts, waits, ready, group)
        up[level] = ids
    at_root = _from_children(up, np.array([0]))
    got = _spread(builder, hosts, parts, ready, at_root, 2, group)
    width = max(pieces * 2, got.shape[1])
    done = np.full((n, width), -1, dtype=np.int64)
    done[:, :pieces] = got
    done[0] = -1
    done[0, : pieces * 2] = at_root.reshape(-1)
    return done


def _from_children(up: Int64s, places: Int64s) -> Int64s:
    """Return what a place waits for before it passes a piece up: the same piece of its children. Place, piece, 2."""
    n, pieces = up.shape
    out = np.full((len(places), pieces, 2), -1, dtype=np.int64)
    for side in (1, 2):
        child = places * 2 + side
        has = child < n
        out[has, :, side - 1] = up[child[has]]
    return out


def _level_sends(
    builder: Builder,
    hosts: Int64s,
    source: Int64s,
    target: Int64s,
    parts: Int64s,
    waits: Int64s,
    ready: Int64s | None,
    group: str,
) -> Int64s:
    """Send all pieces from places to places; `waits` has a line for each place and piece. Ids by place and piece."""
    pieces = len(parts)
    flat = waits.reshape(len(source) * pieces, -1)
    if ready is not None:
        flat = np.concatenate((flat, np.repeat(ready[source], pieces, axis=0)), axis=1)
    ids = builder.sends(
        np.repeat(hosts[source], pieces),
        np.repeat(hosts[target], pieces),
        np.tile(parts, len(source)),
        after=flat,
        group=group,
    )
    return ids.reshape(len(source), pieces)


def _spread(
    builder: Builder,
    hosts: Int64s,
    parts: Int64s,
    ready: Int64s | None,
    at_root: Int64s | None,
    arity: int,
    group: str,
) -> Int64s:
    """Pass pieces from place 0 down; returns what each place receives, -1 for place 0."""
    n, pieces = len(hosts), len(parts)
    got = np.full((n, pieces), -1, dtype=np.int64)
    for level in _levels(n, arity):
        parent = (level - 1) // arity
        waits = got[parent].reshape(len(level), pieces, 1)
        if at_root is not None:
            waits = np.concatenate((waits, np.where((parent == 0)[:, None, None], at_root, -1)), axis=2)
        got[level] = _level_sends(builder, hosts, parent, level, parts, waits, ready, group)
    return got
