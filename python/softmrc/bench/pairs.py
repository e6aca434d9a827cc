"""Us and the peer in turn: ratios of runs that stood next to each other, on cores that stayed where they were."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from softmrc.bench.place import Place
from softmrc.bench.settings import Settings

__all__ = ["Pair", "Pairs", "Sample", "measure_pairs"]

_TRIES = 3  # of a pair whose cores moved
_PATIENCE = 8.0  # seconds to wait for near cores before a pair


@dataclass(frozen=True)
class Sample:
    """One run: the figure that is compared, and what else is worth keeping."""

    value: float
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Pair:
    """Two runs next to each other."""

    ours: Sample
    peer: Sample
    distances: tuple[float | None, ...]
    """Between the cores, ns: before, between and after the runs."""

    @property
    def ratio(self) -> float:
        """Ours over the peer's; infinite when the peer's is 0."""
        return self.ours.value / self.peer.value if self.peer.value else math.inf

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return {
            "ours": self.ours.value,
            "peer": self.peer.value,
            "ratio": round(self.ratio, 4) if self.peer.value else None,
            "core_ns": list(self.distances),
            **(
                {"more": {"ours": self.ours.more, "peer": self.peer.more}}
                if self.ours.more or self.peer.more
                else {}
            ),
        }


@dataclass(frozen=True)
class Pairs:
    """All pairs of a row."""

    pairs: list[Pair]
    repeated: int
    """Pairs thrown away because the cores moved."""
    moved: int
    """Pairs kept although the cores moved: every repetition did."""
    far: int
    """Pairs kept with cores that do not share a cache."""

    @property
    def ratio(self) -> float:
        """Median of the ratios."""
        return statistics.median(p.ratio for p in self.pairs)

    @property
    def ours(self) -> float:
        """Median of our figures."""
        return statistics.median(p.ours.value for p in self.pairs)

    @property
    def peer(self) -> float:
        """Median of the peer's figures."""
        return statistics.median(p.peer.value for p in self.pairs)

    def median_of(self, figure: Callable[[Pair], float]) -> float:
        """Return the median of a figure of each pair."""
        return statistics.median(figure(p) for p in self.pairs)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return {
            "pairs": [p.to_json() for p in self.pairs],
            "repeated": self.repeated,
            "kept_though_moved": self.moved,
            "kept_though_far": self.far,
        }


def measure_pairs(
    settings: Settings,
    place: Place,
    ours: Callable[[], Sample],
    peer: Callable[[], Sample],
    *,
    repeat: int | None = None,
) -> Pairs:
    """Measure in turn, the first of a pair changing each time.

    Args:
        settings: how often.
        place: asked before, between and after the runs of a pair; a pair whose cores moved is measured again,
            three times at most.
        ours: one run of us.
        peer: one run of the peer.
        repeat: pairs; None: those of the settings.

    Raises:
        BenchError: a run failed.
    """
    done: list[Pair] = []
    repeated = moved = far = 0
    total = repeat or settings.repeat
    for number in range(total):
        for attempt in range(1, _TRIES + 1):
            settings.say(f"pair {number + 1} of {total}" + (f", again ({attempt})" if attempt > 1 else ""))
            pair = _one(settings, place, ours, peer, ours_first=number % 2 == 0)
            states = {place.near(d) for d in pair.distances}
            if len(states) == 1 or settings.quick:
                break
            if attempt < _TRIES:
                repeated += 1
            else:
                moved += 1
        far += states == {False}
        done.append(pair)
    return Pairs(done, repeated, moved, far)


def _one(
    settings: Settings,
    place: Place,
    ours: Callable[[], Sample],
    peer: Callable[[], Sample],
    *,
    ours_first: bool,
) -> Pair:
    before = place.distance() if settings.quick else place.await_near(_PATIENCE)
    first = ours() if ours_first else peer()
    between = place.distance()
    second = peer() if ours_first else ours()
    a, b = (first, second) if ours_first else (second, first)
    return Pair(a, b, (before, between, place.distance()))
