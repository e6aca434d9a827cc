"""From tensors to memory that collectives may read and write, and back.

Decides when a tensor's own memory is used and when a contiguous copy stands in for it, and which tensors are refused
because a result written to them would be wrong. Leaves devices with memory of their own to `devices`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch

from softmrc.collectives import Buffer
from softmrc.errors import UsageError
from softmrc.torch_backend import devices
from softmrc.torch_backend.ops import BYTES

__all__ = ["Loan", "check_result", "lend", "lend_list", "same_dtype"]


class Loan:
    """A contiguous piece of host memory that stands for one tensor, or for several behind one another.

    Attributes:
        memory: the piece, as a contiguous tensor of the tensors' element type.
    """

    __slots__ = ("_homes", "memory")

    def __init__(self, memory: torch.Tensor, homes: Sequence[torch.Tensor] = ()) -> None:
        """Lend `memory`.

        Args:
            memory: contiguous, in host memory.
            homes: the tensors that get the result when the collective is done; none where `memory` is theirs.
        """
        self.memory = memory
        self._homes = homes

    def buffer(self, code: int = BYTES) -> Buffer:
        """Describe the memory to a collective, as elements of type `code`."""
        memory = self.memory
        return Buffer(memory.data_ptr(), memory.numel() * memory.element_size(), code, memory)

    @property
    def nbytes(self) -> int:
        """Length of the memory, in bytes."""
        return self.memory.numel() * self.memory.element_size()

    def settle(self) -> None:
        """Copy the result into the tensors it is for."""
        if not self._homes:
            return
        at = 0
        with torch.no_grad():
            for home in self._homes:
                piece = self.memory[at : at + home.numel()]
                devices.copy_back(home, piece.view(home.shape))
                at += home.numel()
        self._homes = ()


def lend(tensor: torch.Tensor, call: str, *, reads: bool, writes: bool) -> Loan:
    """Lend one tensor's memory, or a copy of it where it is not contiguous host memory.

    Args:
        tensor: any strided tensor on the CPU or on CUDA.
        call: name of the collective, for messages.
        reads: the collective looks at the present values.
        writes: the collective leaves a result in it.

    Raises:
        UsageError: sparse or quantized, on another device, or a result would overlap itself.
    """
    return lend_list([tensor], call, reads=reads, writes=writes)


def lend_list(tensors: Sequence[torch.Tensor], call: str, *, reads: bool, writes: bool) -> Loan:
    """Lend several tensors of one type as one piece of memory; see `lend`.

    Tensors that lie behind one another already, as the chunks of a tensor do, are used where they are.
    """
    for tensor in tensors:
        _check(tensor, call)
        if writes:
            check_result(tensor, call)
    direct = _in_place(tensors)
    if direct is not None:
        return Loan(direct)
    total = sum(tensor.numel() for tensor in tensors)
    memory = devices.host_memory(total, tensors[0])
    if reads:
        with torch.no_grad():
            at = 0
            for tensor in tensors:
                devices.copy_out(memory[at : at + tensor.numel()].view(tensor.shape), tensor)
                at += tensor.numel()
        devices.arrived(tensors)
    return Loan(memory, list(tensors) if writes else ())


def same_dtype(tensors: Sequence[torch.Tensor], call: str) -> torch.dtype:
    """Return the one element type of `tensors`.

    Raises:
        UsageError: they have several types, or there are none.
    """
    kinds = {tensor.dtype for tensor in tensors}
    if len(kinds) != 1:
        found = ", ".join(sorted(str(kind) for kind in kinds)) or "no tensor"
        raise UsageError(f"{call}: all tensors must have one element type, found {found}")
    return kinds.pop()


def check_result(tensor: torch.Tensor, call: str) -> None:
    """Refuse a tensor in which several elements share memory: what is written last would win.

    Raises:
        UsageError: the tensor is expanded or overlaps itself.
    """
    if tensor.numel() <= 1 or tensor.is_contiguous():
        return
    reach = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.size(), strict=True)):
        if size == 1:
            continue
        if stride < reach:
            raise UsageError(
                f"{call}: the result would be written to a tensor whose elements share memory "
                f"(shape {tuple(tensor.shape)}, strides {tuple(tensor.stride())}); pass tensor.clone() instead"
            )
        reach = stride * (size - 1) + reach


def _check(tensor: torch.Tensor, call: str) -> None:
    if tensor.layout != torch.strided:
        raise UsageError(f"{call}: {tensor.layout} tensors are not supported; pass tensor.to_dense()")
    if tensor.is_quantized:
        raise UsageError(f"{call}: quantized tensors are not supported; pass tensor.int_repr()")
    devices.check(tensor, call)


def _in_place(tensors: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """Return the tensors' own memory, contiguous, if a collective can use it as it is."""
    for tensor in tensors:
        if not (tensor.is_cpu and tensor.is_contiguous()) or tensor.is_conj() or tensor.is_neg():
            return None
    if len(tensors) == 1:
        return tensors[0]
    first = tensors[0].detach()
    storage = first.untyped_storage().data_ptr()
    for left, right in pairwise(tensors):
        behind = left.data_ptr() + left.numel() * left.element_size()
        if right.data_ptr() != behind or right.untyped_storage().data_ptr() != storage:
            return None
    total = sum(tensor.numel() for tensor in tensors)
    return first.as_strided((total,), (1,), first.storage_offset())
