"""Distributions as a few numbers.

A percentile is interpolated between the two nearest order statistics (rank `(n-1) * p / 100`), so p0 is the smallest
value, p50 the median and p100 the largest; of one value all are that value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["GRID", "jain", "summary"]

GRID = tuple(range(101))
"""The percentiles of `percentiles`, in order."""


def summary(values: NDArray[Any], *, scale: float = 1.0, digits: int = 3) -> dict[str, Any]:
    """Return count, mean, the usual percentiles by name and all from p0 to p100.

    Args:
        values: any real numbers, in any order; may be empty.
        scale: multiplies every value, for instance 1e-3 for ns to us.
        digits: of the printed values after the point.

    Returns:
        `count`, and unless it is 0: `mean`, `p50`, `p90`, `p99`, `p99_9`, `min`, `max` and `percentiles`, a list of
        101 numbers.
    """
    count = int(values.size)
    if count == 0:
        return {"count": 0}
    ordered = np.sort(values.astype(np.float64)) * scale
    named = np.percentile(ordered, (50, 90, 99, 99.9))
    grid = np.percentile(ordered, GRID)
    return {
        "count": count,
        "mean": round(float(ordered.mean()), digits),
        "min": round(float(ordered[0]), digits),
        "p50": round(float(named[0]), digits),
        "p90": round(float(named[1]), digits),
        "p99": round(float(named[2]), digits),
        "p99_9": round(float(named[3]), digits),
        "max": round(float(ordered[-1]), digits),
        "percentiles": [round(float(value), digits) for value in grid],
    }


def jain(rates: NDArray[Any]) -> float | None:
    """Return Jain's index of fairness, 1/n to 1; none if nothing was sent."""
    values = rates.astype(np.float64)
    square = float((values * values).sum())
    if square == 0.0:
        return None
    return round(float(values.sum()) ** 2 / (values.size * square), 6)
