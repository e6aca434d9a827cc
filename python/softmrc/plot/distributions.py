"""Figures of distributions: completion times of one run, and a sweep's cells side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from softmrc.errors import UsageError
from softmrc.plot import style
from softmrc.plot.source import Source

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["fct", "sweep"]


def fct(source: Source) -> Figure:
    """Draw the cumulative distribution of completion times, one line a group."""
    made, axes = style.figure()
    groups = dict(source.document["completion_us"]["groups"])
    whole = source.document["completion_us"]["all"]
    if len(groups) > 1:
        groups["all"] = whole
    share = [*(np.arange(100) / 100), 0.999, 1.0]
    for i, (name, got) in enumerate(groups.items()):
        label = f"{name}: n {got['count']}, p99 {got['p99']:g} us"
        values = [*got["percentiles"][:100], got["p99_9"], got["max"]]
        axes[0].plot(values, share, linewidth=1.5, label=label, **style.line_look(i))
    if whole["max"] > 20 * max(whole["min"], 1e-3):
        axes[0].set_xscale("log")
    axes[0].set_ylim(0, 1.01)
    axes[0].set_xlabel("completion time, posted to last byte delivered (us)")
    axes[0].set_ylabel("share of flows")
    style.legend(axes[0])
    made.suptitle(source.title)
    return made


def sweep(rows: Sequence[Mapping[str, Any]], metric: str, title: str) -> Figure:
    """Draw one metric of a sweep: a bar with its mean for each case, a dot for each seed.

    Args:
        rows: cells, with `case` and the metric.
        metric: name of a column with numbers.
        title: of the figure.

    Raises:
        UsageError: no cell has that metric.
    """
    cases: dict[str, list[float]] = {}
    for row in rows:
        value = row.get(metric)
        if isinstance(value, int | float) and not isinstance(value, bool):
            cases.setdefault(str(row["case"]), []).append(float(value))
    if not cases:
        numbers = sorted({k for row in rows for k, v in row.items() if isinstance(v, int | float)})
        raise UsageError(f"no cell of the sweep has {metric!r}; there is {', '.join(numbers) or 'nothing'}")
    made, axes = style.figure(height=max(2.0, 0.38 * len(cases) + 1.0))
    for i, values in enumerate(cases.values()):
        color = style.COLORS[i % len(style.COLORS)]
        axes[0].barh(i, float(np.mean(values)), color=color, alpha=0.45, height=0.65)
        axes[0].scatter(
            values, np.full(len(values), i), color=color, s=16, zorder=3, edgecolor="white", linewidth=0.4
        )
    axes[0].set_yticks(range(len(cases)), list(cases))
    axes[0].invert_yaxis()
    axes[0].set_xlim(left=0)
    axes[0].set_xlabel(f"{metric} (bar: mean, dots: seeds)")
    made.suptitle(title)
    return made
