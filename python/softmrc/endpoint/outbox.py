"""Writes of one connection between `write` and their completion: splitting, order, back-pressure.

`Connection` calls every method with its lock held.
"""

from __future__ import annotations

import errno
from collections import deque
from dataclasses import dataclass

from softmrc.endpoint.region import Region, RemoteWindow
from softmrc.endpoint.transfer import Transfer
from softmrc.errors import UsageError, VerbsError
from softmrc.types import Buffer
from softmrc.verbs import MR, PD, QP, SGE, SendWR, WROpcode

__all__ = ["MAX_MESSAGE", "Outbox"]

MAX_MESSAGE = 1 << 31


@dataclass(slots=True)
class _Part:
    transfer: Transfer
    addr: int
    length: int
    lkey: int
    remote_addr: int
    rkey: int
    imm: int | None
    last: bool


class Outbox:
    """What was asked for and is not acknowledged yet."""

    def __init__(self, qp: QP, pd: PD, depth: int) -> None:
        """Start empty; at most `depth` requests are in the engine at a time."""
        self._qp = qp
        self._pd = pd
        self._depth = depth
        self._waiting: deque[_Part] = deque()
        self._posted: deque[_Part] = deque()
        self._memory: set[MR] = set()
        self.bytes_done = 0
        self.max_message = MAX_MESSAGE

    def add(
        self,
        data: Buffer | Region,
        window: RemoteWindow,
        offset: int,
        imm: int | None,
        length: int | None,
        local_offset: int,
    ) -> Transfer:
        """Check a write and queue its messages."""
        region = data._mr if isinstance(data, Region) else self._register(data)
        have = region.length if region is not None else 0
        size = have - local_offset if length is None else length
        try:
            if local_offset < 0 or size < 0 or local_offset + size > have:
                raise UsageError(
                    f"bytes {local_offset} to {local_offset + size} are outside of the data of {have}"
                )
            if offset < 0 or offset + size > window.length:
                raise UsageError(
                    f"bytes {offset} to {offset + size} are outside of the window of {window.length}"
                )
        except UsageError:
            if region is not None and not isinstance(data, Region):
                region.close()
            raise
        transfer = Transfer(size)
        transfer._reads = region  # alive until done, whatever becomes of the caller's references
        if region is not None and not isinstance(data, Region):
            self._memory.add(region)
            transfer._cleanup = lambda: self._let_go(region)
        start = region.buf + local_offset if region is not None else 0
        lkey = region.lkey if region is not None else 0
        for at in range(0, max(size, 1), self.max_message):
            piece = min(self.max_message, size - at)
            last = at + piece == size
            self._waiting.append(
                _Part(
                    transfer,
                    start + at,
                    piece,
                    lkey,
                    window.addr + offset + at,
                    window.rkey,
                    imm if last else None,
                    last,
                )
            )
        return transfer

    def _register(self, data: Buffer) -> MR | None:
        try:
            empty = memoryview(data).nbytes == 0  # type: ignore[arg-type]
        except (TypeError, BufferError):
            empty = False  # DLPack; or refused with its reason below
        return None if empty else MR(self._pd, data, 0)  # a zero-length write needs no memory

    def _let_go(self, region: MR) -> None:
        self._memory.discard(region)
        try:
            region.close()
        except VerbsError as error:
            if error.errno != errno.EBUSY:
                raise
            self._memory.add(region)  # freed with the queue pair

    def post(self) -> VerbsError | None:
        """Hand to the engine what fits.

        Returns why it took no more, None when it took everything that may go.
        """
        while self._waiting and len(self._posted) < self._depth:
            batch = [
                self._waiting[i] for i in range(min(len(self._waiting), self._depth - len(self._posted), 64))
            ]
            taken, refused = len(batch), None
            wrs = [self._work(part) for part in batch]
            try:
                self._qp.post_send(wrs)
            except VerbsError as error:
                refused = error
                taken = (
                    next(i for i, wr in enumerate(wrs) if wr is error.bad_wr)
                    if hasattr(error, "bad_wr")
                    else 0
                )
            for _ in range(taken):
                self._posted.append(self._waiting.popleft())
            if refused is not None:
                return refused if refused.errno != errno.ENOMEM else None
        return None

    @staticmethod
    def _work(part: _Part) -> SendWR:
        opcode = WROpcode.RDMA_WRITE if part.imm is None else WROpcode.RDMA_WRITE_WITH_IMM
        sg = [SGE(part.addr, part.length, part.lkey)] if part.length else []
        wr = SendWR(opcode=opcode, num_sge=len(sg), imm_data=part.imm or 0, sg=sg)
        wr.set_wr_rdma(part.rkey, part.remote_addr)
        return wr

    def on_completed(self, _: int) -> list[Transfer]:
        """The oldest request was acknowledged (they complete in order).

        Returns the transfer it finished, if any.
        """
        part = self._posted.popleft()
        self.bytes_done += part.length
        return [part.transfer] if part.last else []

    def idle(self) -> bool:
        """Return True when everything was acknowledged."""
        return not self._posted and not self._waiting

    def fail(self) -> list[Transfer]:
        """Return every transfer that will never be done, oldest first, each once."""
        lost = list(dict.fromkeys(part.transfer for part in (*self._posted, *self._waiting)))
        self._posted.clear()
        self._waiting.clear()
        return lost

    def release(self) -> None:
        """Deregister what is left; the queue pair must be gone."""
        for region in list(self._memory):
            region.close()
        self._memory.clear()
