"""One rank's side of tests in which ranks die, stop, come late or leave early."""

from __future__ import annotations

import os
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist


def began_file(directory: str, rank: int) -> Path:
    """What a rank writes there when it has begun."""
    return Path(directory) / f"began{rank}"


def reduce_until_error(rank: int, size: int, count: int, directory: str) -> dict[str, Any]:
    """Reduce until a call raises; return what it said and how long that call took. Begun: with the second call."""
    tensor = torch.ones(count)
    calls = 0
    while True:
        if calls == 1:
            began_file(directory, rank).touch()
        started = time.monotonic()
        try:
            dist.all_reduce(tensor)
        except RuntimeError as error:
            return {"text": str(error), "seconds": time.monotonic() - started, "calls": calls}
        tensor.fill_(1)
        calls += 1


def leave(rank: int, size: int) -> float:
    """Destroy the group; return how long that took."""
    started = time.monotonic()
    dist.destroy_process_group()
    return time.monotonic() - started


def barrier(rank: int, size: int) -> dict[str, Any]:
    started = time.monotonic()
    try:
        dist.barrier()
    except RuntimeError as error:
        return {"text": str(error), "seconds": time.monotonic() - started}
    return {"text": "", "seconds": time.monotonic() - started}


def barrier_begun(rank: int, size: int, directory: str) -> dict[str, Any]:
    """A barrier; begun just before it."""
    began_file(directory, rank).touch()
    return barrier(rank, size)


def one_exits_before(rank: int, size: int, quitter: int, timeout: float) -> dict[str, Any]:
    """One rank exits before the first collective of a sub-group."""
    group = dist.new_group(list(range(size)), timeout=timedelta(seconds=timeout))
    if rank == quitter:
        os._exit(3)
    started = time.monotonic()
    try:
        dist.all_reduce(torch.ones(4), group=group)
    except RuntimeError as error:
        return {"text": str(error), "seconds": time.monotonic() - started}
    return {"text": "", "seconds": time.monotonic() - started}


def send_and_exit(rank: int, size: int, count: int) -> float:
    """Rank 0 sends and is gone at once; the other takes its time before it receives."""
    if rank == 0:
        dist.isend(torch.full((count,), 7.0), 1)
        raise SystemExit(0)
    time.sleep(1.0)
    tensor = torch.zeros(count)
    dist.recv(tensor, 0)
    return float(tensor.sum())


def raises_in_loop(rank: int, size: int, raiser: int) -> dict[str, Any]:
    """One rank raises in its loop, the others are in a collective; all destroy the group in `finally`."""
    said = ""
    started = time.monotonic()
    try:
        for step in range(100):
            if rank == raiser and step == 5:
                raise KeyError("loss is nan")
            dist.all_reduce(torch.ones(1000))
    except (RuntimeError, KeyError) as error:
        said = str(error)
    finally:
        started = time.monotonic()
        dist.destroy_process_group()
    return {"text": said, "destroy": time.monotonic() - started}


def destroyed_by_thread(rank: int, size: int) -> dict[str, Any]:
    """A second thread destroys the group while this one waits for a rank that never calls."""
    if rank == size - 1:
        time.sleep(1.5)
        dist.destroy_process_group()
        return {"text": "", "waited": 0.0}
    timer = threading.Timer(0.3, dist.destroy_process_group)
    started = time.monotonic()
    work = dist.all_reduce(torch.ones(10), async_op=True)
    assert work is not None
    timer.start()
    said = ""
    try:
        work.wait()
    except RuntimeError as error:
        said = str(error)
    waited = time.monotonic() - started
    timer.join(10)
    assert not timer.is_alive()
    return {"text": said, "waited": waited, "threads": [thread.name for thread in threading.enumerate()]}


def aborted(rank: int, size: int) -> str:
    """Abort while a collective waits for a rank that never calls."""
    if rank == size - 1:
        time.sleep(1.0)
        dist.distributed_c10d._abort_process_group()
        return "aborted"
    work = dist.all_reduce(torch.ones(10), async_op=True)
    assert work is not None
    time.sleep(0.2)
    dist.distributed_c10d._abort_process_group()
    try:
        work.wait()
    except RuntimeError as error:
        return str(error)
    return ""


def monitored(rank: int, size: int, absent: list[int], everyone: bool) -> dict[str, Any]:
    """Some ranks do not come to a monitored barrier."""
    started = time.monotonic()
    said = ""
    if rank in absent:
        time.sleep(1.6)
    else:
        try:
            dist.monitored_barrier(timeout=timedelta(seconds=1), wait_all_ranks=everyone)
        except RuntimeError as error:
            said = str(error)
    return {"text": said, "seconds": time.monotonic() - started}


def join_late(rank: int, size: int, store: str, late: float) -> float:
    """The last rank comes late to init_process_group."""
    if rank == size - 1:
        time.sleep(late)
    dist.init_process_group(
        "mrc", init_method=f"file://{store}", rank=rank, world_size=size, timeout=timedelta(seconds=10)
    )
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    return float(tensor.sum())


def join_without_last(rank: int, size: int, store: str) -> dict[str, Any]:
    """The last rank never comes."""
    if rank == size - 1:
        return {"text": "", "seconds": 0.0}
    started = time.monotonic()
    try:
        dist.init_process_group(
            "mrc", init_method=f"file://{store}", rank=rank, world_size=size, timeout=timedelta(seconds=6)
        )
    except RuntimeError as error:
        return {"text": str(error), "seconds": time.monotonic() - started}
    return {"text": "", "seconds": time.monotonic() - started}


def reduce_many(rank: int, size: int, count: int) -> float:
    """Reduce again and again; return the sum of all results."""
    total = 0.0
    for _ in range(count):
        tensor = torch.full((1000,), float(rank))
        dist.all_reduce(tensor)
        total += float(tensor[7])
    return total
