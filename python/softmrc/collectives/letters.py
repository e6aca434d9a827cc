"""A send or receive between two ranks on its way, and the memory it is about."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

from softmrc.endpoint import Region
from softmrc.errors import UsageError
from softmrc.types import Buffer

__all__ = ["Letter", "Memory", "memory_of"]

_DLPACK_CPU = 1


class Memory:
    """Contiguous bytes: as a view for copying, as an object for registering."""

    def __init__(self, view: memoryview, keep: object) -> None:
        """Keep both; `keep` is whatever owns the memory."""
        self.view, self.keep = view, keep
        self.nbytes = view.nbytes


def memory_of(buffer: Any, writable: bool) -> Memory:
    """Return the bytes of a buffer.

    Args:
        buffer: anything with the buffer protocol; (address, bytes); an object with `addr` and `nbytes`; an array with
            `__array_interface__` or DLPack is given by its address, too.
        writable: True: it will be written to.

    Raises:
        UsageError: not contiguous, read-only, or no memory at all.
    """
    if isinstance(buffer, tuple) and len(buffer) == 2:
        return _at(int(buffer[0]), int(buffer[1]), buffer)
    if hasattr(buffer, "addr") and hasattr(buffer, "nbytes"):
        return _at(int(buffer.addr), int(buffer.nbytes), buffer)
    try:
        view = memoryview(buffer)
    except (TypeError, BufferError, ValueError):
        raise UsageError(
            f"{type(buffer).__name__} has no memory to send from or receive into; give something with the buffer "
            "protocol or (address, bytes)"
        ) from None
    if not view.c_contiguous:
        raise UsageError("the memory is not contiguous; copy it first")
    if writable and view.readonly:
        raise UsageError("the memory is read-only: nothing can be received into it")
    flat = view.cast("B") if view.nbytes else memoryview(bytearray())
    return Memory(flat, buffer)


def _at(address: int, nbytes: int, keep: object) -> Memory:
    if nbytes < 0 or (nbytes and not address):
        raise UsageError(f"no memory: {nbytes} bytes at address {address}")
    if nbytes == 0:
        return Memory(memoryview(bytearray()), keep)
    array = (ctypes.c_char * nbytes).from_address(address)
    return Memory(memoryview(array).cast("B"), (array, keep))


class Letter:
    """One send or receive. Done when what was sent has arrived, or was received whole."""

    def __init__(self, memory: Memory, key: str, peer: int | None, tag: int, what: str) -> None:
        """Made by `P2P`.

        Args:
            memory: sent from or received into; kept alive until done.
            key: of the group.
            peer: rank in the group; None: any.
            tag: as given.
            what: in words, for errors.
        """
        self.memory: Memory | None = memory
        self.nbytes = memory.nbytes
        self.key, self.tag = key, tag
        self.what = what
        self.source = peer
        """Rank in the group that it goes to or comes from; for a receive from any, None until it has begun."""
        self._event = threading.Event()
        self._error: Exception | None = None
        self._callbacks: list[Callable[[Letter], object]] = []
        self._lock = threading.Lock()
        self.region: Region | None = None
        """Registered memory of one that is large."""
        self._kept: Region | None = None

    def done(self) -> bool:
        """Return True once it succeeded or failed."""
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until done; False when the time (seconds) ran out."""
        return self._event.wait(timeout)

    def exception(self) -> Exception | None:
        """Return why it failed; None while it runs, and when it succeeded."""
        return self._error

    def result(self, timeout: float | None = None) -> int:
        """Block until done and return the number of bytes.

        Raises:
            TimeoutError: not done in time.
            PeerError: the peer is gone, left, or sent another number of bytes than expected.
        """
        if not self.wait(timeout):
            raise TimeoutError(f"{self.what} is not done after {timeout:g} s")
        if self._error is not None:
            raise self._error
        return self.nbytes

    def add_done_callback(self, callback: Callable[[Letter], object]) -> None:
        """Call `callback(letter)` once done: at once if it is, else from the endpoint's thread; it must not block."""
        with self._lock:
            if not self.done():
                self._callbacks.append(callback)
                return
        callback(self)

    def keep_memory(self) -> None:
        """Leave its memory registered when it ends: the peer may still write into it. `let_go` ends that."""
        with self._lock:
            self._kept = self.region

    def let_go(self) -> None:
        """Nobody writes into its memory any more. Idempotent."""
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None:
            kept.release()

    def finish(self, error: Exception | None = None) -> None:
        """End it; the first call counts. With no lock held."""
        with self._lock:
            if self.done():
                return
            self._error = error
            region, self.region, self.memory = self.region, None, None
            if self._kept is not None:
                region = None
            callbacks, self._callbacks = self._callbacks, []
            self._event.set()
        if region is not None:
            region.release()
        for callback in callbacks:
            callback(self)


def registered(register: Callable[[Buffer, bool], Region], memory: Memory, writable: bool) -> Region:
    """Register a letter's memory with an endpoint."""
    keep = memory.keep
    whole = keep[0] if isinstance(keep, tuple) and isinstance(keep[0], ctypes.Array) else memory.view
    return register(whole, writable)
