"""Completion queues."""

from __future__ import annotations

import errno
from typing import Any

from softmrc.device import Resource, refusals
from softmrc.errors import VerbsError
from softmrc.verbs.context import CompChannel, Context
from softmrc.verbs.enums import WCOpcode, status_of_engine
from softmrc.verbs.structs import WC

__all__ = ["CQ"]


class CQ(Resource):
    """Where completed work requests are reported. A full queue is fatal to its queue pairs, as in verbs."""

    _close_order = 2

    def __init__(
        self,
        ctx: Context,
        cqe: int,
        cq_context: Any = None,
        channel: CompChannel | None = None,
        comp_vector: int = 0,
    ) -> None:
        """Make a queue.

        Args:
            ctx: the device.
            cqe: entries, at least 1; memory follows use.
            cq_context: anything; kept as `cq_context`.
            channel: told when a notification that `req_notify` asked for is due.
            comp_vector: 0; there is one.

        Raises:
            VerbsError: EINVAL, ENOMEM.
        """
        ctx._require_open()
        if comp_vector != 0:
            raise VerbsError(errno.EINVAL, "create CQ: there is one completion vector, 0")
        if not 1 <= cqe <= 1 << 22:
            raise VerbsError(errno.EINVAL, f"create CQ: cqe is 1 to {1 << 22}")
        self.ctx = ctx
        self.cqe = cqe
        self.cq_context = cq_context
        self.channel = channel
        self._delivered = 0
        with refusals("create CQ"):
            self.handle = ctx.driver.create_cq(cqe)
        ctx.pump.watch_cq(self.handle, self)
        self._open(ctx)

    def poll(self, num_entries: int = 1) -> tuple[int, list[WC]]:
        """Take up to `num_entries` completions.

        Returns their number and the list. Never blocks, never raises for one.
        """
        with refusals("poll CQ"):
            raw = self.ctx.driver.poll_completions(self.handle, num_entries)
        wcs = [
            WC(wr_id, status_of_engine(status), WCOpcode(opcode), vendor_err, byte_len, imm, qpn, with_imm)
            for wr_id, status, opcode, vendor_err, byte_len, imm, qpn, with_imm in raw
        ]
        return len(wcs), wcs

    def req_notify(self, solicited_only: bool = False) -> None:
        """Ask for one notification on the channel at the next (solicited) completion."""
        with refusals("request notification"):
            self.ctx.driver.req_notify_cq(self.handle, solicited_only)

    def ack_events(self, num_events: int) -> None:
        """Acknowledge notifications taken from the channel."""
        self._delivered = max(0, self._delivered - num_events)

    def _on_notified(self) -> None:
        if self.channel is not None:
            self.channel._on_notified(self)

    def _release(self) -> None:
        with refusals("destroy CQ"):
            self.ctx.driver.destroy_cq(self.handle)
        self.ctx.pump.forget_cq(self.handle)
        if self.channel is not None:
            self.channel._drop(self)
