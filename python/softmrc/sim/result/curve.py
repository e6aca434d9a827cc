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
    unit: str
    """Of the rates: "steps/s" or "Gb/s"."""

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


def from_samples(times_ns: NDArray[np.int64], counted: NDArray[np.int64], until_ns: int) -> RateCurve:
    """Return goodput in Gb/s from bytes delivered in each interval.

    Args:
        times_ns: ends of the intervals, rising; the first begins at 0.
        counted: bytes delivered in each.
        until_ns: when the last byte was delivered; intervals that reach beyond it are left out, as a job that is
            done is not a slow one.
    """
    edges = np.concatenate(([np.int64(0)], times_ns.astype(np.int64)))
    usable = int(np.searchsorted(edges[1:], until_ns, side="right"))
    widths = np.diff(edges[: usable + 1]).astype(np.float64)
    return RateCurve(edges[: usable + 1], counted[:usable].astype(np.float64) * 8.0 / widths, "Gb/s")
