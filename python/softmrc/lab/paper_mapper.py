"""The study of who finds what is bad (R25): faults of every kind, gray ones too, and what denying a port leaves."""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass

from softmrc.lab import faults
from softmrc.lab.course import Bins
from softmrc.lab.flows import Flow
from softmrc.lab.lab import Lab
from softmrc.lab.mapper import Prober
from softmrc.lab.paper_site import Site
from softmrc.lab.soft import SoftLab
from softmrc.paper.check import Check, Verdict, at_most, between, equal, shown
from softmrc.srv6 import Denylist

__all__ = ["localise"]

_EVERY_S = 1e-3
"""Each port sends a probe so often, as in the paper."""
_SOFT_EVERY_S = 1e-2
"""Likewise on the user-space switch, which takes each probe through one thread five times."""
_DEAD = ("h1.p2", "h6.p4", "p3.t0-1.t1-2", "p1.t0-0.t1-3", "p4.t0-0", "p1.t1-3", "p2.t1-0", "p2")
_GRAY = (("p2.t0-0.t1-1", 0.5), ("h3.p1", 0.2), ("p3.t1-1", 0.1), ("h5.p3", 0.05), ("h2.p2", 0.02))
_LEAST_GRAY = ("p4.t0-1.t1-0", 0.01)
_PATIENCE = 20.0
_LEFT_S, _QUARTER_S = 1.5, 0.25


@dataclass(frozen=True)
class _Found:
    """What was said about a fault: whether exactly it, and how long after it was in force, seconds."""

    right: bool
    after: float


def localise(site: Site) -> Verdict:
    """R25: dead elements of every kind, gray loss from 1 to 50 %, and a lossy port that is denied."""
    with site.lab(planes=4, t0=2, t1=4, hosts=8) as lab:
        site.say("R25: what is bad, and how soon it is known")
        gray_faults = _GRAY if site.effort.seeds == 1 else (*_GRAY, _LEAST_GRAY)
        pause = _SOFT_EVERY_S if isinstance(lab, SoftLab) else _EVERY_S
        with Prober(lab, lab.spec.planes * lab.spec.hosts / pause) as prober:
            for _ in prober.run(0.5):
                pass
            dead = [_one(lab, prober, name, 0.0) for _ in range(site.effort.seeds) for name in _DEAD]
            gray = {loss: _one(lab, prober, name, loss) for name, loss in gray_faults}
            left, others = _deny(site, lab, prober)
    every = [*dead, *gray.values()]
    times = [f.after * 1e3 for f in dead if f.right]
    slow = {loss: f.after if f.right else math.nan for loss, f in gray.items()}
    checks: list[Check] = [
        equal("named exactly, share of faults", sum(f.right for f in every) / len(every), 1.0),
        at_most("dead elements: slowest, ms", max(times, default=math.nan), 50, "10-50"),
        shown("dead elements: median, ms", statistics.median(times) if times else math.nan),
        at_most("gray loss: slowest, ms", max(slow.values()) * 1e3, 50, "10-50"),
        *(shown(f"{loss:.0%} loss, ms", after * 1e3) for loss, after in slow.items()),
        between("lossy port denied: share of the rate before", left, 0.75 - 0.02, 0.75 + 0.02, "(p-1)/p = 0.75"),
        equal("EVs of other planes denied", others, 0),
    ]  # fmt: skip
    ours = (
        f"{sum(f.right for f in every)} of {len(every)} named; dead after {max(times, default=math.nan):.0f} ms at "
        f"most; 50 % {slow[0.5] * 1e3:.0f} ms, 2 % {slow[0.02]:.1f} s; port denied: {left:.3f}"
    )
    return Verdict(checks, ours, "times count from when the fault is in force; rates are medians of 0.25 s")


def _one(lab: Lab, prober: Prober, name: str, loss: float) -> _Found:
    """Break something, wait until it is named, heal it, wait until that is seen."""
    faults.fail(lab, name, loss=loss)
    began = time.monotonic()
    found = next((c for c in prober.run(_PATIENCE) if c is not None and c.what == "found"), None)
    right = found is not None and found.finding.name == name
    faults.heal(lab)
    for _ in prober.run(_PATIENCE):
        if not prober.findings:
            break
    return _Found(right, found.at - began if found is not None else math.nan)


def _deny(site: Site, lab: Lab, prober: Prober) -> tuple[float, int]:
    """Deny a port that loses 2 %, under a flow; returns its share of the rate before, and EVs denied elsewhere."""
    file = Denylist.beside(lab.fabric_file)
    hold = max(2.0, site.effort.hold)
    lasts = 0.8 + hold + _PATIENCE / 2 + _LEFT_S + hold
    with site.flows(lab, [Flow(source="h0", sink="h7")], lasts) as running:
        time.sleep(0.8)
        before = site.wait(hold)
        faults.fail(lab, "h7.p1", loss=0.02)
        for _ in prober.run(_PATIENCE / 2):
            if prober.findings:
                break
        prober.denylist().write(file)
        site.wait(_LEFT_S)
        after = site.wait(hold)
        (result,) = running.results()
    Denylist().write(file)
    faults.heal(lab)
    others = [e for e in result.ev_changes("denied") if e["plane"] != 1]
    return _usual(result.goodput, *after) / _usual(result.goodput, *before), len(others)


def _usual(bins: Bins, begin: float, end: float) -> float:
    """Return the median rate of quarters of a second, which a process that once waits for a core does not change."""
    return statistics.median(rate for _, rate in bins.windows(begin, end, _QUARTER_S))
