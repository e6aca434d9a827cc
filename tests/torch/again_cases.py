"""One rank's side of tests in which a process group begins again in the same processes, at the same port."""

from __future__ import annotations

import threading
from datetime import timedelta

import torch
import torch.distributed as dist

from softmrc.torch_backend import world


def rounds(rank: int, size: int, meeting: str, count: int, late: int | None, groups: bool) -> list[float]:
    """Join, reduce and destroy, again and again; return what the reductions gave.

    With `late`, that rank destroys only when all others have come back to the store, which they do without waiting.
    """
    if late is not None:
        world._PART_SECONDS = 0.0
    found = []
    for _ in range(count):
        dist.init_process_group(
            "mrc", init_method=meeting, rank=rank, world_size=size, timeout=timedelta(seconds=20)
        )
        tensor = torch.full((100,), float(rank + 1))
        dist.all_reduce(tensor)
        if groups:
            dist.all_reduce(tensor, group=dist.new_group(list(range(size))))
        found.append(float(tensor[99]))
        if rank == late:
            _wait_until_all_went()
        dist.destroy_process_group()
    return found


def _wait_until_all_went() -> None:
    mesh = world.current().mesh  # type: ignore[union-attr]
    others = set(range(mesh.size)) - {mesh.rank}
    pause = threading.Event()
    while not others <= set(mesh.obituary.known()):
        pause.wait(0.01)


def shrink(rank: int, size: int, meeting: str) -> list[float]:
    """The last rank leaves for good; the others begin again without it."""
    found = []
    for now in (size, size - 1):
        if rank >= now:
            break
        dist.init_process_group(
            "mrc", init_method=meeting, rank=rank, world_size=now, timeout=timedelta(seconds=20)
        )
        tensor = torch.ones(10)
        dist.all_reduce(tensor)
        found.append(float(tensor[0]))
        dist.destroy_process_group()
    return found


def aborted_and_again(rank: int, size: int, meeting: str) -> float:
    """Abort, and begin again."""
    for again in (False, True):
        dist.init_process_group(
            "mrc", init_method=meeting, rank=rank, world_size=size, timeout=timedelta(seconds=20)
        )
        tensor = torch.ones(10)
        dist.all_reduce(tensor)
        if again:
            dist.destroy_process_group()
        else:
            dist.distributed_c10d._abort_process_group()
    return float(tensor[0])
