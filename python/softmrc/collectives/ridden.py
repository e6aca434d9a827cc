"""Makes incidents of the endpoint's events: when paths and planes were lost, and when they came back.

Decides where one incident ends and the next begins: a plane's begins with the first of its paths that is lost and ends
when all are back. Keeps the newest 1000. Called from whichever thread distributes events; cheap while nothing happens.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from softmrc.collectives.report import Incident, merged

__all__ = ["Ridden"]

_MAX_INCIDENTS = 1000
_MAX_PLACES = 8
_LOST = ("assumed_bad", "denied")


@dataclass
class _Qp:
    """A queue pair that is listened for."""

    rank: int
    paths: int
    names: Mapping[tuple[int, int], str]
    bad: set[tuple[int, int]] = field(default_factory=set)


@dataclass
class _Open:
    """An incident that goes on."""

    kind: str
    began: float
    plane: int
    ranks: set[int] = field(default_factory=set)
    paths: int = 0
    reasons: list[str] = field(default_factory=list)
    where: list[str] = field(default_factory=list)

    def closed(self, now: float | None) -> Incident:
        """Return it as it stands; None: it goes on."""
        return Incident(
            kind=self.kind,
            began=self.began,
            seconds=None if now is None else max(0.0, now - self.began),
            plane=self.plane,
            ranks=tuple(sorted(self.ranks)),
            paths=self.paths,
            reasons=tuple(self.reasons),
            where=tuple(self.where),
        )


class Ridden:
    """The incidents of a mesh."""

    def __init__(self) -> None:
        """Start with none."""
        self._lock = threading.Lock()
        self._wall = time.time() - time.monotonic()
        self._qps: dict[int, _Qp] = {}
        self._planes: dict[int, _Open] = {}
        self._outages: dict[int, _Open] = {}
        self._down: set[int] = set()
        self._stalled: dict[int, int] = {}
        self._past: deque[Incident] = deque(maxlen=_MAX_INCIDENTS)
        self._spans: list[tuple[float, float]] = []

    def listen(self, qpn: int, rank: int, paths: int, names: Mapping[tuple[int, int], str]) -> None:
        """Take notice of a queue pair: whose it is, how many active paths it has, and their names if known."""
        with self._lock:
            self._qps[qpn] = _Qp(rank, paths, names)

    def forget(self, qpns: Iterable[int]) -> None:
        """Take no more notice of queue pairs; what they had lost counts as over."""
        with self._lock:
            now = self._wall + time.monotonic()
            for qpn in qpns:
                if (qp := self._qps.pop(qpn, None)) is not None and qp.bad:
                    qp.bad.clear()
                    self._settle(now)

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Take an event of the endpoint."""
        kind = event["kind"]
        if kind not in ("ev_state", "port_local"):
            return
        with self._lock:
            now = self._wall + event["at_ns"] / 1e9
            if kind == "port_local":
                self._on_port(event["port"], event["up"], now)
            elif (qp := self._qps.get(event["qpn"])) is not None:
                self._on_path(qp, event, now)

    def on_stall(self, rank: int, began: float) -> None:
        """Nothing has got through to a rank since then (`time.monotonic()`); once for each queue pair."""
        with self._lock:
            self._stalled[rank] = self._stalled.get(rank, 0) + 1
            if rank not in self._outages:
                self._outages[rank] = _Open("outage", self._wall + began, 0, {rank})

    def on_stall_over(self, rank: int, at: float) -> None:
        """Something gets through on one of the queue pairs again."""
        with self._lock:
            self._stalled[rank] = self._stalled.get(rank, 1) - 1
            if not self._stalled[rank]:
                del self._stalled[rank]
            self._settle(self._wall + at)

    def incidents(self) -> tuple[Incident, ...]:
        """Return them in the order they began."""
        with self._lock:
            going = [o.closed(None) for o in (*self._planes.values(), *self._outages.values())]
            return tuple(sorted((*self._past, *going), key=lambda i: (i.began, i.kind, i.plane, i.ranks)))

    def seconds_lost(self) -> float:
        """Return how long some rank could be reached on no path."""
        with self._lock:
            now = self._wall + time.monotonic()
            return merged([*self._spans, *((o.began, now) for o in self._outages.values())])

    # --- lock held ------------------------------------------------------------------------------------------

    def _on_port(self, plane: int, up: bool, now: float) -> None:
        if up:
            self._down.discard(plane)
            self._settle(now)
            return
        self._down.add(plane)
        incident = self._planes.setdefault(plane, _Open("plane", now, plane))
        incident.kind = "plane"
        if "link" not in incident.reasons:
            incident.reasons.append("link")

    def _on_path(self, qp: _Qp, event: Mapping[str, Any], now: float) -> None:
        path = (int(event["port"]), int(event["ev"]))
        if event["state"] not in _LOST:
            qp.bad.discard(path)
            self._settle(now)
            return
        qp.bad.add(path)
        plane = path[0]
        incident = self._planes.setdefault(plane, _Open("paths", now, plane))
        incident.ranks.add(qp.rank)
        reason, where = str(event.get("reason", "")), qp.names.get(path, "")
        if reason and reason not in incident.reasons:
            incident.reasons.append(reason)
        if where and where not in incident.where and len(incident.where) < _MAX_PLACES:
            incident.where.append(where)
        incident.paths = max(
            incident.paths, sum(1 for q in self._qps.values() for p, _ in q.bad if p == plane)
        )
        if len(qp.bad) >= qp.paths:
            outage = self._outages.setdefault(qp.rank, _Open("outage", now, 0, {qp.rank}))
            outage.paths = max(outage.paths, len(qp.bad))

    def _settle(self, now: float) -> None:
        """End what is over."""
        bad = {plane for qp in self._qps.values() for plane, _ in qp.bad}
        for plane in [p for p in self._planes if p not in bad and p not in self._down]:
            self._past.append(self._planes.pop(plane).closed(now))
        out = {qp.rank for qp in self._qps.values() if len(qp.bad) >= qp.paths} | set(self._stalled)
        for rank in [r for r in self._outages if r not in out]:
            outage = self._outages.pop(rank)
            self._spans.append((outage.began, now))
            self._past.append(outage.closed(now))
        if len(self._spans) > _MAX_INCIDENTS:
            self._spans = [(0.0, merged(self._spans))]
