"""Collectives that combine: all_reduce, reduce, reduce_scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from softmrc.collectives.buffers import Buffer, as_buffer
from softmrc.collectives.calling import NOTHING, Caller, both_buffers, in_place
from softmrc.collectives.calls import Collective
from softmrc.collectives.dtypes import Op, op_for, op_named
from softmrc.collectives.work import Work
from softmrc.errors import UsageError

__all__ = ["Reductions"]


class Reductions(Caller):
    """The reducing calls of a `Group`."""

    def all_reduce(
        self,
        buffer: Any,
        op: str | int | Op = Op.SUM,
        *,
        out: Any = None,
        factor: float = 1.0,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> Work:
        """Combine the elements of all ranks; every rank gets the result.

        Args:
            buffer: this rank's elements, as many on every rank.
            op: sum, avg, min, max, product, band, bor, bxor or premul_sum; of bools, sum is "any" and product "all".
                AVG and PREMUL_SUM need floating-point or complex numbers, bitwise ones integers or bools, MIN and MAX
                anything but complex.
            out: where the result goes; None: into `buffer`.
            factor: of this rank, for premul_sum.
            async_op: return at once.
            timeout: seconds.
        """
        source = as_buffer(buffer, write=out is None, name="buffer")
        result = source if out is None else as_buffer(out, write=True, name="out")
        kind = self._reducing(source, result, op)
        if source.nbytes != result.nbytes:
            raise UsageError(
                f"out has {result.nbytes:,} bytes, the buffer {source.nbytes:,}: they must be alike"
            )
        same = in_place(source, result, 0, 0)
        return self._call(
            Collective.ALL_REDUCE, source, result, same, source.nbytes, kind, 0, (), factor, async_op, timeout
        )

    def reduce(
        self,
        buffer: Any,
        root: int = 0,
        op: str | int | Op = Op.SUM,
        *,
        out: Any = None,
        factor: float = 1.0,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> Work:
        """Combine the elements of all ranks; `root` gets the result, the other ranks' buffers stay as they are.

        Args:
            buffer: this rank's elements, as many on every rank.
            root: rank in the group.
            op: as for `all_reduce`.
            out: where the result goes at the root; None: into `buffer`.
            factor: of this rank, for premul_sum.
            async_op: return at once.
            timeout: seconds.
        """
        at_root = self._is_root(root)
        source = as_buffer(buffer, write=at_root and out is None, name="buffer")
        result = NOTHING if not at_root else source if out is None else as_buffer(out, write=True, name="out")
        kind = self._reducing(source, result if at_root else source, op)
        if at_root and source.nbytes != result.nbytes:
            raise UsageError(
                f"out has {result.nbytes:,} bytes, the buffer {source.nbytes:,}: they must be alike"
            )
        same = at_root and in_place(source, result, 0, 0)
        return self._call(
            Collective.REDUCE, source, result, same, source.nbytes, kind, root, (), factor, async_op, timeout
        )

    def reduce_scatter(
        self,
        buffer: Any,
        out: Any,
        op: str | int | Op = Op.SUM,
        *,
        factor: float = 1.0,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> Work:
        """Combine the elements of all ranks; rank i gets the i-th of `size` equal pieces of the result.

        Args:
            buffer: this rank's elements of all pieces, one behind the other.
            out: this rank's piece of the result; may be that piece of `buffer`.
            op: as for `all_reduce`.
            factor: of this rank, for premul_sum.
            async_op: return at once.
            timeout: seconds.
        """
        source, result = both_buffers(buffer, out)
        if source.nbytes != result.nbytes * self.size:
            raise UsageError(
                f"the buffer has {source.nbytes:,} bytes, not {self.size} times the {result.nbytes:,} of out"
            )
        kind = self._reducing(source, result, op)
        same = in_place(source, result, 0, -self.rank * result.nbytes)
        collective = Collective.REDUCE_SCATTER
        return self._call(
            collective, source, result, same, result.nbytes, kind, 0, (), factor, async_op, timeout
        )

    def reduce_scatter_v(
        self,
        buffer: Any,
        out: Any,
        nbytes: Sequence[int],
        op: str | int | Op = Op.SUM,
        *,
        factor: float = 1.0,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> Work:
        """Like `reduce_scatter`, with pieces of different lengths.

        Args:
            buffer: this rank's elements of all pieces, one behind the other.
            out: this rank's piece of the result.
            nbytes: bytes of each rank's piece; the same list on all ranks.
            op: as for `all_reduce`.
            factor: of this rank, for premul_sum.
            async_op: return at once.
            timeout: seconds.
        """
        source, result = both_buffers(buffer, out)
        sizes, start = self._sizes(nbytes, source, result)
        kind = self._reducing(source, result, op)
        same = in_place(source, result, 0, -start)
        collective = Collective.REDUCE_SCATTER_V
        return self._call(
            collective, source, result, same, source.nbytes, kind, 0, sizes, factor, async_op, timeout
        )

    @staticmethod
    def _reducing(source: Buffer, result: Buffer, op: str | int | Op) -> tuple[int, int]:
        """Element type and operation, as numbers."""
        if source.dtype != result.dtype:
            raise UsageError(
                f"the buffer holds {source.type.name}, out {result.type.name}: they must be alike"
            )
        operation = op_named(op)
        op_for(source.type, operation)
        return source.dtype, int(operation)
