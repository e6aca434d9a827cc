"""One rank's side of tests that fork after the process group is there (B36)."""

from __future__ import annotations

import multiprocessing
import os
import sys
import warnings
from multiprocessing.queues import SimpleQueue

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class _Numbers(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((100,), float(index))


def loader(rank: int, size: int) -> float:
    """Load with forked workers while collectives go on; return what was summed."""
    total = torch.zeros(100)
    for _ in range(2):
        batches = DataLoader(_Numbers(), batch_size=8, num_workers=4, multiprocessing_context="fork")
        for batch in batches:
            dist.all_reduce(part := batch.sum(0))
            total += part
    return float(total[0])


def _use_in_child(queue: SimpleQueue[str]) -> None:
    try:
        dist.all_reduce(torch.ones(1))
        queue.put("no error")
    except ValueError as error:
        queue.put(str(error))


def use_in_child(rank: int, size: int) -> tuple[str, float]:
    """Let a forked child call a collective; return what it was told, and a sum of the parent's afterwards."""
    context = multiprocessing.get_context("fork")
    queue: SimpleQueue[str] = context.SimpleQueue()
    child = context.Process(target=_use_in_child, args=(queue,))
    child.start()
    said = queue.get()
    child.join(10)
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    return said, tensor.item()


def exit_of_child(rank: int, size: int) -> tuple[int, float]:
    """Fork while a collective is under way; the child ends as any program does. Return its status and our sum."""
    tensor = torch.full((200_000,), float(rank))
    work = dist.all_reduce(tensor, async_op=True)
    with warnings.catch_warnings():
        # Python 3.12 and later warn of every fork of a process with threads.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        # Not os._exit: destructors and exit handlers run, and must leave the parent's connections alone.
        sys.exit(7)
    _, status = os.waitpid(pid, 0)
    assert work is not None
    work.wait()
    return os.waitstatus_to_exitcode(status), float(tensor[-1])
