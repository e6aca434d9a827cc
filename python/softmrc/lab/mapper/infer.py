"""From lost probes to the element that loses them: the fewest elements that make what was seen likely.

Each line of a route lets a packet pass with probability 1 - x, and an element that is bad gives all its lines (or all
in one direction) the same x. Elements are added one at a time, the one that explains most first, each with its most
likely x. One is settled when it explains much more than chance does and than any other element that would have to
answer for the same losses; until then more probes are needed. Plain Python, no clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from softmrc.lab.mapper.elements import Candidate

__all__ = ["Cause", "Tally", "explain"]

Tally = tuple[int, int]
"""Probes sent on a route, and those of them that were lost."""

_CHANCE = 5e-4
"""Share of probes that get lost without a cause worth a name: a host that was busy for too long."""
_MOST = 0.9995
_GRID = (.002, .004, .007, .01, .015, .02, .03, .05, .08, .12, .2, .3, .45, .6, .75, .9, .97, _MOST)  # fmt: skip
_NOTICE = 3.0
_CLOSE = 0.7
ENOUGH = 9.0
"""Nats above chance: odds of one in some thousands, for each of hundreds of elements."""
MARGIN = 7.0
"""Nats above every rival."""
_DIRECTION = 4.0
_LEAST_LOST = 3
_MOST_CAUSES = 8


@dataclass(frozen=True)
class Cause:
    """An element that explains lost probes.

    Attributes:
        candidate: it, and those no probe can tell from it.
        direction: "up", "down" or "both"; None: not known.
        loss: share of packets lost on each of its lines, in that direction.
        sent, lost: probes that passed it.
        gain: nats, how much more likely it makes what was seen.
        margin: nats, how much more than its strongest rival does.
        settled: whether that is enough.
    """

    candidate: Candidate
    direction: str | None
    loss: float
    sent: int
    lost: int
    gain: float
    margin: float
    settled: bool

    @property
    def confidence(self) -> float:
        """Chance that it is this element and not another, or none."""
        return 1 - math.exp(-max(0.0, min(self.gain, self.margin)))


_Groups = dict[tuple[int, float], list[int]]
"""Probes by how often they pass the candidate, and how likely they survive all else: sent, lost."""


class _Score:
    """How much better a candidate explains what was seen, each direction by itself."""

    def __init__(self, candidate: Candidate, groups: Mapping[str, _Groups], lost: int) -> None:
        self.candidate, self.lost = candidate, lost
        self.numbers = [number for number, _, _ in candidate.felt]
        self._groups = groups
        self._fits = {direction: _rough(g) for direction, g in groups.items()}
        self._is_fine = False
        self.gain = self._best()

    def _best(self) -> float:
        return max(gain for gain, _ in self._fits.values())

    def refine(self) -> None:
        if self._is_fine:
            return
        self._is_fine = True
        self._fits = {d: _fine(self._groups[d], *fit) for d, fit in self._fits.items()}
        self.gain = self._best()

    def fits(self) -> list[tuple[str, float, float]]:
        """Return direction, gain and loss, the most likely first."""
        return sorted(((d, *fit) for d, fit in self._fits.items()), key=lambda f: -f[1])


def explain(
    candidates: Sequence[Candidate], tallies: Mapping[int, Tally], *, least_lost: int = _LEAST_LOST
) -> list[Cause]:
    """Return the elements that explain the losses, the strongest first.

    Args:
        candidates: the elements that are possible.
        tallies: what was seen, by number of the route.
        least_lost: fewer lost probes settle nothing.
    """
    survive = {number: 1 - _CHANCE for number, (sent, _) in tallies.items() if sent}
    lossy = {number for number, (_, lost) in tallies.items() if lost}
    possible = [c for c in candidates if any(number in lossy for number, _, _ in c.felt)]
    scores = [_score(c, tallies, survive) for c in possible]
    found: list[Cause] = []
    while len(found) < _MOST_CAUSES:
        top = max((s.gain for s in scores), default=0.0)
        if top < _NOTICE:
            break
        for score in scores:
            if score.gain >= _CLOSE * top:
                score.refine()
        best = max(scores, key=lambda s: s.gain)
        cause = _judge(best, scores, tallies, least_lost)
        found.append(cause)
        changed = set()
        for number, up, down in best.candidate.felt:
            if number in survive:
                times = {"up": up, "down": down}.get(cause.direction or "", up + down)
                survive[number] *= (1 - min(cause.loss, _MOST)) ** times
                changed.add(number)
        scores = [
            s if changed.isdisjoint(s.numbers) else _score(s.candidate, tallies, survive)
            for s in scores
            if s is not best
        ]
    return found


def _score(c: Candidate, tallies: Mapping[int, Tally], survive: Mapping[int, float]) -> _Score:
    groups: dict[str, _Groups] = {"both": {}, "up": {}, "down": {}}
    lost_in_all = 0
    for number, up, down in c.felt:
        sent, lost = tallies.get(number, (0, 0))
        if not sent:
            continue
        lost_in_all += lost
        for direction, times in (("both", up + down), ("up", up), ("down", down)):
            if times:
                group = groups[direction].setdefault((times, survive[number]), [0, 0])
                group[0] += sent
                group[1] += lost
    return _Score(c, groups, lost_in_all)


def _rough(groups: _Groups) -> tuple[float, float]:
    """Return the gain of the best x of the grid, and it."""
    if not any(lost for _, lost in groups.values()):
        return 0.0, 0.0
    gain, x = max((_likelihood(groups, x), x) for x in _GRID)
    return max(0.0, gain - _likelihood(groups, 0.0)), x


def _fine(groups: _Groups, gain: float, x: float) -> tuple[float, float]:
    """Look between the neighbours in the grid."""
    if not gain:
        return gain, x
    at = _GRID.index(x)
    low, high = _GRID[max(0, at - 1)], _GRID[min(len(_GRID) - 1, at + 1)]
    for _ in range(12):
        third = (high - low) / 3
        if _likelihood(groups, low + third) < _likelihood(groups, high - third):
            low += third
        else:
            high -= third
    x = max((low + high) / 2, x, key=lambda v: _likelihood(groups, v))
    return _likelihood(groups, x) - _likelihood(groups, 0.0), x


def _likelihood(groups: _Groups, x: float) -> float:
    total = 0.0
    for (times, before), (sent, lost) in groups.items():
        passes = before * (1 - x) ** times
        total += lost * math.log(1 - passes) + (sent - lost) * math.log(passes)
    return total


def _judge(best: _Score, scores: Sequence[_Score], tallies: Mapping[int, Tally], least_lost: int) -> Cause:
    rivals = [s.gain for s in scores if s is not best and _answers(s, best, tallies)]
    margin = best.gain - max(rivals, default=0.0)
    fits = best.fits()
    sure = fits[0][1] - fits[1][1] >= _DIRECTION
    direction = fits[0][0] if sure else None
    loss = next(x for d, _, x in fits if d == (direction or "both"))
    sent = sum(tallies.get(number, (0, 0))[0] for number, _, _ in best.candidate.felt)
    settled = best.gain >= ENOUGH and margin >= MARGIN and best.lost >= least_lost
    return Cause(best.candidate, direction, loss, sent, best.lost, best.gain, margin, settled)


def _answers(rival: _Score, best: _Score, tallies: Mapping[int, Tally]) -> bool:
    """Whether a rival would have to answer for the same losses: for at least half of them."""
    mine = {number for number, _, _ in best.candidate.felt if tallies.get(number, (0, 0))[1]}
    common = sum(tallies[number][1] for number, _, _ in rival.candidate.felt if number in mine)
    return 2 * common >= best.lost
