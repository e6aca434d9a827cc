"""Studies of a synchronous job: a T1 that drops everything silently (R16), links that flap in the background (R17)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from softmrc.lab import faults
from softmrc.lab.flows import LinkWatch
from softmrc.lab.job import Job
from softmrc.lab.lab import Lab
from softmrc.lab.paper_paths import uplinks
from softmrc.lab.paper_site import Site
from softmrc.paper.check import Verdict, at_least, at_most, between, shown

__all__ = ["flaps", "silent_t1"]

_RATE_BPS = 50_000_000
_STEP_BYTES = 1 << 20
_QUEUE_PAIRS = 32
"""Of R16, from each host to the next: one of all is 0.8 points of a share that may differ by 3."""
_FLAP_QUEUE_PAIRS = 8
_UPLINKS = 4
_FIELDS: dict[str, int] = {"planes": 4, "t0": 2, "t1": _UPLINKS, "hosts": 4, "rate_bps": _RATE_BPS}
_BROKEN = 3  # intervals
_PAPER_FLAPS = 4.2  # a minute, of all links together
_RING = ("h0", "h2", "h1", "h3")
"""Every hop crosses a T1."""
_KNOBS: dict[str, int] = {"evs_per_plane": 4, "ev_count": 4, "ev_backups": 12}
"""An active EV a plane, on one of four paths, and the others as backups: the paper's share of queue pairs touched."""


@dataclass
class _Steps:
    """When each step ended, and how long it took."""

    ends: list[float] = field(default_factory=list)
    took: list[float] = field(default_factory=list)

    def rate(self, begin: float, end: float) -> float:
        """Return steps per second of those that lie between two times."""
        inside = [t for e, t in zip(self.ends, self.took, strict=True) if begin <= e - t and e <= end]
        return len(inside) / sum(inside) if inside else 0.0


def _run(job: Job, until: float, steps: _Steps, each: Callable[[], None] = lambda: None) -> None:
    while time.monotonic() < until:
        each()
        took = job.step(_STEP_BYTES)
        steps.ends.append(time.monotonic())
        steps.took.append(took)


# --- R16 ----------------------------------------------------------------------------------------------------


def silent_t1(site: Site) -> Verdict:
    """R16: a T1 drops everything silently for some intervals and forwards again."""
    interval = max(1.0, site.effort.hold)
    site.say("R16: a T1 drops everything silently during a job")
    steps = _Steps()
    with site.lab(**_FIELDS) as lab, Job(lab, _RING, _QUEUE_PAIRS, **_KNOBS) as job:
        dead = [(link, "a") for t0 in (0, 1) for link in uplinks(lab, 1, t0) if link.b_node == "p1.t1-1"]
        with LinkWatch(lab, dead, 0.02) as watch:
            _run(job, time.monotonic() + 0.7, steps)
            clean = time.monotonic()
            _run(job, clean + 2 * interval, steps)
            looks = [job.look()]
            broken = time.monotonic()
            fault = faults.fail(lab, "p1.t1-1", silent=True)
            for i in range(1, _BROKEN + 1):
                _run(job, broken + i * interval, steps)
                looks.append(job.look())
            faults.heal(lab, fault.number)
            healed = time.monotonic()
            _run(job, healed + 2 * interval, steps)
            after = job.look()
    base = steps.rate(clean, broken)
    spans = [(broken + i * interval, broken + (i + 1) * interval) for i in range(_BROKEN)]
    before = looks[0]
    found = _Silent(
        rates=[steps.rate(*span) / base for span in spans],
        lost=[_lost(a, b) for a, b in pairwise(looks)],
        swallowed=[sum(watch.sent(*span)) for span in spans],
        restored=steps.rate(healed, healed + 2 * interval) / base,
        touched=_share(b["lost"] > a["lost"] for a, b in zip(before, looks[-1], strict=True)),
        on_it=_share(any(p.startswith("p1 ") and " t1-1 " in p for p in qp["active"]) for qp in before),
        bad_after=sum(qp["bad"] for qp in after),
    )
    return _judge_silent(found)


@dataclass(frozen=True)
class _Silent:
    """What R16 measured, interval by interval: shares of the rate before, data packets lost, bytes towards the T1."""

    rates: list[float]
    lost: list[int]
    swallowed: list[int]
    restored: float
    touched: float
    on_it: float
    bad_after: int


