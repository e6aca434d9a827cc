"""A collective on its way: waiting for it, being told of its end, and what its failure means.

Decides how long a call may take and turns a failed job into an error that names the rank; leaves who is to blame to
the mesh. Waiting is done by the runner without the GIL; nobody is woken who does not wait.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from softmrc.collectives.watcher import watcher_of
from softmrc.errors import PeerError, UsageError

if TYPE_CHECKING:
    from softmrc.collectives.calling import Caller

__all__ = ["Work"]

_SLICE, _COMPARE_AFTER = 0.1, 0.5
_PENDING, _DONE, _FAILED, _ABORTED = range(4)


class Work:
    """What a collective call returns. Done when this rank's part is: its output is there, its input may be reused."""

    __slots__ = (
        "_callbacks",
        "_error",
        "_group",
        "_job",
        "_keep",
        "_lock",
        "_over",
        "_since",
        "_timeout",
        "what",
    )

    def __init__(self, group: Caller, job: Any, what: str, keep: object, timeout: float) -> None:
        """Made by `Group`.

        Args:
            group: whose call it is.
            job: the runner's; None: nothing was to be done.
            what: the call in words.
            keep: what holds the memory, until done.
            timeout: seconds from now until it counts as failed.
        """
        self.what = what
        self._group = group
        self._job = job
        self._keep: object = keep
        self._timeout = timeout
        self._since = time.monotonic()
        self._lock = threading.Lock()
        self._error: Exception | None = None
        self._over = job is None
        self._callbacks: list[Callable[[Work], object]] = []

    @property
    def job_id(self) -> int:
        """The runner's number of it, -1 when there was nothing to do."""
        return -1 if self._job is None else int(self._job.id)

    @property
    def result(self) -> None:
        """None: results are in the output. Raises what `wait` would, waits as it does."""
        self.wait()

    def done(self) -> bool:
        """True when it succeeded or failed; `wait` returns at once then."""
        return self._over or bool(self._job.done())

    def exception(self) -> Exception | None:
        """Why it failed; None while it runs and when it succeeded."""
        if not self._over and self._job.done():
            self._end(self._job.wait(0))
        return self._error

    def wait(self, timeout: float | None = None) -> bool:
        """Block until done.

        Args:
            timeout: seconds; None: what is left of the call's own. When they run out the call has failed: all ranks
                of the group learn who is to blame, and the group cannot be used any more.

        Returns:
            True.

        Raises:
            PeerError: a rank is gone, lost or did not come, or ranks called different things; the text is the same
                on all ranks.
        """
        if not self._over:
            now = time.monotonic()
            end = self._since + self._timeout
            if timeout is not None:
                end = min(end, now + timeout)
            look = now + _COMPARE_AFTER
            status = self._job.wait(max(0, int(min(_SLICE, end - now) * 1e9)))
            while status == _PENDING and (now := time.monotonic()) < end:
                if now >= look:
                    look = now + 2 * (now - self._since)
                    self._compare()
                # In slices, since signals of this process are handled only in between.
                status = self._job.wait(max(0, int(min(_SLICE, end - now) * 1e9)))
            self._end(status)
        if self._error is not None:
            raise self._error
        return True

    def add_done_callback(self, callback: Callable[[Work], object]) -> None:
        """Call `callback(work)` once done: at once if it is, else from the mesh's service thread."""
        with self._lock:
            if not self._over:
                self._callbacks.append(callback)
                first = len(self._callbacks) == 1
        if self._over:
            callback(self)
        elif first:
            watcher_of(self._group.mesh).add(self)

    def over_within(self, seconds: float) -> bool:
        """Wait a while without failing it; True when it is over."""
        return self.done() or int(self._job.wait(int(max(seconds, 0.0) * 1e9))) != _PENDING

    def ask_for_notice(self) -> bool:
        """Have the runner signal its end; False when it is over already."""
        return bool(self._job.watch())

    def succeeded(self) -> bool:
        """True when its job is over and well."""
        return int(self._job.wait(0)) == _DONE

    def expired(self) -> bool:
        """True when its time has run out and it is not done."""
        return not self.done() and time.monotonic() >= self._since + self._timeout

    def left(self) -> float:
        """Seconds until its time runs out."""
        return self._since + self._timeout - time.monotonic()

    def settle(self) -> None:
        """End it: it is done, or its time has run out. Takes a while when it failed."""
        if not self._over:
            self._end(self._job.wait(0))

    def _compare(self) -> None:
        """It takes long: perhaps the ranks it waits for have called something else, and wait for this one."""
        with contextlib.suppress(UsageError, OSError):  # closed meanwhile, which ends it
            self._group.mesh.compare(self._group.number, list(self._job.waiting_for()))

    def _end(self, status: int) -> None:
        error = None if status == _DONE else self._failure(status)
        with self._lock:
            if self._over:
                return
            self._error = error
            self._over = True
            self._keep = None
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def _failure(self, status: int) -> Exception:
        """Find out, with the other ranks, why it failed."""
        job, group = self._job, self._group
        failure = job.failure() if status == _FAILED else None
        try:
            return group.verdict(self.what, list(job.waiting_for()), failure, time.monotonic() - self._since)
        except UsageError as error:  # The group was given back meanwhile.
            return PeerError(f"{self.what} was given up: {error}")
        finally:
            # The verdict aborts what still runs: nothing writes any more into memory that the caller may free.
            job.wait(int(1e9))
