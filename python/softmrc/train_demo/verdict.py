"""What the demonstration promises, and whether a run kept it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from softmrc.train_demo.plan import overlaps
from softmrc.train_demo.run import Run

__all__ = ["SLOWEST_EXTRA_S", "Verdict", "judge", "outcome"]

SLOWEST_EXTRA_S = 0.25
"""A step may take so much longer than the median while something is broken, unless everything is."""


def outcome(run: Run) -> dict[str, Any]:
    """Return the figures of one run."""
    times = [s.ended - s.began for s in run.steps]
    calm = [
        s.ended - s.began
        for s in run.steps
        if not overlaps(s.began, s.ended, run.incidents, "all planes down")
    ]
    return {
        "backend": run.backend,
        "disturbed": bool(run.incidents),
        "steps": len(run.steps),
        "steps_lost": run.wanted - len(run.steps),
        "failed": run.errors,
        "final_loss": run.steps[-1].loss if run.steps else None,
        "digest": run.digest,
        "seconds": round(run.steps[-1].ended, 3) if run.steps else None,
        "median_step_ms": round(statistics.median(times) * 1e3, 2) if times else None,
        "slowest_step_ms": round(max(times) * 1e3, 2) if times else None,
        "slowest_step_partly_up_ms": round(max(calm) * 1e3, 2) if calm else None,
        "incidents": sum(i.at < run.steps[-1].ended for i in run.incidents) if run.steps else 0,
        "report": run.report,
    }


@dataclass(frozen=True)
class Verdict:
    """What came of the promises."""

    broken: tuple[str, ...]
    """In words; empty: all kept."""

    @property
    def ok(self) -> bool:
        """Every promise was kept."""
        return not self.broken


def judge(disturbed: Run, quiet: Run) -> Verdict:
    """Compare the run in a failing network with the quiet one."""
    mine, calm = outcome(disturbed), outcome(quiet)
    broken = []
    for name, run in (("the quiet run", quiet), ("the disturbed run", disturbed)):
        if run.errors or len(run.steps) != run.wanted:
            broken.append(
                f"{name} lost {run.wanted - len(run.steps)} steps: {'; '.join(run.errors) or 'no error'}"
            )
    if not broken and (mine["digest"] is None or mine["digest"] != calm["digest"]):
        broken.append("the parameters differ from those of the quiet run")
    if not broken and mine["final_loss"] != calm["final_loss"]:
        broken.append(f"the final loss is {mine['final_loss']}, not {calm['final_loss']} as in the quiet run")
    slowest, median = mine["slowest_step_partly_up_ms"], mine["median_step_ms"]
    if slowest is not None and slowest > median + SLOWEST_EXTRA_S * 1e3:
        broken.append(
            f"a step took {slowest:.0f} ms while some plane was up: more than {SLOWEST_EXTRA_S * 1e3:.0f} ms "
            f"above the median of {median:.0f} ms"
        )
    return Verdict(tuple(broken))
