"""Collectives that move bytes: all_gather, broadcast, gather, scatter, all_to_all, barrier."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from softmrc.collectives.buffers import Buffer, as_buffer
from softmrc.collectives.calling import NOTHING, Caller, both_buffers, in_place
from softmrc.collectives.calls import Collective
from softmrc.collectives.work import Work
from softmrc.errors import UsageError

__all__ = ["Moves"]


class Moves(Caller):
    """The moving calls of a `Group`."""

    def all_gather(
        self, buffer: Any, out: Any, *, async_op: bool = False, timeout: float | None = None
    ) -> Work:
        """Give every rank the elements of all ranks, one behind the other.

        Args:
            buffer: this rank's elements, as many on every rank; may be its place in `out`.
            out: `size` times as long.
            async_op: return at once.
            timeout: seconds.
        """
        source, result = both_buffers(buffer, out)
        if result.nbytes != source.nbytes * self.size:
            raise UsageError(
                f"out has {result.nbytes:,} bytes, not {self.size} times the {source.nbytes:,} of the buffer"
            )
        same = in_place(source, result, -self.rank * source.nbytes, 0)
        return self._move(
            Collective.ALL_GATHER, source, result, same, source.nbytes, 0, (), async_op, timeout
        )

    def all_gather_v(
        self,
        buffer: Any,
        out: Any,
        nbytes: Sequence[int],
        *,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> Work:
        """Like `all_gather`, with different lengths.

        Args:
            buffer: this rank's elements.
            out: for those of all ranks, one behind the other.
            nbytes: bytes of each rank; the same list on all ranks.
            async_op: return at once.
            timeout: seconds.
        """
        source, result = both_buffers(buffer, out)
        sizes, start = self._sizes(nbytes, result, source)
        same = in_place(source, result, -start, 0)
        collective = Collective.ALL_GATHER_V
        return self._move(collective, source, result, same, result.nbytes, 0, sizes, async_op, timeout)

    def broadcast(
        self, buffer: Any, root: int = 0, *, async_op: bool = False, timeout: float | None = None
    ) -> Work:
        """Give every rank the elements of `root`, in the same buffer.

        Args:
            buffer: as many bytes on every rank. Bytes are moved, so element types are not compared.
            root: rank in the group.
            async_op: return at once.
            timeout: seconds.
        """
        both = as_buffer(buffer, write=not self._is_root(root), name="buffer")
        return self._move(Collective.BROADCAST, both, both, True, both.nbytes, root, (), async_op, timeout)

    def gather(
        self,
        buffer: Any,
        out: Any = None,
        root: int = 0,
        *,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> Work:
        """Give `root` the elements of all ranks, one behind the other.

        Args:
            buffer: this rank's elements, as many on every rank.
            out: at the root, `size` times as long; elsewhere not looked at.
            root: rank in the group.
            async_op: return at once.
            timeout: seconds.
        """
        source = as_buffer(buffer, write=False, name="buffer")
        if not self._is_root(root):
            return self._move(
                Collective.GATHER, source, NOTHING, False, source.nbytes, root, (), async_op, timeout
            )
        if out is None:
            raise UsageError("gather needs `out` at the root")
        result = as_buffer(out, write=True, name="out")
        if result.nbytes != source.nbytes * self.size:
            raise UsageError(
                f"out has {result.nbytes:,} bytes, not {self.size} times the {source.nbytes:,} of the buffer"
            )
        same = in_place(source, result, -root * source.nbytes, 0)
        return self._move(Collective.GATHER, source, result, same, source.nbytes, root, (), async_op, timeout)

    def scatter(
        self, buffer: Any, out: Any, root: int = 0, *, async_op: bool = False, timeout: float | None = None
    ) -> Work:
        """Give rank i the i-th of `size` equal pieces of the root's elements.

        Args:
            buffer: at the root, all pieces one behind the other; elsewhere not looked at.
            out: this rank's piece.
            root: rank in the group.
            async_op: return at once.
            timeout: seconds.
        """
        result = as_buffer(out, write=True, name="out")
        if not self._is_root(root):
            return self._move(
                Collective.SCATTER, NOTHING, result, False, result.nbytes, root, (), async_op, timeout
            )
        if buffer is None:
            raise UsageError("scatter needs `buffer` at the root")
        source = as_buffer(buffer, write=False, name="buffer")
        if source.nbytes != result.nbytes * self.size:
            raise UsageError(
                f"the buffer has {source.nbytes:,} bytes, not {self.size} times the {result.nbytes:,} of out"
            )
        same = in_place(source, result, 0, -root * result.nbytes)
        return self._move(
            Collective.SCATTER, source, result, same, result.nbytes, root, (), async_op, timeout
        )

    def all_to_all(
        self, buffer: Any, out: Any, *, async_op: bool = False, timeout: float | None = None
    ) -> Work:
        """Give rank j the j-th of `size` equal pieces of every rank's elements.

        Args:
            buffer: the pieces, one behind the other.
            out: as long; piece i came from rank i. Where the two share memory the buffer is copied first.
            async_op: return at once.
            timeout: seconds.
        """
        source, result = both_buffers(buffer, out)
        if source.nbytes != result.nbytes or source.nbytes % self.size:
            raise UsageError(
                f"the buffer has {source.nbytes:,} bytes and out {result.nbytes:,}: both must be the same multiple "
                f"of {self.size}"
            )
        source = _apart(source, result)
        size = source.nbytes // self.size
        return self._move(Collective.ALL_TO_ALL, source, result, False, size, 0, (), async_op, timeout)

    def all_to_all_v(
        self,
        buffer: Any,
        out: Any,
        nbytes: Sequence[int],
        out_nbytes: Sequence[int],
        *,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> Work:
        """Like `all_to_all`, with pieces of different lengths.

        Args:
            buffer: the pieces for each rank, one behind the other.
            out: for the pieces from each rank, one behind the other.
            nbytes: bytes for each rank.
            out_nbytes: bytes from each rank; what that rank sends must be as much.
            async_op: return at once.
            timeout: seconds.
        """
        source, result = both_buffers(buffer, out)
        outgoing, incoming = tuple(map(int, nbytes)), tuple(map(int, out_nbytes))
        for name, sizes, where in (("nbytes", outgoing, source), ("out_nbytes", incoming, result)):
            if len(sizes) != self.size or min(sizes) < 0 or sum(sizes) != where.nbytes:
                raise UsageError(
                    f"{name} must be {self.size} sizes that sum to the {where.nbytes:,} bytes, not {list(sizes)}"
                )
        if outgoing[self.rank] != incoming[self.rank]:
            raise UsageError(
                f"rank {self.rank} sends itself {outgoing[self.rank]:,} bytes and expects {incoming[self.rank]:,}"
            )
        source = _apart(source, result)
        return self._call_uneven(source, result, outgoing, incoming, async_op, timeout)

    def barrier(self, *, async_op: bool = False, timeout: float | None = None) -> Work:
        """Return when every rank has called it.

        Args:
            async_op: return at once; the work is done then.
            timeout: seconds.
        """
        return self._move(Collective.BARRIER, NOTHING, NOTHING, False, 0, 0, (), async_op, timeout)


def _apart(source: Buffer, result: Buffer) -> Buffer:
    """The source, or a copy of it where the result would overwrite it."""
    if not source.overlaps(result):
        return source
    copy = (ctypes.c_char * source.nbytes)()
    ctypes.memmove(copy, source.addr, source.nbytes)
    return Buffer(ctypes.addressof(copy), source.nbytes, source.dtype, copy)
