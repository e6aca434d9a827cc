"""How fast a job went over time, as a staircase: one rate from each edge to the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["RateCurve", "from_samples", "from_steps"]


@dataclass(frozen=True)
class RateCurve:
    """A rate that is constant between edges."""

    edges_ns: NDArray[np.int64]
    """Rising times, one more than there are rates."""
    rates: NDArray[np.float64]
    """NaN where nothing was there to be done."""
    unit: str
    """Of the rates: "steps/s", or "Gb/s for each open flow"."""
    weights: NDArray[np.float64] | None = None
    """Share of the job that was at it, 0 to 1; none: all of it, all the time."""

    @property
    def bins(self) -> int:
        """How many rates there are."""
        return int(self.rates.size)

    def touched(self, start_ns: int, end_ns: int) -> slice:
        """Return the bins that share a moment with [start_ns, end_ns)."""
        first = int(np.searchsorted(self.edges_ns[1:], start_ns, side="right"))
        last = int(np.searchsorted(self.edges_ns[:-1], max(end_ns, start_ns + 1), side="left"))
        return slice(first, max(first, last))


def from_steps(ends_ns: NDArray[np.int64], start_ns: int) -> RateCurve:
    """Return steps per second of a synchronous job: each step's rate is one over its length.

    Args:
        ends_ns: when each step was complete on its slowest node, rising; steps that end together with the one
            before are left out.
        start_ns: when the first step began.
    """
    edges = np.concatenate(([np.int64(start_ns)], ends_ns.astype(np.int64)))
    keep = np.concatenate(([True], np.diff(edges) > 0))
    edges = edges[keep]
    return RateCurve(edges, 1e9 / np.diff(edges).astype(np.float64), "steps/s")


def from_samples(
    times_ns: NDArray[np.int64],
    counted: NDArray[np.int64],
    posted_ns: NDArray[np.int64],
    until_ns: NDArray[np.int64],
) -> RateCurve:
    """Return the goodput of an open flow from bytes delivered in each interval.

    It is that of the flows that are open, each weighing the same, so that flows that are done do not look like an
    outage. Intervals after the last flow are left out.

    Args:
        times_ns: ends of the intervals, rising; the first begins at 0.
        counted: bytes delivered in each.
        posted_ns: when each flow was posted.
        until_ns: when its last byte was delivered, or the run ended.
    """
    edges = np.concatenate(([np.int64(0)], times_ns.astype(np.int64)))
    last = int(until_ns.max(initial=0))
    usable = int(np.searchsorted(edges[:-1], last, side="left"))
    edges = edges[: usable + 1]
    open_ns = np.diff(_elapsed(edges, posted_ns) - _elapsed(edges, until_ns))
    bits = counted[:usable].astype(np.float64) * 8.0
    rates = np.divide(bits, open_ns, out=np.full(usable, np.nan), where=open_ns > 0)
    widths = np.diff(edges).astype(np.float64)
    most = float((open_ns / widths).max(initial=0.0))
    return RateCurve(edges, rates, "Gb/s for each open flow", open_ns / widths / most if most else None)


def _elapsed(edges: NDArray[np.int64], moments: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return, for each edge, the time since all moments before it, summed."""
    ordered = np.sort(moments)
    sums = np.concatenate(([0.0], np.cumsum(ordered.astype(np.float64))))
    before = np.searchsorted(ordered, edges, side="left")
    made: NDArray[np.float64] = before.astype(np.float64) * edges - sums[before]
    return made
