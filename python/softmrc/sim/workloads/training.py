"""A synchronous training job: compute, collective, barrier, step after step; the slowest rank sets the pace."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from softmrc.errors import UsageError
from softmrc.sim.builder import Builder
from softmrc.sim.workload import MAX_TIME_NS, Int64s
from softmrc.sim.workloads.ranks import as_ranks, join

__all__ = ["CollectiveOf", "training_job"]

CollectiveOf = Callable[[Builder, Int64s], Int64s]
"""Adds the collective of a bucket: takes the builder and what each rank waits for, returns what each rank ends with."""


def training_job(
    builder: Builder,
    ranks: int | Sequence[int] | Int64s,
    collective: CollectiveOf,
    *,
    steps: int,
    compute_ns: int,
    jitter: float = 0.0,
    buckets: int = 1,
    seed: int = 1,
) -> Int64s:
    """Add a job; its steps are named "step 0", "step 1", ... in the workload.

    A rank computes a step in `buckets` equal parts; after each part it joins the collective of that bucket, which also
    waits for the rank's collective of the bucket before, so that communication overlaps with the parts that follow.
    The next step begins on all ranks when the last one has finished the last bucket.

    Args:
        builder: takes the tasks.
        ranks: hosts of the job; a number n means 0..n-1.
        collective: adds the collective of one bucket over the same ranks in the same order.
        steps: at least 1.
        compute_ns: compute time of a step.
        jitter: standard deviation of a rank's compute time as a share of it, drawn anew for each rank and step,
            cut at three deviations; 0..0.33.
        buckets: parts of a step.
        seed: of the jitter.

    Returns:
        The barrier of each step.

    Raises:
        UsageError: a number out of range, or the collective has other ranks.
    """
    hosts = as_ranks(ranks)
    _check(steps, compute_ns, jitter, buckets)
    rng = np.random.default_rng([seed, len(hosts), 0x7A])
    barriers: list[int] = []
    for step in range(steps):
        noise = np.clip(rng.standard_normal(len(hosts)), -3, 3) * jitter
        parts = np.rint(compute_ns * (1 + noise) / buckets).astype(np.int64)
        begin = np.full(len(hosts), barriers[-1] if barriers else -1)
        done: list[Int64s] = []
        for _ in range(buckets):
            begin = builder.computes(hosts, parts, after=begin)
            ends = collective(builder, join(begin, *done[-1:]))
            if len(ends) != len(hosts):
                raise UsageError(
                    f"the collective has {len(ends)} ranks, the job {len(hosts)}; they must be the same"
                )
            done.append(ends)
        barriers.append(builder.barrier(join(begin, *done), int(hosts[0])))
        builder.step(f"step {step}", [barriers[-1]])
    return np.array(barriers, dtype=np.int64)


def _check(steps: int, compute_ns: int, jitter: float, buckets: int) -> None:
    if steps < 1:
        raise UsageError(f"{steps} steps; at least 1")
    if not 0 <= compute_ns <= MAX_TIME_NS:
        raise UsageError(f"compute_ns {compute_ns} is outside 0..{MAX_TIME_NS}")
    if not 0 <= jitter <= 0.33:
        raise UsageError(f"jitter {jitter} is outside 0..0.33; 0.02 varies compute times by 2 %")
    if buckets < 1:
        raise UsageError(f"{buckets} buckets; at least 1")
