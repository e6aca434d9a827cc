"""Writes what happens on a device into a file, from a thread of its own.

Decides what is an event and that nobody waits for a disk: what the file does not take in time is dropped, counted
and reported in the file. Leaves the form of a record to `events` and `qlog`.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Any

from softmrc.errors import UsageError
from softmrc.metrics.source import Reading, Source
from softmrc.text import visible
from softmrc.verbs.enums import status_of_engine

__all__ = ["Recorder"]

MAX_WAITING = 65_536
_BATCH = 4096
_LOCAL = ("local_rx_drops", "tx_would_block", "tx_errors", "tx_too_big", "bad_source", "impaired_lost")
Record = tuple[int, str, dict[str, Any]]


class Recorder(ABC):
    """The common part of the event log and the trace; a context manager."""

    period: float = 1.0
    """Seconds between looks at the counters."""
    max_qps: int = 0
    """Queue pairs whose counters are looked at."""

    def __init__(
        self, path: str | os.PathLike[str], source: Source, on_failure: Callable[[str], object] | None = None
    ) -> None:
        """Open the file and start to record.

        Args:
            path: file to append to, or to replace, as the format wants.
            source: the device.
            on_failure: called once, from another thread, when the file takes nothing more; recording then ends
                and the device goes on.

        Raises:
            UsageError: the file cannot be opened.
        """
        self._source = source
        self._on_failure = on_failure
        self._queue: queue.Queue[Record | None] = queue.Queue(MAX_WAITING)
        self._dropped = 0
        self._wall_offset = time.time_ns() - time.monotonic_ns()
        self._local: dict[str, int] = {}
        self.failure = ""
        """Why recording ended early; empty while it goes on."""
        shown = visible(os.fsdecode(path))
        try:
            self._file = open(path, self._mode(), buffering=1 << 16, encoding="utf-8")  # noqa: SIM115
        except OSError as error:
            raise UsageError(f"cannot write {shown}: {error.strerror}") from None
        self._path = shown
        self._closed = False
        self._planes = source.ctx.planes
        source.listen(self._on_event)
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    # --- what a format decides ------------------------------------------------------------------------------

    @abstractmethod
    def _mode(self) -> str:
        """Return the mode the file is opened in."""

    @abstractmethod
    def _begin(self) -> str:
        """Return the first lines of the file."""

    @abstractmethod
    def _format(self, time_ns: int, kind: str, fields: dict[str, Any]) -> str:
        """Return one record; `time_ns` counts from 1970."""

    def _sample(self, reading: Reading) -> list[tuple[str, dict[str, Any]]]:
        """Return records made of a reading."""
        return []

    # --- events ---------------------------------------------------------------------------------------------

    def wall_ns(self, monotonic_ns: int | None = None) -> int:
        """Turn a time of CLOCK_MONOTONIC, or now, into nanoseconds since 1970."""
        return (time.monotonic_ns() if monotonic_ns is None else monotonic_ns) + self._wall_offset

    def _on_event(self, event: dict[str, Any]) -> None:
        named = _named(event)
        if named is None or self._closed:
            return
        try:
            self._queue.put_nowait((self.wall_ns(event["at_ns"]), *named))
        except queue.Full:
            self._dropped += 1

    def _run(self) -> None:
        try:
            self._file.write(self._begin())
            self._file.flush()
            due = time.monotonic() + self.period
            while self._take(max(0.0, due - time.monotonic())):
                if time.monotonic() >= due:
                    due = time.monotonic() + self.period
                    self._look()
            self._look()
            self._file.write(self._format(self.wall_ns(), "end", {}))
            self._file.close()
        except OSError as error:
            self.failure = f"cannot write {self._path}: {error.strerror or error}"
            self._closed = True
            with contextlib.suppress(OSError):  # it tries to write what is left
                self._file.close()
            if self._on_failure is not None:
                self._on_failure(self.failure)

    def _take(self, wait: float) -> bool:
        """Write what waits, as much as is there or a batch; False: it is over."""
        try:
            for n in range(_BATCH):
                record = self._queue.get(timeout=wait) if n == 0 and wait > 0 else self._queue.get_nowait()
                if record is None:
                    return False
                self._file.write(self._format(*record))
        except queue.Empty:
            self._file.flush()
        return True

    def _look(self) -> None:
        """Note what the counters of this host lost since the last look, and what the format samples."""
        reading = self._source.read(self.max_qps)
        now = self.wall_ns()
        if self._dropped:
            lost, self._dropped = self._dropped, 0
            self._file.write(self._format(now, "records_lost", {"count": lost}))
        if reading is None:
            return
        local = {name: reading.counters.get(name, 0) for name in _LOCAL}
        news = {name: count - self._local.get(name, 0) for name, count in local.items()}
        self._local = local
        if any(news.values()):
            self._file.write(self._format(now, "local_drops", {k: v for k, v in news.items() if v}))
        for kind, fields in self._sample(reading):
            self._file.write(self._format(now, kind, fields))
        self._file.flush()

    # --- end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write what waits and close the file. Idempotent."""
        if self._closed:
            self._thread.join()
            return
        self._closed = True
        while self._thread.is_alive():  # the queue may be full, and its reader may fail at any time
            try:
                self._queue.put(None, timeout=0.1)
                break
            except queue.Full:
                continue
        self._thread.join()

    def __enter__(self) -> Recorder:
        """Enter: nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


def _named(event: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return kind and fields of an event of the engine under the names of the file; None: not recorded."""
    kind = event["kind"]
    more = {"dropped": event["dropped"]} if event.get("dropped") else {}
    if kind == "ev_state":
        names = {"qpn": "qpn", "port": "plane", "ev": "ev", "state": "state", "reason": "reason"}
        return kind, {mine: event[its] for its, mine in names.items()} | more
    if kind in ("port_local", "port_remote"):
        where = {"qpn": event["qpn"]} if event["qpn"] else {}
        side = kind.removeprefix("port_")
        return "plane", {"side": side, "plane": event["port"], "up": event["up"], **where, **more}
    if kind == "port_moved":
        return "plane", {"side": "moved", "plane": event["port"], **more}
    if kind == "qp_error":
        return kind, {"qpn": event["qpn"], "status": status_of_engine(event["status"]).name, **more}
    if kind == "cq_overrun":
        return kind, {"cq": event["cq"], **more}
    if kind == "qp_drained":
        return kind, {"qpn": event["qpn"], **more}
    return None
