"""Cuts every message of a workload over several queue pairs, as collective libraries do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from softmrc.errors import UsageError
from softmrc.sim.workload import GREEDY, Collective, Int64s, TaskKind, Workload

__all__ = ["split_over_qps"]

_MOST_PARTS = 1024
_MOST_EDGES = 1 << 28


def split_over_qps(work: Workload, parts: int) -> Workload:
    """Return the workload with each send cut into parts on QPs 0..parts-1 of its pair.

    What waited for a send waits for all its parts. A greedy send becomes as many greedy ones. Parts differ by one
    byte at most; of a message with fewer bytes than parts some have none.

    Args:
        work: any workload; sends that name a QP are refused.
        parts: 1..1024.

    Raises:
        UsageError: a number out of range, a send that names its QP, or a graph too large.
    """
    if not 1 <= parts <= _MOST_PARTS:
        raise UsageError(f"split_qps = {parts}: 1 to {_MOST_PARTS}")
    if parts == 1:
        return work
    send = work.kind == TaskKind.SEND
    if (work.qp[send] >= 0).any():
        task = int(np.flatnonzero(send & (work.qp >= 0))[0])
        raise UsageError(f"task {task} names its queue pair, so it cannot be split over {parts}")
    count = np.where(send, parts, 1)
    begin = np.concatenate(([0], np.cumsum(count)))
    origin = np.repeat(np.arange(work.n), count)
    part = np.arange(len(origin)) - begin[origin]
    whole = work.size[origin]
    cut = whole // parts + (part < whole % parts)
    split = send[origin]
    counts, ids = _dependencies(work, count, begin, origin)
    return replace(
        work,
        kind=work.kind[origin],
        node=work.node[origin],
        peer=work.peer[origin],
        size=np.where(split & (whole != GREEDY), cut, whole).astype(np.int64),
        start=work.start[origin],
        delay=work.delay[origin],
        qp=np.where(split, part, -1).astype(np.int32),
        group=work.group[origin],
        dep_ptr=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        dep_idx=ids.astype(np.int32),
        steps=[(name, _all_parts(tasks, count, begin)) for name, tasks in work.steps],
        collectives=[
            Collective(c.kind, c.ranks, c.size, int(begin[c.first]), int(begin[c.last]))
            for c in work.collectives
        ],
    )


def _all_parts(tasks: Int64s, count: Int64s, begin: Int64s) -> Int64s:
    """Return the ids of all parts of these tasks, in order."""
    sizes = count[tasks]
    first = np.repeat(begin[tasks] - np.concatenate(([0], np.cumsum(sizes)[:-1])), sizes)
    return np.asarray(first + np.arange(sizes.sum()), dtype=np.int64)


def _dependencies(work: Workload, count: Int64s, begin: Int64s, origin: Int64s) -> tuple[Int64s, Int64s]:
    """Return how many dependencies each new task has, and which."""
    owner = np.repeat(np.arange(work.n), np.diff(work.dep_ptr))
    width = np.bincount(owner, weights=count[work.dep_idx], minlength=work.n).astype(np.int64)
    counts = width[origin]
    if counts.sum() > _MOST_EDGES:
        raise UsageError(
            f"split over queue pairs the graph has {int(counts.sum())} dependencies; use fewer parts"
        )
    flat = _all_parts(work.dep_idx.astype(np.int64), count, begin)
    start = np.concatenate(([0], np.cumsum(width)))[:-1][origin]
    offset = np.repeat(start - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
    return counts, flat[offset + np.arange(counts.sum())]
