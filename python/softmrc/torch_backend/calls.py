"""The collectives of one process group, on tensors.

Decides which memory goes to which collective. Leaves names and option objects of torch to `process_group`, calls on
lists of tensors to `lists`, and everything between ranks to `softmrc.collectives`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from softmrc.collectives import Group
from softmrc.errors import UsageError
from softmrc.torch_backend.messages import Message
from softmrc.torch_backend.ops import reduction
from softmrc.torch_backend.tensors import Loan, lend, same_dtype
from softmrc.torch_backend.work import MrcWork

__all__ = ["Calls", "apart"]


class Calls:
    """What ranks of one group do together; every method starts it and returns the work."""

    def __init__(self, group: Group, rank: int, size: int) -> None:
        """Act as `rank` of the `size` ranks of `group`."""
        self.group = group
        self.rank = rank
        self.size = size

    def all_reduce(self, tensors: Sequence[torch.Tensor], op: Any, timeout: float | None) -> MrcWork:
        """Reduce each tensor over all ranks, in place."""
        parts, loans = [], []
        for tensor in tensors:
            kind = reduction(op, tensor.dtype, "all_reduce")
            loan = lend(tensor, "all_reduce", reads=True, writes=True)
            loans.append(loan)
            parts.append(
                self.group.all_reduce(
                    loan.buffer(kind.code), op=kind.op, factor=kind.factor, timeout=timeout, async_op=True
                )
            )
        return MrcWork(parts, loans, tensors)

    def reduce(self, tensor: torch.Tensor, op: Any, root: int, timeout: float | None) -> MrcWork:
        """Reduce over all ranks; the result is in the root's tensor, the others keep theirs."""
        kind = reduction(op, tensor.dtype, "reduce")
        loan = lend(tensor, "reduce", reads=True, writes=self.rank == root)
        part = self.group.reduce(
            loan.buffer(kind.code), root, op=kind.op, factor=kind.factor, timeout=timeout, async_op=True
        )
        return MrcWork([part], [loan], [tensor])

    def broadcast(self, tensor: torch.Tensor, root: int, timeout: float | None) -> MrcWork:
        """Copy the root's tensor to all ranks."""
        sends = self.rank == root
        loan = lend(tensor, "broadcast", reads=sends, writes=not sends)
        part = self.group.broadcast(loan.buffer(), root, timeout=timeout, async_op=True)
        return MrcWork([part], [loan], [tensor])

    def all_gather(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], timeout: float | None
    ) -> MrcWork:
        """Put all ranks' inputs behind one another into each output, pair by pair."""
        call = "all_gather"
        parts, loans = [], []
        for output, mine in zip(outputs, inputs, strict=True):
            same_dtype([output, mine], call)
            if output.numel() != mine.numel() * self.size:
                raise UsageError(
                    f"{call}: the output has {output.numel()} elements, {self.size} inputs of {mine.numel()} "
                    f"need {mine.numel() * self.size}"
                )
            give = lend(mine, call, reads=True, writes=False)
            take = lend(output, call, reads=False, writes=True)
            part = self.group.all_gather(
                _own_slot(give, take, self.rank).buffer(), take.buffer(), timeout=timeout, async_op=True
            )
            parts.append(part)
            loans += [give, take]
        return MrcWork(parts, loans, outputs)

    def reduce_scatter(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], op: Any, timeout: float | None
    ) -> MrcWork:
        """Reduce each input over all ranks and keep this rank's part of it, pair by pair."""
        call = "reduce_scatter"
        parts, loans = [], []
        for output, whole in zip(outputs, inputs, strict=True):
            kind = reduction(op, same_dtype([output, whole], call), call)
            if whole.numel() != output.numel() * self.size:
                raise UsageError(
                    f"{call}: the input has {whole.numel()} elements, {self.size} outputs of {output.numel()} "
                    f"need {output.numel() * self.size}"
                )
            take = lend(output, call, reads=False, writes=True)
            give = apart(lend(whole, call, reads=True, writes=False), take)
            parts.append(
                self.group.reduce_scatter(
                    give.buffer(kind.code),
                    take.buffer(kind.code),
                    op=kind.op,
                    factor=kind.factor,
                    timeout=timeout,
                    async_op=True,
                )
            )
            loans += [give, take]
        return MrcWork(parts, loans, outputs)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        whole: torch.Tensor,
        output_rows: Sequence[int],
        input_rows: Sequence[int],
        timeout: float | None,
    ) -> MrcWork:
        """Send a part of the input to each rank and put what they send behind one another into the output.

        Args:
            output: gets what the ranks send, in their order.
            whole: what this rank sends, in the order of the ranks it is for.
            output_rows: how many rows (of dimension 0) come from each rank; empty means equal parts.
            input_rows: how many rows go to each rank; empty means equal parts.
            timeout: seconds, or None for the group's.
        """
        call = "all_to_all_single"
        same_dtype([output, whole], call)
        out_bytes = _split_bytes(output, output_rows, self.size, f"{call}: output")
        in_bytes = _split_bytes(whole, input_rows, self.size, f"{call}: input")
        take = lend(output, call, reads=False, writes=True)
        give = apart(lend(whole, call, reads=True, writes=False), take)
        part = self.group.all_to_all_v(
            give.buffer(), take.buffer(), in_bytes, out_bytes, timeout=timeout, async_op=True
        )
        return MrcWork([part], [give, take], [output])

    def barrier(self, timeout: float | None) -> MrcWork:
        """Wait until all ranks have called this."""
        return MrcWork([self.group.barrier(timeout=timeout, async_op=True)], [], [])

    def send(self, tensor: torch.Tensor, dst: int, tag: int, timeout: float) -> MrcWork:
        """Send a tensor to one rank; it may not be changed before the work is done."""
        loan = lend(tensor, "send", reads=True, writes=False)
        letter = self.group.send(loan.buffer(), dst, tag)
        return MrcWork([Message(self.group, letter, [dst], timeout)], [loan], [tensor])

    def receive(self, tensor: torch.Tensor, src: int | None, tag: int, timeout: float) -> MrcWork:
        """Receive a tensor from one rank, or from whichever sends first."""
        loan = lend(tensor, "recv", reads=False, writes=True)
        letter = self.group.recv(loan.buffer(), src, tag)
        waits = [rank for rank in range(self.size) if rank != self.rank] if src is None else [src]
        return MrcWork([Message(self.group, letter, waits, timeout)], [loan], [tensor])


