"""The thread of an endpoint.

An asyncio loop that serves set-up, completions and timers for all of its connections.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from softmrc.errors import UsageError

__all__ = ["Worker"]

T = TypeVar("T")


class Worker:
    """A loop in a daemon thread; sleeps when there is nothing to do."""

    def __init__(self, name: str) -> None:
        """Start the thread."""
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._main, name=f"softmrc {name}", daemon=True)
        self._thread.start()

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    @property
    def forked(self) -> bool:
        """True in a child process, where the thread does not exist."""
        return os.getpid() != self._pid

    @property
    def here(self) -> bool:
        """True on the worker's own thread."""
        return threading.current_thread() is self._thread

    def call_soon(self, function: Callable[[], object]) -> None:
        """Run `function` on the thread; ignored once stopped."""
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:
            return

    def call_later(self, seconds: float, function: Callable[[], object]) -> None:
        """Run `function` later; only on the thread itself."""
        self._loop.call_later(seconds, function)

    def add_reader(self, fd: int, function: Callable[[], object]) -> None:
        """Call `function` whenever `fd` is readable."""
        self.call_soon(lambda: self._loop.add_reader(fd, function))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the thread and block for its result; Ctrl-C cancels it.

        Raises:
            UsageError: called on the thread itself, where it would wait for ever.
        """
        if self.here or self.forked:
            work.close()
            raise UsageError(
                "a blocking call was made on the endpoint's own thread" if self.here else "forked"
            )
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine on the thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def stop(self, fd: int | None = None, patience: float | None = None) -> None:
        """Stop reading `fd`, end the loop and join the thread.

        Args:
            fd: what `add_reader` was given last; None: nothing.
            patience: seconds to wait for a thread that is busy in a function it was given; None: for ever. One that
                is busy for longer ends later, and with the process at the latest.
        """
        if self.forked or self._loop.is_closed():
            return

        async def finish() -> None:
            if fd is not None:
                self._loop.remove_reader(fd)
            others = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await self._loop.shutdown_default_executor()
            self._loop.call_soon(self._loop.stop)

        asyncio.run_coroutine_threadsafe(finish(), self._loop)
        if not self.here:
            self._thread.join(patience)
            if not self._thread.is_alive():
                self._loop.close()
