"""Reads one device: its counters, planes, queue pairs and paths, and hears its events.

The engine is held for one queue pair at a time, never for the whole reading.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from softmrc.endpoint import Endpoint
from softmrc.errors import MrcError
from softmrc.verbs import Context

__all__ = ["MAX_QPS", "QpName", "QpReading", "Reading", "Source"]

MAX_QPS = 200
"""Queue pairs of a device that are read one by one; the rest is only counted, so that labels stay bounded."""


@dataclass(frozen=True)
class QpName:
    """A queue pair to look at."""

    qpn: int
    role: str = "data"
    """What it is for: "data", "mail"."""
    peer: str = ""
    """The other end in words, as it calls itself."""


@dataclass(frozen=True)
class QpReading:
    """One queue pair at one moment, as the driver reports it."""

    name: QpName
    stats: dict[str, Any]
    paths: list[dict[str, Any]]


@dataclass(frozen=True)
class Reading:
    """One device at one moment."""

    device: str
    counters: dict[str, Any]
    planes: list[dict[str, Any]]
    qps: list[QpReading]
    not_shown: int
    """Queue pairs beyond `MAX_QPS`."""
    transitions: dict[tuple[int, str, str], int] = field(default_factory=dict)
    """Changes of EV state since the source was made, by (plane, state, reason)."""


class Source:
    """A device and how its queue pairs are found. Any thread may read it."""

    def __init__(
        self, ctx: Context, name: str, qps: Callable[[], Iterable[QpName]], *, manual: bool = False
    ) -> None:
        """Start to listen to the device's events.

        Args:
            ctx: the device.
            name: label of everything it shows, at most 200 characters.
            qps: called for each reading.
            manual: the device was opened with `progress="caller"`, so that no other thread may read it: its own
                calls `refresh`, and everybody else gets what was read then.
        """
        self._manual = manual
        self._latest: Reading | None = None
        self.ctx = ctx
        self.name = name[:200]
        self._qps = qps
        self._lock = threading.Lock()
        self._transitions: Counter[tuple[int, str, str]] = Counter()
        self._listeners: list[Callable[[dict[str, Any]], None]] = []
        ctx.pump.add_sink(self._on_event)

    @classmethod
    def of_endpoint(cls, endpoint: Endpoint) -> Source:
        """Return a source for an endpoint and all its connections."""

        def names() -> Iterable[QpName]:
            for link in endpoint.hub.connections():
                data, mail = link.qp_numbers
                yield QpName(data, "data", link.peer)
                yield QpName(mail, "mail", link.peer)

        return cls(endpoint.ctx, endpoint.name, names)

    def listen(self, listener: Callable[[dict[str, Any]], None]) -> None:
        """Call `listener` for each event of the device, on the thread that fetched it; it must not block."""
        with self._lock:
            self._listeners.append(listener)

    def _on_event(self, event: dict[str, Any]) -> None:
        with self._lock:
            listeners = tuple(self._listeners)
            if event["kind"] == "ev_state":
                self._transitions[(event["port"], event["state"], event["reason"])] += 1
        for listener in listeners:
            listener(event)

    def read(self, max_qps: int = MAX_QPS) -> Reading | None:
        """Read everything.

        Args:
            max_qps: queue pairs that are read one by one.

        Returns:
            The reading, or None when the device is closed or, with `manual`, was never read.
        """
        return self._latest if self._manual else self._read(max_qps)

    def refresh(self) -> None:
        """Read now, on the thread that drives the device; the others see it from then on."""
        self._latest = self._read(MAX_QPS)

    def _read(self, max_qps: int) -> Reading | None:
        try:
            counters = self.ctx.stats()
            planes = self.ctx.planes
            names = sorted(self._qps(), key=lambda n: n.qpn) if max_qps else []
            qps = [r for r in map(self._read_qp, names[:max_qps]) if r is not None]
        except (MrcError, OSError):
            return None
        with self._lock:
            transitions = dict(self._transitions)
        return Reading(self.name, counters, planes, qps, max(0, len(names) - max_qps), transitions)

    def _read_qp(self, name: QpName) -> QpReading | None:
        driver = self.ctx.driver
        try:
            found = QpReading(name, dict(driver.qp_stats(name.qpn)), list(driver.path_stats(name.qpn)))
        except OSError:  # destroyed since it was listed
            return None
        time.sleep(0)  # whoever waits for the engine or the interpreter goes first
        return found

    def close(self) -> None:
        """Stop listening. Idempotent."""
        self.ctx.pump.remove_sink(self._on_event)
