"""A queue from the endpoint's thread to its users, who wait in a thread or in any asyncio loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Inbox", "resolve"]

T = TypeVar("T")


class Inbox(Generic[T]):
    """First in, first out. Ends with an error that every later `get` raises once the queue is empty."""

    def __init__(self, on_taken: Callable[[T], None] | None = None) -> None:
        """Make an empty queue; `on_taken` is called, without a lock, for each item a user takes."""
        self._items: deque[T] = deque()
        self._end: BaseException | None = None
        self._changed = threading.Condition()
        self._waiters: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()
        self._on_taken = on_taken

    def put(self, item: T) -> None:
        """Append an item and wake one waiter."""
        with self._changed:
            self._items.append(item)
            self._changed.notify()
            self._wake_one()

    def end(self, error: BaseException) -> None:
        """Say that no more will come; the first call counts."""
        with self._changed:
            if self._end is None:
                self._end = error
            self._changed.notify_all()
            while self._waiters:
                self._wake_one()

    @property
    def ended(self) -> bool:
        """True after `end`."""
        return self._end is not None

    @property
    def why_ended(self) -> BaseException | None:
        """What `end` was given; None before."""
        return self._end

    def __len__(self) -> int:
        """Return how many items wait."""
        return len(self._items)

    def drain(self) -> list[T]:
        """Take everything that waits."""
        with self._changed:
            items = list(self._items)
            self._items.clear()
        return items

    def get(self, timeout: float | None = None) -> T:
        """Block for an item.

        Raises:
            TimeoutError: none came in time.
        """
        end = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not self._items:
                if self._end is not None:
                    raise self._end
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError("nothing arrived in time")
                self._changed.wait(left)
            item = self._items.popleft()
        self._taken(item)
        return item

    async def get_async(self) -> T:
        """Wait for an item without blocking the loop."""
        loop = asyncio.get_running_loop()
        while True:
            with self._changed:
                if self._items:
                    item = self._items.popleft()
                    break
                if self._end is not None:
                    raise self._end
                entry = (loop, loop.create_future())
                self._waiters.append(entry)
            try:
                await entry[1]
            except asyncio.CancelledError:
                with self._changed:
                    if entry in self._waiters:
                        self._waiters.remove(entry)
                    elif self._items:
                        self._wake_one()  # the wake-up was meant for whoever is next
                raise
        self._taken(item)
        return item

    def _taken(self, item: T) -> None:
        if self._on_taken is not None:
            self._on_taken(item)

    def _wake_one(self) -> None:
        while self._waiters:
            loop, future = self._waiters.popleft()
            try:
                loop.call_soon_threadsafe(resolve, future)
            except RuntimeError:
                continue  # that loop is closed
            return


def resolve(future: asyncio.Future[None]) -> None:
    """Wake who awaits a future, unless they gave up."""
    if not future.done():
        future.set_result(None)
