"""The same transfer on the same fabric under the same failures, by softmrc, TCP and MPTCP.

Decides which failures, which promises are checked and how they are judged. The promises are those of issue 5; nothing
here knows what a kind of transfer is good at.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from softmrc.errors import UsageError
from softmrc.lab.course import Course, Outage
from softmrc.lab.transfers import KINDS, Transfer, missing, run_transfer
from softmrc.paper.check import Check, at_least, at_most

if TYPE_CHECKING:
    from softmrc.lab.lab import Lab

__all__ = ["Cut", "Result", "Run", "compare"]

Say = Callable[[str], None]
_SHARE_OF_SUM = 0.92
_SURVIVING, _WITHIN_S = 0.95, 0.1
_WORST_BIN, _BIN_S = 0.5, 0.2
_FULL_WITHIN_S = 2.0


@dataclass(frozen=True, kw_only=True)
class Cut:
    """The failure: a target that fails and is healed.

    Attributes:
        target: as `softmrc lab fail` takes it, for instance "p1".
        silent: packets vanish and nobody is told; False: links go down.
        at, until: seconds after the transfer began to run.
    """

    target: str = "p1"
    silent: bool = False
    at: float = 3.0
    until: float = 6.0

    def __post_init__(self) -> None:
        """Refuse times in the wrong order (UsageError)."""
        if not 1.5 <= self.at < self.until:
            raise UsageError(
                f"a failure at {self.at:g} s, healed at {self.until:g} s: at least 1.5 s, and in this order"
            )

    def left(self, lab: Lab) -> float:
        """Return the share of a host's capacity that the failure leaves: of planes of which it takes all links."""
        links = set(self.links(lab))
        hit = {
            plane
            for plane in range(1, lab.spec.planes + 1)
            if {link.name for link in lab.links_of(f"p{plane}")} <= links
        }
        return 1 - len(hit) / lab.spec.planes

    def links(self, lab: Lab) -> list[str]:
        """Return the names of the links it concerns."""
        return [link.name for link in lab.links_of(self.target)]

    def happen(self, lab: Lab, began: float) -> list[Outage]:
        """Bring the failure about and heal it, on time; returns when it was."""
        from softmrc.lab import faults

        _sleep_until(began + self.at)
        begin = time.monotonic()
        faults.fail(lab, self.target, silent=self.silent)
        try:
            _sleep_until(began + self.until)
        finally:
            faults.heal(lab, self.target)
        what = f"{self.target} {'silent' if self.silent else 'down'}"
        return [Outage(begin, time.monotonic(), self.left(lab), what)]

    def to_json(self) -> dict[str, Any]:
        """Return the fields."""
        return {"target": self.target, "silent": self.silent, "at_s": self.at, "until_s": self.until}


def _sleep_until(when: float) -> None:
    time.sleep(max(0.0, when - time.monotonic()))


@dataclass
class Run:
    """One kind of transfer.

    Attributes:
        kind: one of `KINDS`.
        course: None when it was not run.
        why_not: why.
    """

    kind: str
    course: Course | None = None
    why_not: str = ""

    def figures(self, capacity: float) -> dict[str, Any]:
        """Return what is reported about it; rates are Mbit/s, shares are of the sum of the planes' line rates."""
        if self.course is None:
            return {"kind": self.kind, "why_not": self.why_not}
        course = self.course
        made: dict[str, Any] = {
            "kind": self.kind,
            "goodput_mbps": _round(course.mean() / 1e6),
            "before_mbps": _round(course.before() / 1e6),
            "share_before": _round(course.before() / capacity, 4),
            "longest_stall_ms": _round(course.stall() * 1e3, 0),
            "worst_200ms_share": _round(course.worst(_BIN_S), 4),
            "lost_to_failures_mbytes": _round(course.lost_bytes() / 1e6),
            "resent_bytes": course.resent_bytes,
            "outages": [self._outage(outage) for outage in course.outages],
            "counters": course.more,
            "goodput": course.goodput.to_json(course.goodput.start),
        }
        return made

    def _outage(self, outage: Outage) -> dict[str, Any]:
        assert self.course is not None
        course = self.course
        return {
            "what": outage.what,
            "begin_s": _round(outage.begin - course.goodput.start, 3),
            "end_s": _round(outage.end - course.goodput.start, 3),
            "share_left": outage.left,
            "during_mbps": _round(course.during(outage) / 1e6),
            "back_after_ms": _round(course.back_after(outage, _SURVIVING) * 1e3, 0),
            "full_after_ms": _round(course.full_after(outage, _SURVIVING) * 1e3, 0),
        }


