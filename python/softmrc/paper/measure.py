"""Numbers out of measured series: plateaus, worst windows, gaps, fairness. Pure functions over arrays.

A series is bytes a sample interval, as the simulator's recorder gives it; `dt_ns` is that interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "clusters_at_fractions",
    "gbps",
    "jain",
    "longest_below_ns",
    "losses",
    "mean_rate",
    "median_rate",
    "rebin",
    "span",
    "worst_window",
]  # fmt: skip

Floats = NDArray[np.float64]


def gbps(series: Any, dt_ns: float) -> Floats:
    """Return a series of bytes an interval as Gb/s.

    Args:
        series: Bytes delivered in each interval.
        dt_ns: Length of an interval in ns, above 0.
    """
    return np.asarray(series, dtype=np.float64) * 8.0 / dt_ns


def span(time_ns: Any, begin_ns: float, end_ns: float) -> slice:
    """Return the samples whose whole interval lies in [begin_ns, end_ns].

    Args:
        time_ns: End of each interval, ascending.
        begin_ns: Start of the span.
        end_ns: End of the span.
    """
    times = np.asarray(time_ns, dtype=np.float64)
    dt = times[1] - times[0] if len(times) > 1 else times[0] if len(times) else 0.0
    first = int(np.searchsorted(times, begin_ns + dt - 0.5, side="left"))
    return slice(first, int(np.searchsorted(times, end_ns + 0.5, side="right")))


def mean_rate(series: Any, time_ns: Any, begin_ns: float, end_ns: float) -> float:
    """Return the mean rate in Gb/s over [begin_ns, end_ns]; NaN where there is no sample."""
    part = np.asarray(series, dtype=np.float64)[span(time_ns, begin_ns, end_ns)]
    return float(np.mean(part)) * 8.0 / _dt(time_ns) if len(part) else math.nan


def median_rate(series: Any, time_ns: Any, begin_ns: float, end_ns: float) -> float:
    """Return the median over the samples of [begin_ns, end_ns], in Gb/s; NaN where there is none."""
    part = np.asarray(series, dtype=np.float64)[span(time_ns, begin_ns, end_ns)]
    return float(np.median(part)) * 8.0 / _dt(time_ns) if len(part) else math.nan


def _dt(time_ns: Any) -> float:
    times = np.asarray(time_ns, dtype=np.float64)
    return float(times[1] - times[0]) if len(times) > 1 else float(times[0])


def rebin(series: Any, size: int) -> Floats:
    """Return sums over `size` samples each; an incomplete last bin is left out.

    Raises:
        ValueError: size is below 1.
    """
    if size < 1:
        raise ValueError(f"a bin holds at least one sample, not {size}")
    values = np.asarray(series, dtype=np.float64)
    whole = len(values) // size * size
    sums: Floats = values[:whole].reshape(-1, size).sum(axis=1)
    return sums


def worst_window(series: Any, size: int) -> float:
    """Return the smallest sum over `size` samples in a row, wherever it starts; NaN when there are fewer."""
    values = np.asarray(series, dtype=np.float64)
    if size < 1 or len(values) < size:
        return math.nan
    total = np.concatenate(([0.0], np.cumsum(values)))
    return float(np.min(total[size:] - total[:-size]))


def longest_below_ns(series: Any, dt_ns: float, level_gbps: float) -> float:
    """Return the longest time in a row during which the rate stayed below a level.

    Args:
        series: Bytes an interval.
        dt_ns: Length of an interval.
        level_gbps: The level; samples at it count as above.
    """
    longest = run = 0
    for low in gbps(series, dt_ns) < level_gbps:
        run = run + 1 if low else 0
        longest = max(longest, run)
    return longest * dt_ns


def jain(rates: Sequence[float] | Floats) -> float:
    """Return Jain's fairness index of some rates: 1 when all are equal, 1/n when one has everything."""
    values = np.asarray(rates, dtype=np.float64)
    squares = float(np.sum(values * values))
    return float(np.sum(values)) ** 2 / (len(values) * squares) if squares > 0 else math.nan


def clusters_at_fractions(fractions: Sequence[float] | Floats, width: float = 0.06) -> float:
    """Return the share of rates (as fractions of line) that lie within `width` of 1, 1/2, 1/3 or 1/4."""
    values = np.asarray(fractions, dtype=np.float64)
    if not len(values):
        return math.nan
    near = np.min(np.abs(values[:, None] - 1.0 / np.arange(1, 5)[None, :]), axis=1)
    return float(np.mean(near <= width))


def losses(series: Mapping[str, Any]) -> Floats:
    """Return the packets sent again in each interval for another reason than a trim: those a NIC counts as lost.

    Args:
        series: The recorder's columns; "rtx" and "trims" are used.
    """
    again = np.asarray(series["rtx"], dtype=np.float64) - np.asarray(series["trims"], dtype=np.float64)
    return np.maximum(again, 0.0)
