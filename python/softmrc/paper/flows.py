"""The few workloads of the scenarios: endless flows, and the paper's 64-way ring and all-to-all.

What `softmrc.sim.workloads` lacks: rings of which only the first steps run, messages split over QPs, and flows that
never end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from softmrc.sim.builder import Builder
from softmrc.sim.workload import GREEDY, Workload

__all__ = ["all_to_all", "crossing_order", "greedy_pairs", "parts", "ring", "send"]


def send(builder: Builder, src: int, dst: int, size: int, *, at_ns: int = 0, qp: int = -1) -> int:
    """Add one message and return its task.

    Args:
        builder: Where it goes.
        src: Host that sends.
        dst: Host that receives.
        size: Bytes, or GREEDY.
        at_ns: When it is posted.
        qp: QP of the pair; -1 is in turn.
    """
    return int(builder.sends([src], [dst], size, start=at_ns, qp=qp)[0])


def greedy_pairs(pairs: Iterable[tuple[int, int]], qps: int) -> tuple[Workload, list[list[int]]]:
    """Return endless flows, one task a QP, and each pair's task numbers."""
    builder = Builder()
    tasks = [[send(builder, src, dst, GREEDY, qp=qp) for qp in range(qps)] for src, dst in pairs]
    return builder.build(), tasks


def crossing_order(hosts: int, hosts_per_t0: int) -> list[int]:
    """Return a ring order in which neighbours always sit below different T0s."""
    racks = hosts // hosts_per_t0
    return [(k % racks) * hosts_per_t0 + k // racks for k in range(hosts)]


def parts(size: int, qps: int) -> list[int]:
    """Return how a message is split over QPs: evenly, to the byte, without empty parts."""
    split = [size // qps + (1 if q < size % qps else 0) for q in range(qps)]
    return [part for part in split if part]


def ring(
    order: Sequence[int], chunk: int, rounds: Sequence[int], qps: int, channels: int = 1, host_ns: int = 0
) -> tuple[Workload, list[NDArray[np.int64]]]:
    """Return steps of ring all-reduces: a host passes on what it got in the step before.

    Args:
        order: Hosts in ring order.
        chunk: Bytes a host sends in a step: the size of the all-reduce over the number of hosts.
        rounds: Steps of each of several runs, one after the other: a host begins the next one when all its rings are
            through with the last, as one kernel follows another. 2 (hosts - 1) steps are a whole all-reduce.
        qps: What a channel sends in a step is split evenly over so many QPs of its own.
        channels: Rings that run side by side, each with its share of the chunk, as collective libraries do.
        host_ns: What a host needs from the last byte of a chunk to posting the next one.

    Returns:
        The workload, and the tasks of each round.
    """
    builder = Builder()
    n = len(order)
    at = np.array(order)
    begin: NDArray[np.int64] | None = None
    tasks: list[NDArray[np.int64]] = []
    for steps in rounds:
        ids, arrived = [], []
        for channel, share in enumerate(parts(chunk, channels)):
            split = parts(share, qps)
            width = len(split)
            source, target = np.repeat(at, width), np.repeat(np.roll(at, -1), width)
            sizes, qp = np.tile(split, n), np.tile(channel * qps + np.arange(width), n)
            after = None if begin is None else np.repeat(begin, width)
            for step in range(steps):
                delay = host_ns if step or begin is not None else 0
                made = builder.sends(source, target, sizes, after=after, delay=delay, qp=qp).reshape(n, width)
                ids.append(made.ravel())
                # What the host at place i sends next waits for all parts from the host at place i - 1.
                came = np.roll(made, 1, axis=0)
                after = np.repeat(came, width, axis=0)
            arrived.append(came)
        begin = builder.computes(at, 0, after=np.concatenate(arrived, axis=1))
        tasks.append(np.concatenate(ids))
    return builder.build(), tasks


def all_to_all(hosts: int, size: int, qps: int) -> Workload:
    """Return every host sending to every other at once.

    Args:
        hosts: Number of hosts.
        size: Bytes of a host's buffer, its own share included (nccl-tests counts so): each peer gets size / hosts.
        qps: A message is split evenly over so many QPs.
    """
    builder = Builder()
    split = parts(size // hosts, qps)
    src, shift, part = np.meshgrid(
        np.arange(hosts), np.arange(1, hosts), np.arange(len(split)), indexing="ij"
    )
    source = src.ravel()
    builder.sends(source, (source + shift.ravel()) % hosts, np.array(split)[part.ravel()], qp=part.ravel())
    return builder.build()
