"""Which figures there are, which of them a result has data for, and the way from a name to a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from softmrc.errors import UsageError
from softmrc.plot import distributions, over_time, style
from softmrc.plot.source import Source

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["KINDS", "draw", "draw_all", "draw_sweep", "kinds"]

KINDS: dict[str, tuple[str, Callable[[Source], Figure], str]] = {
    "goodput": ("goodput of flows or groups, and of planes, over time", over_time.goodput, "[sample]"),
    "fct": ("distribution of completion times", distributions.fct, "flows that end"),
    "queue": ("queues of watched links over time", over_time.queues, "[sample] with links"),
    "ev": ("when EVs changed their state", over_time.ev, "an EV that changed its state"),
    "heat": ("how busy watched links were over time", over_time.heat, "[sample] with links"),
    "steps": ("rate of a job, step by step, incidents shaded", over_time.steps, "a job with steps"),
}
"""Name: what it shows, how it is drawn, what the scenario needs for it."""


def kinds(source: Source) -> list[str]:
    """Return the figures that a result has data for."""
    made = source.document
    has = {
        "goodput": bool(source.series("flow_bytes") or source.series("group_bytes")),
        "fct": made["completion_us"]["all"]["count"] > 0,
        "queue": bool(source.series("link_max_queue") or source.series("link_queue_bytes")),
        "ev": made["paths"]["changes"] > 0,
        "heat": bool(source.series("link_bytes")),
        "steps": bool(made.get("steps")) and made["steps"]["complete"] > 0,
    }
    return [name for name in KINDS if has[name]]


def draw(source: Source, kind: str) -> Figure:
    """Return one figure of a result.

    Raises:
        UsageError: no such kind, or the result has no data for it.
    """
    if kind not in KINDS:
        raise UsageError(
            f"no figure {kind!r}; there is {', '.join(KINDS)}, and sweep for the file of a sweep"
        )
    if kind not in kinds(source):
        raise UsageError(f"{source.document['name']} has no data for {kind!r}: it needs {KINDS[kind][2]}")
    return KINDS[kind][1](source)


def draw_all(source: Source, folder: str | os.PathLike[str], suffix: str = ".svg") -> list[Path]:
    """Write every figure a result has data for and return the files."""
    return [style.save(draw(source, kind), Path(folder) / f"{kind}{suffix}") for kind in kinds(source)]


def draw_sweep(file: str | os.PathLike[str], metric: str) -> Figure:
    """Return the comparison of a sweep's cells.

    Args:
        file: the sweep's Parquet file.
        metric: one of its columns.

    Raises:
        UsageError: the file cannot be read, or no cell has that metric.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(file)
    try:
        rows = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowInvalid) as error:
        raise UsageError(f"cannot read {path} as the Parquet file of a sweep: {error}") from None
    if not rows or "case" not in rows[0]:
        raise UsageError(f"{path} is no sweep: it has no column 'case'")
    return distributions.sweep(rows, metric, path.stem)
