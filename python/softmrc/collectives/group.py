"""Collectives among some ranks of a mesh, on the caller's own memory.

Decides which buffers a call takes and what it refuses; leaves algorithms to `compiled`, running them to the core's
runner, and dead ranks to the mesh. Every rank of the group makes the same calls in the same order. Calls may be made
from several threads when these agree on an order.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from softmrc.collectives.buffers import as_buffer
from softmrc.collectives.letters import Letter
from softmrc.collectives.moves import Moves
from softmrc.collectives.reductions import Reductions
from softmrc.device import end_block

__all__ = ["Group"]


class Group(Reductions, Moves):
    """Some ranks of a mesh, numbered 0 to `size` - 1 in the order given.

    Every call takes `async_op=True`, which returns at once: keep inputs as they are and outputs untouched until the
    `Work` is done. Without it the work is done when the call returns. `timeout` is in seconds, None: the group's.

    Buffers are contiguous CPU memory: NumPy arrays, anything with the buffer protocol, DLPack producers such as torch
    tensors, or `Buffer`. Every call may raise `UsageError` (what was passed can never work; nothing was sent) and
    `PeerError` (a rank is gone or lost, or ranks called different things; the same text on all ranks). After a
    `PeerError` of a collective the group cannot be used any more. Where a rank sends another size than its peer
    receives, that letter alone fails, at both ends; its sender, when the letter was done already, hears of it in its
    next `send` to that rank.
    """

    def send(self, buffer: Any, dst: int, tag: int = 0) -> Letter:
        """Send to a rank; returns at once, the letter is done when all of it has arrived.

        Args:
            buffer: contiguous memory; as it is until done.
            dst: rank in the group.
            tag: received with the same one.
        """
        self._check_open()
        source = as_buffer(buffer, write=False, name="buffer")
        return self.mesh.p2p.send(self.number, source, self._member(dst), tag)

    def recv(self, buffer: Any, src: int | None = None, tag: int = 0) -> Letter:
        """Receive from a rank, or from any; returns at once. `Letter.source` says from whom.

        Args:
            buffer: as long as what is sent.
            src: rank in the group; None: any.
            tag: that was sent.
        """
        self._check_open()
        result = as_buffer(buffer, write=True, name="buffer")
        return self.mesh.p2p.recv(self.number, result, None if src is None else self._member(src), tag)

    def roll_call(self, timeout: float | None = None) -> list[int]:
        """Ranks that have not called this in time; see `Mesh.roll_call`.

        Args:
            timeout: seconds; None: the group's.
        """
        self._check_open()
        return self.mesh.roll_call(self.number, self.timeout if timeout is None else timeout)

    def __enter__(self) -> Group:
        """Enter: nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close."""
        end_block(self.close, error)
