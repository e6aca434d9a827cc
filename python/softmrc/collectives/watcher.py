"""Tells works of their end that nobody may be waiting for: those with callbacks.

Uses the mesh's service thread, and only for such works: the runner signals them alone. Decides nothing; finding out
who is to blame for a failure takes a while, so that is done beside the service thread.
"""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softmrc.collectives.mesh import Mesh
    from softmrc.collectives.service import Alarm
    from softmrc.collectives.work import Work

__all__ = ["Watcher", "watcher_of"]

_DONE = 1
_lock = threading.Lock()
_watchers: weakref.WeakKeyDictionary[Mesh, Watcher] = weakref.WeakKeyDictionary()


def watcher_of(mesh: Mesh) -> Watcher:
    """The watcher of a mesh; made when first asked for."""
    with _lock:
        found = _watchers.get(mesh)
        if found is None:
            found = _watchers[mesh] = Watcher(mesh)
        return found


class Watcher:
    """Works of one mesh that have callbacks, until they end."""

    def __init__(self, mesh: Mesh) -> None:
        """Watch nothing yet."""
        self._runner = mesh.runner
        self._service = mesh.service
        self._lock = threading.Lock()
        self._works: dict[int, Work] = {}
        self._reading = False
        self._alarm: Alarm | None = None
        self._due = 0.0

    def add(self, work: Work) -> None:
        """Settle a work when its job is over or its time has run out."""
        with self._lock:
            self._works[work.job_id] = work
            if not self._reading:
                self._reading = True
                self._service.add_reader(self._runner.event_fd(), self._on_finished)
            self._arm(work.left())
        if not work.ask_for_notice():
            with self._lock:
                self._works.pop(work.job_id, None)
            self._service.call_soon(lambda: self._end(work))

    def _on_finished(self) -> None:
        finished = self._runner.take_finished()
        with self._lock:
            works = [work for job in finished if (work := self._works.pop(job, None)) is not None]
        for work in works:
            self._end(work)

    def _arm(self, seconds: float) -> None:
        """Look for late works in that time, or earlier. With the lock held."""
        due = time.monotonic() + max(seconds, 0.01)
        if self._alarm is not None:
            if self._due <= due:
                return
            self._alarm.cancel()
        self._due = due
        self._alarm = self._service.call_later(max(seconds, 0.01), self._on_time)

    def _on_time(self) -> None:
        with self._lock:
            late = [job for job, work in self._works.items() if work.expired()]
            works = [self._works.pop(job) for job in late]
            left = [work.left() for work in self._works.values()]
            self._alarm = None
            if left:
                self._arm(min(left))
        for work in works:
            self._aside(work)

    def _end(self, work: Work) -> None:
        if work.succeeded():
            work.settle()
        else:
            self._aside(work)

    @staticmethod
    def _aside(work: Work) -> None:
        threading.Thread(target=work.settle, name=f"end of {work.what}", daemon=True).start()
