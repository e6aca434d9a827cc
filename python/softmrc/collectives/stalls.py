"""Sees when nothing gets through to a rank although something is on its way: the time that a total loss costs.

Where all paths fail at once no path is worse than another and none is marked, so that events tell nothing. Looks at
the acknowledgements of the queue pairs ten times a second while something is under way, less often with very many of
them. On the endpoint's thread.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from softmrc.collectives.ridden import Ridden
from softmrc.endpoint.hub import Hub
from softmrc.errors import MrcError

__all__ = ["Stalls"]

_LOOK_SECONDS = 0.1
_QPS_A_LOOK = 32
_STALL_SECONDS = 0.2


@dataclass
class _Qp:
    rank: int
    stats: Callable[[], dict[str, Any]]
    acked: object = None
    moved: float = 0.0
    told: bool = False


class Stalls:
    """The looking."""

    def __init__(
        self,
        hub: Hub,
        busy: Callable[[], bool],
        alive: Callable[[int], bool],
        ridden: Ridden,
    ) -> None:
        """Begin.

        Args:
            hub: of the endpoint.
            busy: asked whether anything is under way; while not, nothing is looked at.
            alive: asked whether a rank lives; one that has ended is no matter of the network.
            ridden: told since when nothing gets through to a rank, and when something does again.
        """
        self._hub, self._busy, self._alive, self._ridden = hub, busy, alive, ridden
        self._lock = threading.Lock()
        self._qps: dict[int, _Qp] = {}
        self._stopped = False
        hub.call_later(_LOOK_SECONDS, self._look)

    def add(self, qpn: int, rank: int, stats: Callable[[], dict[str, Any]]) -> None:
        """Look at a queue pair from now on; `stats` raises MrcError once it is closed."""
        with self._lock:
            self._qps[qpn] = _Qp(rank, stats)

    def drop(self, qpn: int) -> None:
        """Look at it no more."""
        with self._lock:
            qp = self._qps.pop(qpn, None)
        if qp is not None and qp.told:
            self._ridden.on_stall_over(qp.rank, time.monotonic())

    def stop(self) -> None:
        """Look no more."""
        self._stopped = True

    def _look(self) -> None:
        if self._stopped:
            return
        with self._lock:
            qps = list(self._qps.values())
        if self._busy() or any(qp.told for qp in qps):
            for qp in qps:
                with contextlib.suppress(MrcError):
                    self._judge(qp, qp.stats(), time.monotonic())
        self._hub.call_later(_LOOK_SECONDS * max(1.0, len(qps) / _QPS_A_LOOK), self._look)

    def _judge(self, qp: _Qp, stats: dict[str, Any], now: float) -> None:
        acked = (stats["unack_psn"], stats["cack_psn"])
        if acked != qp.acked or not stats["outstanding"]:
            qp.acked, qp.moved = acked, now
            if qp.told:
                qp.told = False
                self._ridden.on_stall_over(qp.rank, now)
        elif not qp.told and now - qp.moved >= _STALL_SECONDS and self._alive(qp.rank):
            qp.told = True
            self._ridden.on_stall(qp.rank, qp.moved)
