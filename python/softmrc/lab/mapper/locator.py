"""What is bad now, since when, and when it is over: the probes' fates in, findings out.

Sudden and heavy loss shows in what was sent since the first unexplained loss, within tens of milliseconds; little loss
in the sums of some seconds. A finding ends when so many probes in a row have passed it that its loss is ruled out, or
when another element explains everything better. Time is an argument, in seconds of one clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from softmrc.lab.mapper.elements import Candidate, candidates
from softmrc.lab.mapper.infer import Cause, Tally, explain
from softmrc.lab.mapper.outcomes import Outcome, Outcomes
from softmrc.lab.mapper.routes import Route
from softmrc.lab.names import Link

__all__ = ["Change", "Finding", "Locator", "window"]

_WINDOW, _WINDOW_PROBES, _LEAST_WINDOW = 10.0, 96_000, 3.0
_RECENT = 0.25
_HEAVY, _STILL_HEAVY = 0.5, 0.3
_HEARD = 5
_QUIET_NATS, _QUIET_PROBES = 8.0, 5
_ABSENT = 0.3
_PACE, _SOON = 0.1, 0.012
_STEP = 1.5
_DRIFT = 3


@dataclass
class Finding:
    """An element that loses packets.

    Attributes:
        candidate: it, and those that no probe can tell from it.
        direction: "up", "down", "both"; None: not known yet.
        loss: share of packets lost on each of its links, each way it concerns.
        since: when its first probe was lost.
        found: when that was enough to name it.
        confidence: chance that it is this one.
        sent, lost: probes that passed it, of those the verdict stands on.
    """

    candidate: Candidate
    direction: str | None
    loss: float
    since: float
    found: float
    confidence: float
    sent: int
    lost: int
    heavy: bool = field(default=False, repr=False)
    seen: float = field(default=0.0, repr=False)
    quiet_passes: int = field(default=0, repr=False)
    quiet_probes: int = field(default=0, repr=False)
    drift: int = field(default=0, repr=False)
    told: tuple[str | None, float] = field(default=(None, 0.0), repr=False)

    @property
    def name(self) -> str:
        """Of the element."""
        return self.candidate.element.name

    @property
    def quiet(self) -> bool:
        """Whether as many probes in a row have passed as its loss, which may be overrated, does not let through."""
        least = min(self.loss * (1 - 1 / math.sqrt(self.lost + 1)), 0.9)
        return self.quiet_probes >= _QUIET_PROBES and -self.quiet_passes * math.log(1 - least) >= _QUIET_NATS


@dataclass(frozen=True)
class Change:
    """Something to tell: `what` is "found", "changed" (its loss or direction) or "cleared"."""

    what: str
    finding: Finding
    at: float


def window(rate: float) -> float:
    """Return how many seconds of probes verdicts on little loss stand on, at so many probes a second."""
    return max(_LEAST_WINDOW, min(_WINDOW, _WINDOW_PROBES / rate))


class Locator:
    """Turns the fates of probes into findings."""

    def __init__(self, links: Sequence[Link], routes: Sequence[Route], window: float = _WINDOW) -> None:
        """Begin with nothing known.

        Args:
            links: of the fabric.
            routes: of the fabric.
            window: seconds of probes that verdicts on little loss stand on.
        """
        self._window = window
        self._candidates = candidates(links, routes)
        self._of_route: dict[int, list[tuple[Candidate, int, int]]] = {}
        for c in self._candidates:
            for number, up, down in c.felt:
                self._of_route.setdefault(number, []).append((c, up, down))
        self._outcomes = Outcomes(window)
        self._findings: dict[str, Finding] = {}
        self._next = self._looked = 0.0
        self.suspects: list[Cause] = []
        """What may be bad; more probes will tell."""
        self.silent = False
        """Nothing comes back since the last loss: all is dead, or rather, who probes stands still. Nothing is named."""

    @property
    def findings(self) -> list[Finding]:
        """What is bad, the worst first."""
        return sorted(self._findings.values(), key=lambda f: (-f.loss, f.name))

    def add(self, route: int, sent: float, lost: bool) -> Outcome:
        """Note the fate of a probe; an answer that comes later is told by `revoke`."""
        if lost and not self.explained(route):
            self._next = min(self._next, self._looked + _SOON)
        for candidate, up, down in self._of_route.get(route, ()) if self._findings else ():
            finding = self._findings.get(candidate.element.name)
            if finding is None or sent < finding.since:
                continue
            if lost:
                finding.quiet_passes = finding.quiet_probes = 0
            else:
                finding.quiet_passes += {"up": up, "down": down}.get(finding.direction or "", up + down)
                finding.quiet_probes += 1
        return self._outcomes.add(route, sent, lost)

    def revoke(self, one: Outcome) -> None:
        """An answer came after its probe was given up."""
        self._outcomes.revoke(one)

    def explained(self, route: int) -> bool:
        """Whether a loss on a route is no news: something on it is known to lose that much."""
        return any(c.element.name in self._findings for c, _, _ in self._of_route.get(route, ()))

    def look(self, now: float) -> list[Change]:
        """Return what has changed; cheap where there is nothing to do."""
        self._outcomes.trim(now)
        if now < self._next or not (self._findings or self._outcomes.any_lost):
            return []
        self._next, self._looked = now + _PACE, now
        changes = self._end_quiet(now)
        recent = self._outcomes.since_first_loss(now - _RECENT)
        self.silent = bool(recent) and sum(sent - lost for sent, lost in recent.values()) < _HEARD
        if self.silent:
            return changes
        fast = self._explain_recent(recent)
        slow = self._explain_window({number for c in fast for number, _, _ in c.candidate.felt})
        for cause, heavy in [*((c, True) for c in fast), *((c, False) for c in slow)]:
            known = self._findings.get(cause.candidate.element.name)
            if known is not None:
                changes += self._update(known, cause, heavy, now)
            elif cause.settled:
                changes.append(self._take(cause, heavy, now))
        return changes + self._end_absent(now)

    # --- what is there --------------------------------------------------------------------------------------

    def _explain_recent(self, tallies: Mapping[int, Tally]) -> list[Cause]:
        found = []
        for cause in explain(self._candidates, tallies):
            known = self._findings.get(cause.candidate.element.name)
            least = _STILL_HEAVY if known is not None and known.heavy else _HEAVY
            if cause.settled and cause.loss >= least:
                found.append(cause)
        return found

    def _explain_window(self, but: set[int]) -> list[Cause]:
        tallies: dict[int, Tally] = {n: t for n, t in self._outcomes.tallies().items() if n not in but}
        found = explain(self._candidates, tallies)
        self.suspects = [c for c in found if not c.settled]
        return found

    def _take(self, cause: Cause, heavy: bool, now: float) -> Change:
        numbers = [number for number, _, _ in cause.candidate.felt]
        first = self._outcomes.first_loss(numbers, now - (_RECENT if heavy else self._window))
        since = now if first is None else first
        # Before that it was another element, so to speak: it lost nothing.
        self._outcomes.forget(numbers, since)
        if not heavy:
            again = explain(self._candidates, self._outcomes.tallies())
            cause = next((c for c in again if c.candidate is cause.candidate), cause)
        made = Finding(
            cause.candidate, cause.direction, cause.loss, since, now, cause.confidence, cause.sent, cause.lost,
            heavy, now, told=(cause.direction, cause.loss),
        )  # fmt: skip
        self._findings[made.name] = made
        return Change("found", made, now)

    def _update(self, old: Finding, cause: Cause, heavy: bool, now: float) -> list[Change]:
        old.seen = now
        if not cause.settled or (old.heavy and old.quiet_probes):
            return []
        old.heavy = heavy
        if cause.direction is not None or old.direction is None:
            old.loss, old.direction = cause.loss, cause.direction
        old.confidence, old.sent, old.lost = cause.confidence, cause.sent, cause.lost
        direction, loss = old.told
        far = not loss / _STEP <= old.loss <= loss * _STEP
        old.drift = old.drift + 1 if far else 0
        if old.drift < _DRIFT and (old.direction is None or old.direction == direction):
            return []
        old.told, old.drift = (old.direction, old.loss), 0
        return [Change("changed", old, now)]

    # --- what is over ---------------------------------------------------------------------------------------

    def _end_quiet(self, now: float) -> list[Change]:
        over = [f for f in self._findings.values() if f.quiet]
        for finding in over:
            self._outcomes.forget([number for number, _, _ in finding.candidate.felt], now)
        return self._end(over, now)

    def _end_absent(self, now: float) -> list[Change]:
        return self._end([f for f in self._findings.values() if now - f.seen > _ABSENT], now)

    def _end(self, over: Sequence[Finding], now: float) -> list[Change]:
        for finding in over:
            del self._findings[finding.name]
            finding.direction, finding.loss = finding.told  # not what its last moments made of it
        return [Change("cleared", f, now) for f in over]
