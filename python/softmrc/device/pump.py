"""Carries the one event descriptor of a driver to everybody who waits: channels, event readers, probes.

A driver has a single readable descriptor. Whoever waits first drains it and hands each notification to its
owner, whose own eventfd wakes it; an epoll descriptor over both is what `fileno()` returns, so it fits
select, poll and asyncio.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softmrc._core import NetDriver

__all__ = ["Pump", "Wakeup"]

_MAX_EVENTS = 4096


class Wakeup:
    """One waiter: readable when its owner was given something, or the driver has news."""

    def __init__(self, driver_fd: int) -> None:
        """Make the descriptors."""
        self._own = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll = select.epoll()
        self._epoll.register(self._own, select.EPOLLIN)
        self._epoll.register(driver_fd, select.EPOLLIN)

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._epoll.fileno()

    def set(self) -> None:
        """Make it readable."""
        if self._own >= 0:
            os.eventfd_write(self._own, 1)

    def clear(self) -> None:
        """Make it unreadable, as far as this waiter is concerned."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._own)

    def wait(self, timeout: float | None) -> None:
        """Block until readable or the time is over; other threads run meanwhile."""
        self._epoll.poll(None if timeout is None else max(timeout, 0.0), 1)

    def close(self) -> None:
        """Close the descriptors. Idempotent."""
        if self._own >= 0:
            self._epoll.close()
            os.close(self._own)
            self._own = -1


class Pump:
    """Distributes what a driver has to say."""

    def __init__(self, driver: NetDriver) -> None:
        """Start with nobody waiting."""
        self._driver = driver
        self._lock = threading.RLock()
        self._notified: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._sinks: list[Callable[[dict[str, Any]], None]] = []

    def watch_cq(self, handle: int, cq: Any) -> None:
        """Call `cq._on_notified()` for each notification of a completion queue, until it is gone."""
        with self._lock:
            self._notified[handle] = cq

    def forget_cq(self, handle: int) -> None:
        """Stop that."""
        with self._lock:
            self._notified.pop(handle, None)

    def add_sink(self, sink: Callable[[dict[str, Any]], None]) -> None:
        """Give every asynchronous event to `sink` as well."""
        with self._lock:
            self._sinks.append(sink)

    def remove_sink(self, sink: Callable[[dict[str, Any]], None]) -> None:
        """Stop that; unknown sinks are ignored."""
        with self._lock:
            if sink in self._sinks:
                self._sinks.remove(sink)

    def run(self) -> None:
        """Fetch and distribute everything there is. Never blocks on the network."""
        with self._lock:
            if self._driver.closed:
                return
            self._driver.drain_event_fd()
            for handle in self._driver.take_notified_cqs():
                cq = self._notified.get(handle)
                if cq is not None:
                    cq._on_notified()
            for event in self._driver.poll_events(_MAX_EVENTS):
                for sink in tuple(self._sinks):
                    sink(event)

    def wait_for(self, wakeup: Wakeup, ready: Callable[[], bool], timeout: float | None) -> bool:
        """Block until `ready()`; False when the time ran out first."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            self.run()
            if ready():
                return True
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return False
            wakeup.wait(left)


class EventQueue:
    """A bounded queue of events behind a wake-up; the oldest fall out and are counted."""

    def __init__(self, wakeup: Wakeup, limit: int = _MAX_EVENTS) -> None:
        """Make an empty queue."""
        self.wakeup = wakeup
        self.dropped = 0
        self._items: deque[dict[str, Any]] = deque()
        self._limit = limit
        self._lock = threading.Lock()

    def push(self, event: dict[str, Any]) -> None:
        """Append; drop the oldest when full."""
        with self._lock:
            if len(self._items) >= self._limit:
                self._items.popleft()
                self.dropped += 1
            self._items.append(event)
            self.wakeup.set()

    def pop(self) -> dict[str, Any] | None:
        """Take the oldest; None when there is none."""
        with self._lock:
            if not self._items:
                return None
            event = self._items.popleft()
            if not self._items:
                self.wakeup.clear()
            return event

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._items)
