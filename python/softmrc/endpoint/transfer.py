"""A write on its way: awaitable, pollable, waitable."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import Callable, Generator
from typing import Any

from softmrc.endpoint.inbox import resolve
from softmrc.verbs import MR

__all__ = ["Transfer"]


class Transfer:
    """One `Connection.write`. Done once the peer has placed and acknowledged all its bytes."""

    def __init__(self, length: int) -> None:
        """Made by a connection, which calls `_finish` once."""
        self._length = length
        self._future: concurrent.futures.Future[int] = concurrent.futures.Future()
        self._parts = 0
        self._cleanup: Callable[[], None] | None = None
        self._reads: MR | None = None

    @property
    def length(self) -> int:
        """Bytes of the write."""
        return self._length

    def done(self) -> bool:
        """Return True once it succeeded or failed."""
        return self._future.done()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until done.

        Args:
            timeout: seconds; None: as long as it takes.

        Returns:
            True when done, False when the time ran out.
        """
        try:
            self._future.exception(timeout)
        except concurrent.futures.TimeoutError:
            return False
        return True

    def result(self, timeout: float | None = None) -> int:
        """Block until done and return the number of bytes written.

        Raises:
            TimeoutError: not done in time.
            CompletionError: the peer refused the access.
            PeerError: the peer is gone; the message names it, its planes and when it was heard last.
        """
        return self._future.result(timeout)

    def exception(self) -> BaseException | None:
        """Return why it failed, None while it runs or when it succeeded."""
        return self._future.exception() if self._future.done() else None

    def add_done_callback(self, callback: Callable[[Transfer], object]) -> None:
        """Call `callback(transfer)` once done: at once if it is, else from the endpoint's thread."""
        self._future.add_done_callback(lambda _: callback(self))

    def __await__(self) -> Generator[Any, None, int]:
        """Await completion.

        Same value and errors as `result`. Cancelling the wait does not stop the transfer.
        """
        return self._wait_async().__await__()

    async def _wait_async(self) -> int:
        if not self._future.done():
            loop = asyncio.get_running_loop()
            woken = loop.create_future()

            def wake(_: object) -> None:
                with contextlib.suppress(RuntimeError):  # its loop is closed: nobody waits any more
                    loop.call_soon_threadsafe(resolve, woken)

            self._future.add_done_callback(wake)
            await woken
        return self._future.result()

    def _finish(self, error: BaseException | None) -> None:
        """Give memory back, then tell everybody. Called once, with no lock held."""
        if self._future.done():
            return
        self._reads = None
        try:
            if self._cleanup is not None:
                self._cleanup()
        finally:
            self._cleanup = None
            if error is None:
                self._future.set_result(self._length)
            else:
                self._future.set_exception(error)
