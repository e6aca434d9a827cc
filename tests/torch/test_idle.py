"""B58: a group that waits for nothing costs nothing; no thread of ours spins."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

from tests.torch.ranks import Ranks


def _idle(rank: int, size: int, seconds: float) -> float:
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(100_000))
    dist.barrier()
    before = resource.getrusage(resource.RUSAGE_SELF)
    time.sleep(seconds)
    after = resource.getrusage(resource.RUSAGE_SELF)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) / seconds


def test_field_b58_an_idle_group_costs_nothing(world: Callable[[int], Ranks]) -> None:
    """B58: spinning threads eat cores."""
    assert max(world(2).call(_idle, 3.0)) < 0.02


def _waiting(rank: int, size: int, seconds: float) -> float:
    import torch
    import torch.distributed as dist

    dist.barrier()
    if rank == size - 1:
        time.sleep(seconds)
    before = resource.getrusage(resource.RUSAGE_SELF)
    dist.all_reduce(torch.ones(10))
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def test_field_b58_waiting_for_a_rank_is_no_spinning(world: Callable[[int], Ranks]) -> None:
    """B58: the caller sleeps, and nobody else runs for it."""
    assert max(world(2).call(_waiting, 2.0)) < 0.1
