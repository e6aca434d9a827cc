"""The picture at the end: goodput over time of both runs, with the failures marked."""

from __future__ import annotations

from typing import Any

from softmrc.demo import metrics
from softmrc.demo.plan import SETTLE_S
from softmrc.demo.run import Run

__all__ = ["draw"]

_RED, _ORANGE, _BLACK = "#c0392b", "#e67e22", "#222222"


def draw(multi: Run, single: Run, path: str) -> None:
    """Write the picture.

    Raises:
        ImportError: matplotlib is not installed (extra "plot").
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 1, figsize=(10, 7), sharex=True, layout="constrained")
    titles = (
        f"MRC: {multi.plan.planes} planes x {multi.plan.evs} paths",
        "the same transfer pinned to one path (what ordinary RC does)",
    )
    for axis, run, title in zip(axes, (multi, single), titles, strict=True):
        _one(axis, run, title)
    axes[1].set_xlabel("seconds from the first data")
    figure.suptitle(f"softmrc demo, seed {multi.plan.seed}: goodput at the receiver, 100 ms bins")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _one(axis: Any, run: Run, title: str) -> None:
    times = run.plan.times
    values = [v * 8 / 1e6 for v in metrics.bins(run.placed, run.start_ns, run.at_ns(times.end))]
    edges = [i / 10 for i in range(len(values) + 1)]
    axis.stairs(values, edges, fill=True, alpha=0.25, color="#2c7fb8")
    axis.stairs(values, edges, color="#2c7fb8", linewidth=1.5)
    before = metrics.rate(run.placed, run.at_ns(min(SETTLE_S, times.cut / 2)), run.at_ns(times.cut)) * 8 / 1e6
    axis.axvspan(times.cut, times.heal, color=_RED, alpha=0.12, label=f"plane {run.plan.harm.cut_plane} cut")
    if not run.pinned:
        fair = before * (run.planes - 1) / run.planes
        axis.plot(
            [times.cut, times.heal],
            [fair, fair],
            "--",
            color=_RED,
            linewidth=1,
            label="surviving planes' share",
        )
        axis.axvspan(times.lossy, times.lossy_end, color=_ORANGE, alpha=0.15, label="one path loses 5 %")
        axis.axvspan(times.black, times.black_end, ymax=0.06, color=_BLACK, alpha=0.6, label="one path black")
    axis.set_title(title, fontsize=10)
    axis.set_ylabel("Mbit/s")
    axis.set_ylim(bottom=0, top=max([*values, before, 1.0]) * 1.2)
    axis.set_xlim(0, times.end)
    axis.legend(loc="upper right", fontsize=8, ncols=4, framealpha=0.9)
    axis.grid(alpha=0.25)
