"""Tensors that live on a GPU: copies through pinned host memory, in the order of the caller's streams.

Decides where host memory comes from and what is waited for; leaves which tensors need a copy to `tensors`.

The order of things for a CUDA tensor: the copy to the host is queued on the caller's current stream, so behind
whatever computes the tensor, and the host waits for it (`arrived`) before the collective starts. The result is queued
on the stream that is current where the work is settled. Where that is the service thread, it leaves an event there
(`mark`) that the stream of the thread that waits for the work is made to wait for (`join`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from softmrc.errors import UsageError

__all__ = ["arrived", "check", "copy_back", "copy_out", "host_memory", "join", "mark", "of"]


def check(tensor: torch.Tensor, call: str) -> None:
    """Refuse tensors on devices other than the CPU and CUDA.

    Raises:
        UsageError: the tensor is on another device, or has no memory (meta).
    """
    if not (tensor.is_cpu or tensor.is_cuda):
        raise UsageError(f"{call}: tensors on {tensor.device} are not supported; move them to the CPU first")


def host_memory(count: int, like: torch.Tensor) -> torch.Tensor:
    """Return uninitialised host memory of `count` elements; pinned where it stands for a CUDA tensor."""
    return torch.empty(count, dtype=like.dtype, pin_memory=like.is_cuda)


def copy_out(host: torch.Tensor, tensor: torch.Tensor) -> None:
    """Copy a tensor to the host; for CUDA only queued, see `arrived`."""
    host.copy_(tensor, non_blocking=tensor.is_cuda)


def arrived(tensors: Sequence[torch.Tensor]) -> None:
    """Wait until the copies queued by `copy_out` are in host memory."""
    for device in of(tensors):
        torch.cuda.current_stream(device).synchronize()


def copy_back(home: torch.Tensor, host: torch.Tensor) -> None:
    """Copy a result to where it belongs; for CUDA queued on the current stream of the tensor's device."""
    home.copy_(host, non_blocking=home.is_cuda)
    if home.is_cuda:
        # The memory may belong to another stream's pool: it must not be reused before this copy has run.
        home.record_stream(torch.cuda.current_stream(home.device))


def of(tensors: Iterable[torch.Tensor]) -> list[torch.device]:
    """Return the CUDA devices of the tensors, each once."""
    return sorted({tensor.device for tensor in tensors if tensor.is_cuda}, key=lambda device: device.index)


def mark(devices: Sequence[torch.device]) -> list[torch.cuda.Event]:
    """Return one event a device that passes when everything queued by this thread so far has run."""
    events = []
    for device in devices:
        with torch.cuda.device(device):
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record(torch.cuda.current_stream(device))
        events.append(event)
    return events


def join(devices: Sequence[torch.device], events: Sequence[torch.cuda.Event]) -> None:
    """Make this thread's current streams wait for the events of `mark`."""
    for device, event in zip(devices, events, strict=True):
        torch.cuda.current_stream(device).wait_event(event)
