"""How much was sent again on the queue pairs of a mesh, those that are closed by now among them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from softmrc.errors import MrcError

__all__ = ["Resent"]


class Resent:
    """The sums."""

    def __init__(self) -> None:
        """Start with none."""
        self._lock = threading.Lock()
        self._open: dict[int, tuple[Callable[[], dict[str, Any]], int]] = {}
        self._packets = self._bytes = 0

    def add(self, qpn: int, stats: Callable[[], dict[str, Any]], payload: int) -> None:
        """Count a queue pair.

        Args:
            qpn: its number.
            stats: returns its statistics; MrcError once it is closed.
            payload: bytes of a full packet.
        """
        with self._lock:
            self._open[qpn] = (stats, payload)

    def drop(self, qpn: int) -> None:
        """Keep what a queue pair has sent again; it is about to be closed."""
        with self._lock:
            entry = self._open.pop(qpn, None)
            if entry is not None:
                packets = _count(entry[0])
                self._packets += packets
                self._bytes += packets * entry[1]

    def totals(self) -> tuple[int, int]:
        """Return packets, and bytes if all of them were full."""
        with self._lock:
            packets, size = self._packets, self._bytes
            for stats, payload in self._open.values():
                count = _count(stats)
                packets, size = packets + count, size + count * payload
            return packets, size


def _count(stats: Callable[[], dict[str, Any]]) -> int:
    with contextlib.suppress(MrcError):
        return sum(int(v) for k, v in stats()["counters"].items() if k.startswith("tx.rtx_"))
    return 0