def _lost(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> int:
    """Return the data packets that queue pairs found lost in between."""
    return sum(int(b["lost"]) - int(a["lost"]) for a, b in zip(before, after, strict=True))


def _share(flags: Iterable[bool]) -> float:
    found = list(flags)
    return sum(found) / len(found)


def _judge_silent(found: _Silent) -> Verdict:
    rates, lost = found.rates, found.lost
    later = max(lost[1:]) / max(lost[0], 1)
    swallowed = max(found.swallowed[1:]) / max(found.swallowed[0], 1)
    checks = [
        between(
            "share of queue pairs that lost a packet, of those with an EV over it",
            found.touched, found.on_it - 0.03, found.on_it + 0.03, "~0.25",
        ),
        shown("share of queue pairs with an EV over it (1/U by the formula)", found.on_it, "~0.25"),
        at_least("job rate from the second interval on, of before", min(rates[1:]), 0.98, "0.986"),
        shown("job rate in the first interval, of before", rates[0], "0.81"),
        at_most("data packets lost later, of the first interval", later, 0.1, "0.07"),
        shown("bytes swallowed later, probes and all, of the first interval", swallowed),
        at_least("job rate after recovery, of before", found.restored, 0.98, "no dip"),
        at_most("active EVs still given up at the end", float(found.bad_after), 0, "0"),
    ]  # fmt: skip
    ours = (
        f"{100 * found.touched:.0f} % of queue pairs touched ({100 * found.on_it:.0f} % had an EV over it); job "
        f"{rates[0]:.2f} in the first interval, {min(rates[1:]):.3f} after; later losses {100 * later:.0f} %; "
        f"recovered {found.restored:.3f}"
    )
    note = f"ring of 4 hosts, {4 * _QUEUE_PAIRS} queue pairs, one active EV a plane of {_UPLINKS} paths, others backups"
    return Verdict(
        checks, ours, note, {"rates": [1.0, 1.0, *rates, found.restored], "lost": [float(n) for n in lost]}
    )


# --- R17 ----------------------------------------------------------------------------------------------------


def flaps(site: Site) -> Verdict:
    """R17: T0-T1 links flap at random times; each is down for a while."""
    seconds = 6 * max(1.0, site.effort.hold)
    mean_gap, down = 0.6, (0.1, 1.0)  # the paper's 4.2 a minute over a fleet and 1-10 s, a tenth of the time
    lot = random.Random(17)
    site.say("R17: links flap during a job")
    quiet, rough = _Steps(), _Steps()
    hit: list[int] = []
    with site.lab(**_FIELDS) as lab, Job(lab, _RING, _FLAP_QUEUE_PAIRS, evs_per_plane=4) as job:
        _run(job, time.monotonic() + 0.7, quiet)
        # Quiet and rough stretches in turn: a busy machine is the same for both.
        stretches = 3
        flapped = 0
        for _ in range(stretches):
            began = time.monotonic()
            _run(job, began + seconds / stretches, quiet)
            flapper = _Flapper(lab, lot, mean_gap, down, job)
            _run(job, time.monotonic() + seconds / stretches, rough, flapper.turn)
            flapper.end()
            hit += flapper.lost
            flapped += flapper.count
    quiet_rate, rough_rate = (len(s.took[3:]) / sum(s.took[3:]) for s in (quiet, rough))
    change = rough_rate / quiet_rate - 1
    ranked = sorted(hit) or [0]
    median, p99 = float(ranked[len(ranked) // 2]), float(ranked[int(0.99 * (len(ranked) - 1))])
    # What a flap costs is measured at many times the paper's rate and counted at the paper's.
    cost = (sum(rough.took) - len(rough.took) / quiet_rate) / max(flapped, 1)
    checks = [
        at_most("job time lost to 4.2 flaps a minute, share", cost * _PAPER_FLAPS / 60, 0.005, "no effect"),
        shown("job time lost to a flap, ms", cost * 1e3),
        shown("job rate with flaps as often as here, of quiet", 1 + change),
        at_most("packets lost of a queue pair that a flap touched, median", median, 1, "1"),
        at_most("likewise, 99th percentile", p99, 4),
        shown("flaps", float(flapped)),
    ]
    ours = (
        f"a flap costs the job {cost * 1e3:.0f} ms ({100 * cost * _PAPER_FLAPS / 60:.2f} % at 4.2 a minute); "
        f"a touched queue pair lost {median:.0f} (p99 {p99:.0f})"
    )
    return Verdict(
        checks, ours, "flaps take both ends of a T0-T1 link down; all EVs active, as many as paths"
    )


class _Flapper:
    """Sets links down at random times and up again, between steps; counts what each flap cost each queue pair."""

    def __init__(self, lab: Lab, lot: random.Random, gap: float, down: tuple[float, float], job: Job) -> None:
        self.lab, self.lot, self.gap, self.down, self.job = lab, lot, gap, down, job
        self.links = [link.name for link in lab.links if link.kind == "fabric"]
        self.next = time.monotonic() + lot.expovariate(1 / gap)
        self.open: list[tuple[float, int]] = []
        self.before: list[int] = []
        self.lost: list[int] = []
        self.count = 0

    def turn(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        for until, number in [o for o in self.open if o[0] <= now]:
            faults.heal(self.lab, number)
            self.open.remove((until, number))
        if now >= self.next:
            self._settle()
            fault = faults.fail(self.lab, self.lot.choice(self.links))
            self.open.append((now + self.lot.uniform(*self.down), fault.number))
            self.next = now + self.lot.expovariate(1 / self.gap)
            self.count += 1

    def _settle(self) -> None:
        """Add what the queue pairs lost since the last flap."""
        now = [qp["lost"] for qp in self.job.look()]
        self.lost += [b - a for a, b in zip(self.before or now, now, strict=True) if b > a]
        self.before = now

    def end(self) -> None:
        """Heal everything."""
        self._settle()
        faults.heal(self.lab)
        self.open.clear()
