"""Steps of a synchronous job: how long each took; the slowest node sets the pace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from softmrc.sim.result.curve import RateCurve, from_steps
from softmrc.sim.result.percentiles import summary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from softmrc.sim.run import Outcome
    from softmrc.sim.workload import Workload

__all__ = ["step_curve", "step_ends", "steps_section"]


def step_ends(workload: Workload, outcome: Outcome) -> tuple[list[str], NDArray[np.int64], int]:
    """Return the names and ends of the steps that are complete, and when the first task of all could start.

    A step is complete when its last task is; steps after one that is not are left out.
    """
    status = outcome.tasks["status"]
    finished = np.maximum(outcome.tasks["delivered_ns"], outcome.tasks["acked_ns"])
    ready = outcome.tasks["ready_ns"]
    begin = int(ready[ready >= 0].min(initial=np.iinfo(np.int64).max)) if bool((ready >= 0).any()) else 0
    names: list[str] = []
    ends: list[int] = []
    for name, tasks in workload.steps or ():
        if tasks.size == 0 or bool((status[tasks] != 1).any()):
            break
        names.append(name)
        ends.append(int(finished[tasks].max()))
    # Steps may be listed out of order; a step cannot end before the ones it follows.
    return names, np.maximum.accumulate(np.array(ends, dtype=np.int64)), begin


def step_curve(workload: Workload, outcome: Outcome) -> RateCurve | None:
    """Return steps per second; none for a job without steps, or with none complete."""
    names, ends, begin = step_ends(workload, outcome)
    return from_steps(ends, begin) if names else None


def steps_section(workload: Workload, outcome: Outcome) -> dict[str, Any] | None:
    """Return the length of each step and their distribution; none for a job without steps."""
    if not workload.steps:
        return None
    names, ends, begin = step_ends(workload, outcome)
    edges = np.concatenate(([np.int64(begin)], ends))
    lengths = np.diff(edges)
    return {
        "total": len(workload.steps),
        "complete": len(names),
        "begin_ns": begin,
        "names": names,
        "end_ns": [int(end) for end in ends],
        "length_us": summary(lengths, scale=1e-3),
    }