def apart(give: Loan, take: Loan) -> Loan:
    """Return what a rank gives, copied if it shares memory with what the rank takes."""
    ours, theirs = give.memory.data_ptr(), take.memory.data_ptr()
    if ours < theirs + take.nbytes and theirs < ours + give.nbytes:
        return Loan(give.memory.detach().clone())
    return give


def _own_slot(give: Loan, take: Loan, rank: int) -> Loan:
    """Return what a rank gives to an all_gather: its own part of the output may be it, nothing else there."""
    if give.memory.data_ptr() == take.memory.data_ptr() + rank * give.nbytes:
        return give
    return apart(give, take)


def _split_bytes(tensor: torch.Tensor, rows: Sequence[int], size: int, what: str) -> list[int]:
    """Return how many bytes each rank's part of a tensor has.

    Raises:
        UsageError: the parts do not add up to the tensor, or it has no `size` equal parts.
    """
    length = tensor.size(0) if tensor.dim() else tensor.numel()
    if not rows:
        if length % size:
            raise UsageError(
                f"{what}: dimension 0 has {length} rows, which {size} ranks cannot share equally"
            )
        rows = [length // size] * size
    if len(rows) != size or sum(rows) != length or min(rows) < 0:
        raise UsageError(
            f"{what}: splits {list(rows)} are to be {size} numbers that add up to {length}, the rows of dimension 0"
        )
    row_bytes = tensor.numel() * tensor.element_size() // length if length else 0
    return [count * row_bytes for count in rows]
