"""Protection domains and memory regions."""

from __future__ import annotations

import ctypes
import mmap

from softmrc.device import Resource, refusals
from softmrc.errors import UsageError
from softmrc.types import Buffer
from softmrc.verbs.context import Context
from softmrc.verbs.enums import Access

__all__ = ["MR", "PD"]

_WRITES = Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_ATOMIC


class PD(Resource):
    """A protection domain: queue pairs reach only the regions of their own."""

    _close_order = 0

    def __init__(self, ctx: Context) -> None:
        """Allocate one."""
        ctx._require_open()
        self.ctx = ctx
        with refusals("allocate PD"):
            self.handle = ctx.driver.alloc_pd()
        self._open(ctx)

    def _release(self) -> None:
        with refusals("deallocate PD"):
            self.ctx.driver.dealloc_pd(self.handle)


class MR(Resource):
    """A memory region. The device keeps the memory alive, and locked against resizing, until `close`."""

    _close_order = 1

    def __init__(self, pd: PD, memory: int | Buffer, access: int, iova: int | None = None) -> None:
        """Register memory.

        Args:
            pd: protection domain.
            memory: a length, for new page-aligned memory; or contiguous memory by the buffer protocol or
                DLPack (CPU).
            access: `Access` bits. Memory that would be written to (any write bit) must not be read-only.
            iova: first address as peers count; None: the real one.

        Raises:
            UsageError: not contiguous, read-only, not on the CPU, or a negative length.
            VerbsError: ENOMEM, EINVAL.
        """
        pd._require_open()
        self.pd = pd
        if isinstance(memory, int):
            if memory < 0:
                raise UsageError(f"a region cannot have {memory} bytes")
            memory = mmap.mmap(-1, memory) if memory else bytearray()
        with refusals("register memory"):
            self.lkey, self.rkey, self.buf, self.length, self.iova = pd.ctx.driver.reg_mr(
                pd.handle, memory, int(access), bool(access & _WRITES), iova
            )
        self.access = Access(access)
        self._open(pd)

    def read(self, length: int, offset: int = 0) -> bytes:
        """Copy bytes out of the region."""
        self._check(length, offset)
        return ctypes.string_at(self.buf + offset, length)

    def write(self, data: bytes, length: int | None = None, offset: int = 0) -> None:
        """Copy bytes into the region.

        Raises:
            UsageError: outside the region, or the region has no write bit.
        """
        size = len(data) if length is None else length
        self._check(size, offset)
        if not self.access & _WRITES or size > len(data):
            raise UsageError("the region is read-only" if size <= len(data) else "fewer data than length")
        ctypes.memmove(self.buf + offset, bytes(data[:size]), size)

    def _check(self, length: int, offset: int) -> None:
        self._require_open()
        if length < 0 or offset < 0 or offset + length > self.length:
            raise UsageError(
                f"bytes {offset} to {offset + length} are outside of the region of {self.length}"
            )

    def _release(self) -> None:
        with refusals("deregister memory"):
            self.pd.ctx.driver.dereg_mr(self.lkey)
