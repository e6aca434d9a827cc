"""Collectives whose input or output is a list with one tensor a rank.

Decides when such a list is one piece of memory, and what stands in for a collective whose parts differ in size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from softmrc.errors import UsageError
from softmrc.torch_backend.calls import Calls, apart
from softmrc.torch_backend.ops import reduction
from softmrc.torch_backend.tensors import lend, lend_list, same_dtype
from softmrc.torch_backend.work import MrcWork

__all__ = ["ListCalls"]


class ListCalls:
    """The list forms, over the plain calls of the same group."""

    def __init__(self, calls: Calls) -> None:
        """Act for the group and rank of `calls`."""
        self._calls = calls
        self._group = calls.group
        self._rank = calls.rank
        self._size = calls.size

    def all_gather(
        self, outputs: Sequence[torch.Tensor], mine: torch.Tensor, timeout: float | None
    ) -> MrcWork:
        """Put rank i's tensor into `outputs[i]` on all ranks; ranks may have different sizes."""
        call = "all_gather"
        self._check_list(outputs, call, "output")
        same_dtype([*outputs, mine], call)
        self._check_own(outputs[self._rank], mine, call)
        give = lend(mine, call, reads=True, writes=False)
        take = lend_list(outputs, call, reads=False, writes=True)
        give = apart(give, take)
        sizes = _sizes(outputs)
        if len(set(sizes)) > 1:
            part = self._group.all_gather_v(
                give.buffer(), take.buffer(), sizes, timeout=timeout, async_op=True
            )
        else:
            part = self._group.all_gather(give.buffer(), take.buffer(), timeout=timeout, async_op=True)
        return MrcWork([part], [give, take], outputs)

    def gather(
        self, outputs: Sequence[torch.Tensor], mine: torch.Tensor, root: int, timeout: float | None
    ) -> MrcWork:
        """Put rank i's tensor into `outputs[i]` on the root; on the others `outputs` is empty."""
        call = "gather"
        give = lend(mine, call, reads=True, writes=False)
        if self._rank != root:
            part = self._group.gather(give.buffer(), None, root, timeout=timeout, async_op=True)
            return MrcWork([part], [give], [])
        self._check_list(outputs, call, "output")
        same_dtype([*outputs, mine], call)
        self._check_even(outputs, mine, call)
        take = lend_list(outputs, call, reads=False, writes=True)
        give = apart(give, take)
        part = self._group.gather(give.buffer(), take.buffer(), root, timeout=timeout, async_op=True)
        return MrcWork([part], [give, take], outputs)

    def scatter(
        self, mine: torch.Tensor, inputs: Sequence[torch.Tensor], root: int, timeout: float | None
    ) -> MrcWork:
        """Put the root's `inputs[i]` into rank i's tensor; on the others `inputs` is empty."""
        call = "scatter"
        take = lend(mine, call, reads=False, writes=True)
        if self._rank != root:
            part = self._group.scatter(None, take.buffer(), root, timeout=timeout, async_op=True)
            return MrcWork([part], [take], [mine])
        self._check_list(inputs, call, "input")
        same_dtype([*inputs, mine], call)
        self._check_even(inputs, mine, call)
        give = apart(lend_list(inputs, call, reads=True, writes=False), take)
        part = self._group.scatter(give.buffer(), take.buffer(), root, timeout=timeout, async_op=True)
        return MrcWork([part], [give, take], [mine])

    def reduce_scatter(
        self, mine: torch.Tensor, inputs: Sequence[torch.Tensor], op: Any, timeout: float | None
    ) -> MrcWork:
        """Reduce `inputs[i]` over all ranks into rank i's tensor; ranks may have different sizes."""
        call = "reduce_scatter"
        self._check_list(inputs, call, "input")
        kind = reduction(op, same_dtype([*inputs, mine], call), call)
        self._check_own(inputs[self._rank], mine, call)
        take = lend(mine, call, reads=False, writes=True)
        give = apart(lend_list(inputs, call, reads=True, writes=False), take)
        memory = give.buffer(kind.code), take.buffer(kind.code)
        how: dict[str, Any] = {"op": kind.op, "factor": kind.factor, "timeout": timeout, "async_op": True}
        sizes = _sizes(inputs)
        if len(set(sizes)) > 1:
            part = self._group.reduce_scatter_v(*memory, sizes, **how)
        else:
            part = self._group.reduce_scatter(*memory, **how)
        return MrcWork([part], [give, take], [mine])

    def all_to_all(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], timeout: float | None
    ) -> MrcWork:
        """Send `inputs[i]` to rank i and put what rank i sends into `outputs[i]`; any sizes."""
        call = "all_to_all"
        self._check_list(outputs, call, "output")
        self._check_list(inputs, call, "input")
        same_dtype([*outputs, *inputs], call)
        take = lend_list(outputs, call, reads=False, writes=True)
        give = apart(lend_list(inputs, call, reads=True, writes=False), take)
        part = self._group.all_to_all_v(
            give.buffer(), take.buffer(), _sizes(inputs), _sizes(outputs), timeout=timeout, async_op=True
        )
        return MrcWork([part], [give, take], outputs)

    def all_gather_lists(
        self, outputs: Sequence[Sequence[torch.Tensor]], mine: Sequence[torch.Tensor], timeout: float | None
    ) -> MrcWork:
        """Put rank i's k-th tensor into `outputs[i][k]`."""
        if len(outputs) != self._size or any(len(row) != len(mine) for row in outputs):
            raise UsageError(
                f"all_gather_coalesced: needs one list a rank ({self._size}), each with {len(mine)} tensors"
            )
        works = [
            self.all_gather([row[k] for row in outputs], tensor, timeout) for k, tensor in enumerate(mine)
        ]
        return MrcWork.of_works(works, [tensor for row in outputs for tensor in row])

    def _check_list(self, tensors: Sequence[torch.Tensor], call: str, what: str) -> None:
        if len(tensors) != self._size:
            raise UsageError(f"{call}: needs {self._size} {what} tensors, one a rank, got {len(tensors)}")

    @staticmethod
    def _check_own(slot: torch.Tensor, mine: torch.Tensor, call: str) -> None:
        if slot.numel() != mine.numel():
            raise UsageError(
                f"{call}: the list has {slot.numel()} elements for this rank, its own tensor has {mine.numel()}"
            )

    @staticmethod
    def _check_even(tensors: Sequence[torch.Tensor], mine: torch.Tensor, call: str) -> None:
        wrong = [i for i, tensor in enumerate(tensors) if tensor.numel() != mine.numel()]
        if wrong:
            raise UsageError(
                f"{call}: all tensors must be as large as this rank's ({mine.numel()} elements); "
                f"those of ranks {wrong} are not"
            )


def _sizes(tensors: Sequence[torch.Tensor]) -> list[int]:
    return [tensor.numel() * tensor.element_size() for tensor in tensors]
