"""What became of probes, over the last seconds. Time is an argument, in seconds of any clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from softmrc.lab.mapper.infer import Tally

__all__ = ["Outcome", "Outcomes"]

_DISORDER = 0.2


@dataclass(slots=True)
class Outcome:
    """One probe whose fate is known."""

    route: int
    sent: float
    lost: bool
    counts: bool = True
    """False once it was forgotten."""


class Outcomes:
    """The probes of the last `window` seconds, and their sums by route."""

    def __init__(self, window: float) -> None:
        """Begin with none."""
        self._window = window
        self._all: deque[Outcome] = deque()
        self._sums: dict[int, list[int]] = {}
        self._losses: deque[Outcome] = deque()
        self._begin: dict[int, float] = {}

    def add(self, route: int, sent: float, lost: bool) -> Outcome:
        """Note one. What is lost is known later than what arrives, so they come a little out of order."""
        one = Outcome(route, sent, lost, sent >= self._begin.get(route, sent))
        self._all.append(one)
        if not one.counts:
            return one
        total = self._sums.setdefault(route, [0, 0])
        total[0] += 1
        if lost:
            total[1] += 1
            self._losses.append(one)
        return one

    def revoke(self, one: Outcome) -> None:
        """An answer came after all: it was late, not lost."""
        if one.lost and one.counts:
            self._sums[one.route][1] -= 1
        one.lost = False

    def forget(self, routes: Iterable[int], before: float) -> None:
        """Drop what was sent on some routes before a time at which their state has changed."""
        gone = set(routes)
        for route in gone:
            self._begin[route] = before
        for one in self._all:
            if one.counts and one.route in gone and one.sent < before:
                one.counts = False
                total = self._sums[one.route]
                total[0] -= 1
                total[1] -= one.lost

    def trim(self, now: float) -> None:
        """Drop what is older than the window."""
        end = now - self._window
        while self._all and self._all[0].sent < end:
            old = self._all.popleft()
            if old.counts:
                total = self._sums[old.route]
                total[0] -= 1
                total[1] -= old.lost
                old.counts = False
        while self._losses and not (self._losses[0].lost and self._losses[0].counts):
            self._losses.popleft()

    @property
    def any_lost(self) -> bool:
        """Whether a probe of the window was lost; after `trim`."""
        return bool(self._losses)

    def tallies(self) -> dict[int, Tally]:
        """Return the sums of the window by route."""
        return {route: (sent, lost) for route, (sent, lost) in self._sums.items() if sent}

    def since_first_loss(self, after: float) -> dict[int, Tally]:
        """Return the sums from the first loss after some time on, by route; empty when there is none."""
        begin = min((o.sent for o in self._losses if o.lost and o.counts and o.sent >= after), default=None)
        found: dict[int, list[int]] = {}
        if begin is None:
            return {}
        for one in reversed(self._all):
            if one.sent < after - _DISORDER:
                break
            if one.sent >= begin and one.counts:
                total = found.setdefault(one.route, [0, 0])
                total[0] += 1
                total[1] += one.lost
        return {route: (sent, lost) for route, (sent, lost) in found.items()}

    def first_loss(self, routes: Iterable[int], after: float) -> float | None:
        """Return when the first probe was lost on some routes after a time; None: none was."""
        chosen = set(routes)
        times = (
            o.sent for o in self._losses if o.lost and o.counts and o.route in chosen and o.sent >= after
        )
        return min(times, default=None)
