"""What the recorded changes of EV states say: who left when, and when it came back."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["ASSUMED_BAD", "GOOD", "EvChanges"]

GOOD = 1
ASSUMED_BAD = 2

_EV = ("host", "peer", "qp", "plane", "tag")


class EvChanges:
    """EV state changes of a run, oldest first.

    Args:
        table: The simulator's columns: at_ns, host, peer, qp, tag, plane, state, reason.
    """

    def __init__(self, table: Any) -> None:
        self._table = table

    def when(self, *, state: int, host: int | None = None, plane: int | None = None) -> list[float]:
        """Return the times in ns at which EVs came into a state, of one sender or plane or of all."""
        return [float(t) for t in self._table["at_ns"][self._mask(state, host, plane)]]

    def distinct(self, *, state: int, host: int | None = None) -> set[tuple[int, int, int, int, int]]:
        """Return (host, peer, qp, plane, tag) of the EVs that ever came into a state."""
        mask = self._mask(state, host, None)
        return set(zip(*(self._table[name][mask].tolist() for name in _EV), strict=True))

    def shortest_absence_ns(self) -> float:
        """Return the shortest time between an EV's ASSUMED_BAD and its next GOOD; inf if none came back."""
        left: dict[tuple[int, ...], float] = {}
        shortest = float("inf")
        columns = [self._table[name].tolist() for name in (*_EV, "state", "at_ns")]
        for *ev, state, at_ns in zip(*columns, strict=True):
            if state == ASSUMED_BAD:
                left.setdefault(tuple(ev), at_ns)
            elif state == GOOD and tuple(ev) in left:
                shortest = min(shortest, at_ns - left.pop(tuple(ev)))
        return shortest

    def _mask(self, state: int, host: int | None, plane: int | None) -> Any:
        mask = self._table["state"] == state
        if host is not None:
            mask = np.logical_and(mask, self._table["host"] == host)
        if plane is not None:
            mask = np.logical_and(mask, self._table["plane"] == plane)
        return mask