@dataclass
class Result:
    """A comparison.

    Attributes:
        lab: what the fabric was, in words and numbers.
        cut: the failure.
        capacity: sum of the planes' line rates, bit/s.
        runs: one a kind.
        checks: of softmrc's runs.
    """

    lab: dict[str, Any]
    cut: Cut
    capacity: float
    runs: list[Run] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every promise holds and at least one was judged."""
        return bool(self.checks) and all(check.met for check in self.checks if check.decides)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return {
            "ok": self.ok,
            "lab": self.lab,
            "failure": self.cut.to_json(),
            "capacity_mbps": self.capacity / 1e6,
            "runs": [run.figures(self.capacity) for run in self.runs],
            "checks": [check.as_dict() for check in self.checks],
        }


def compare(
    lab: Lab,
    *,
    kinds: Sequence[str] = KINDS,
    cut: Cut | None = None,
    after: float = 3.0,
    source: str = "h0",
    sink: str | None = None,
    say: Say = lambda _: None,
) -> Result:
    """Run each kind of transfer once.

    Args:
        lab: where; its faults are healed first.
        kinds: of `KINDS`, in order.
        cut: the failure; None: the first plane goes down for three seconds.
        after: seconds the transfers go on after the repair.
        source: the sending host.
        sink: the receiving one; None: the last.
        say: told what is being done.

    Raises:
        UsageError: no such kind or host, or links without a rate limit.
        MrcError: a program failed.
    """
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise UsageError(f"no kind {unknown[0]!r}; there is {', '.join(KINDS)}")
    if lab.spec.rate_bps is None:
        raise UsageError("links of this lab have no rate: softmrc lab up --rate 200M")
    cut = cut or Cut()
    transfer = Transfer(source, sink or lab.hosts[-1], cut.until + after)
    for host in (transfer.source, transfer.sink):
        if host not in lab.hosts:
            raise UsageError(f"no host {host}: {lab.hosts[0]} to {lab.hosts[-1]}")
    cut.links(lab)  # refuses a target that is not there before anything runs
    facts = {
        "name": lab.name, "mode": lab.state.mode, "planes": lab.spec.planes, "rate_bps": lab.spec.rate_bps,
        "mtu": lab.spec.mtu, "trimming": lab.fabric().trimming, "paths": len(lab.paths(transfer.source, transfer.sink)),
        "from": transfer.source, "to": transfer.sink,
    }  # fmt: skip
    result = Result(facts, cut, float(lab.spec.rate_bps * lab.spec.planes))
    for kind in kinds:
        if why := missing(lab, kind):
            result.runs.append(Run(kind, why_not=why))
            continue
        say(f"{kind}: {transfer.seconds:g} s")
        result.runs.append(Run(kind, _one(lab, kind, transfer, cut)))
    for run in result.runs:
        if run.course is not None and run.kind.startswith("softmrc"):
            result.checks += _promises(run.kind, run.course, result.capacity)
    return result


def _one(lab: Lab, kind: str, transfer: Transfer, cut: Cut) -> Course:
    outages: list[Outage] = []
    course = run_transfer(lab, kind, transfer, lambda began: outages.extend(cut.happen(lab, began)))
    course.outages = outages
    return course


def _promises(kind: str, course: Course, capacity: float) -> list[Check]:
    found = [
        at_least(f"{kind}: goodput before, of the sum of planes", course.before() / capacity, _SHARE_OF_SUM)
    ]
    for outage in course.outages:
        back, full = course.back_after(outage, _SURVIVING), course.full_after(outage)
        found += [
            at_most(f"{kind}: back at 0.95 of the surviving planes, ms", back * 1e3, _WITHIN_S * 1e3),
            at_least(f"{kind}: worst 200 ms, of before", course.worst(_BIN_S), _WORST_BIN),
            at_most(f"{kind}: full rate after the repair, ms", full * 1e3, _FULL_WITHIN_S * 1e3),
            at_most(f"{kind}: queue pairs in error", float(course.more["qp_errors"]), 0),
        ]
    return found


def _round(value: float, digits: int = 1) -> float | None:
    return None if math.isnan(value) or math.isinf(value) else round(value, digits)
