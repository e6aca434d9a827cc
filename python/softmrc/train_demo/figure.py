"""The figure at the end: when steps of each run ended and how long they took, with the failures behind them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from softmrc.plot.style import COLORS, INCIDENT, figure, legend, save
from softmrc.train_demo.run import Run

__all__ = ["draw"]


def draw(runs: Sequence[tuple[str, Run]], path: str | os.PathLike[str]) -> None:
    """Write the figure: step times over time, and the loss over steps.

    Args:
        runs: their names, in the order of the legend.
        path: where to; its suffix names the format.

    Raises:
        UsageError: matplotlib is not installed, or the suffix is of no format.
    """
    fig, (above, below) = figure(2, 1, width=10.0, height=3.2)
    above.get_shared_x_axes()
    for color, (name, run) in zip(COLORS, runs, strict=False):
        ends = [s.ended for s in run.steps]
        above.plot(
            ends, [(s.ended - s.began) * 1e3 for s in run.steps], ".-", color=color, label=name, lw=0.8, ms=3
        )
        below.plot(ends, [s.loss for s in run.steps], color=color, label=name, lw=1.2)
    last = max((s.ended for _, run in runs for s in run.steps[-1:]), default=0.0)
    disturbed = next((run for _, run in runs if run.incidents), None)
    for incident in disturbed.incidents if disturbed else ():
        if incident.at >= last:
            continue
        for axis in (above, below):
            axis.axvspan(incident.at, min(incident.until, last), color=INCIDENT, alpha=0.1, lw=0)
        above.text(
            incident.at, 0.98, f" {incident.kind}", transform=above.get_xaxis_transform(), rotation=90, fontsize=6,
            va="top", ha="left", color=INCIDENT,
        )  # fmt: skip
    above.set_yscale("log")
    above.set_ylabel("step, ms")
    below.set_ylabel("loss of rank 0")
    below.set_xlabel("seconds")
    legend(above)
    save(fig, Path(path))
