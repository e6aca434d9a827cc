"""What is computed from the samples of a run: pure functions on cumulative series.

A series is a list of (time in ns, counter) in order of time. Between samples the counter is taken as a
straight line.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

__all__ = ["BIN_NS", "bins", "last_before", "min_bin_after_cut_ratio", "rate", "recovered_share", "value_at"]

Series = Sequence[tuple[int, float]]

BIN_NS = 100_000_000
GRACE_NS = 100_000_000
"""After a cut the goodput is judged from here on."""


def value_at(series: Series, at_ns: int) -> float:
    """Return the counter at a time; before the first sample it is the first, after the last the last."""
    if not series:
        return 0.0
    i = bisect_right(series, at_ns, key=lambda s: s[0])
    if i == 0:
        return float(series[0][1])
    if i == len(series):
        return float(series[-1][1])
    (t0, v0), (t1, v1) = series[i - 1], series[i]
    return v0 + (v1 - v0) * (at_ns - t0) / (t1 - t0)


def rate(series: Series, start_ns: int, end_ns: int) -> float:
    """Return the mean growth per second between two times."""
    if end_ns <= start_ns:
        return 0.0
    return (value_at(series, end_ns) - value_at(series, start_ns)) * 1e9 / (end_ns - start_ns)


def bins(series: Series, start_ns: int, end_ns: int, width_ns: int = BIN_NS) -> list[float]:
    """Return the growth per second in each whole bin between two times."""
    count = max(0, (end_ns - start_ns) // width_ns)
    return [rate(series, start_ns + i * width_ns, start_ns + (i + 1) * width_ns) for i in range(count)]


def min_bin_after_cut_ratio(series: Series, start_ns: int, cut_ns: int, heal_ns: int, planes: int) -> float:
    """Return the lowest 100 ms bin of the outage over the surviving planes' share of the rate before it.

    Args:
        series: bytes placed at the receiver.
        start_ns: where the rate before the cut is measured from.
        cut_ns: one plane is lost.
        heal_ns: it is back. Bins lie between 100 ms after the cut and here.
        planes: how many there are with the lost one; also for a pinned run, so that both are judged alike.

    Returns:
        0 when there is no rate before the cut or no whole bin.
    """
    fair = rate(series, start_ns, cut_ns) * (planes - 1) / planes
    found = bins(series, cut_ns + GRACE_NS, heal_ns)
    return min(found) / fair if found and fair > 0 else 0.0


def recovered_share(plane: Series, whole: Series, start_ns: int, end_ns: int, planes: int) -> float:
    """Return a plane's part of the bytes of a window over its fair part 1/`planes`; 0 when nothing moved."""
    moved = value_at(whole, end_ns) - value_at(whole, start_ns)
    if moved <= 0:
        return 0.0
    return (value_at(plane, end_ns) - value_at(plane, start_ns)) / moved * planes


def last_before(samples: Series, cut_ns: int, heal_ns: int) -> float:
    """Return milliseconds from a cut to the last packet sent on the lost plane before it healed.

    Args:
        samples: (time of sampling, time of the last packet in ns), both CLOCK_MONOTONIC.
        cut_ns: the plane is lost.
        heal_ns: it is back; packets after this do not count.

    Returns:
        0 when nothing was sent on it after the cut.
    """
    seen = [value for _, value in samples if value < heal_ns]
    return max(0.0, (max(seen) - cut_ns) / 1e6) if seen else 0.0
