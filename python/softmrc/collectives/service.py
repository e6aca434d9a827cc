"""One thread of a process for callbacks of users and their deadlines.

Started when first used. What keeps peers alive and finds out who is to blame runs on the endpoint's thread instead,
so that a callback that takes its time delays nothing but other callbacks.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from softmrc.endpoint.worker import Worker
from softmrc.errors import UsageError

__all__ = ["Alarm", "Service"]


class Alarm:
    """A call that is still to come."""

    def __init__(self) -> None:
        """Made by `Service.call_later`."""
        self._handle: asyncio.TimerHandle | None = None
        self.cancelled = False

    def cancel(self) -> None:
        """Forget the call. Any thread."""
        self.cancelled = True
        handle = self._handle
        if handle is not None:
            handle.cancel()


class Service:
    """The thread. Every method may be called from any thread."""

    def __init__(self, name: str) -> None:
        """Start nothing yet."""
        self._name = name
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        self._closed = False
        self._readers: set[int] = set()

    @property
    def here(self) -> bool:
        """True on the thread itself."""
        worker = self._worker
        return worker is not None and worker.here

    def call_soon(self, function: Callable[[], object]) -> None:
        """Run a function on the thread; ignored once closed."""
        worker = self._started()
        if worker is not None:
            worker.call_soon(function)

    def call_later(self, seconds: float, function: Callable[[], object]) -> Alarm:
        """Run a function on the thread after some time, unless the alarm is cancelled; ignored once closed."""
        alarm = Alarm()

        def ring() -> None:
            if not alarm.cancelled:
                function()

        def wind() -> None:
            if not alarm.cancelled:
                alarm._handle = asyncio.get_running_loop().call_later(seconds, ring)

        self.call_soon(wind)
        return alarm

    def add_reader(self, fd: int, function: Callable[[], object]) -> None:
        """Call a function whenever a descriptor is readable."""
        worker = self._started()
        if worker is not None:
            self._readers.add(fd)
            worker.add_reader(fd, function)

    def remove_reader(self, fd: int) -> None:
        """Stop that, at once when called on the thread itself."""
        self._readers.discard(fd)
        worker = self._worker
        if worker is None:
            return
        if worker.here:
            asyncio.get_running_loop().remove_reader(fd)
        else:
            worker.call_soon(lambda: asyncio.get_running_loop().remove_reader(fd))

    def close(self) -> None:
        """Stop the thread; waits for it for 2 s at most, not at all when called on it. Idempotent."""
        with self._lock:
            worker, self._worker, self._closed = self._worker, None, True
        if worker is None or worker.forked:
            return
        for fd in self._readers:
            worker.call_soon(lambda fd=fd: asyncio.get_running_loop().remove_reader(fd))  # type: ignore[misc]
        worker.stop(None, 2.0)

    def _started(self) -> Worker | None:
        with self._lock:
            if self._closed:
                return None
            if self._worker is None:
                self._worker = Worker(self._name)
            if self._worker.forked:
                raise UsageError("this process was forked from the one that owns the mesh; open one here")
            return self._worker
