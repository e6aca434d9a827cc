"""How a transfer went over time: rates, stalls, and how it took a failure and its repair. Pure arithmetic.

A course is bytes in bins of equal width. Goodput is what the receiving application got; "on the wire" is what arrived
at the receiving host's ports, whatever it was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Bins", "Course", "Outage"]

_SILENT = 0.02
"""A stall is a time with less than this share of the rate before."""


@dataclass(frozen=True)
class Bins:
    """Bytes by time.

    Attributes:
        start: of the first bin, seconds of CLOCK_MONOTONIC.
        width: of a bin, seconds.
        counts: bytes.
    """

    start: float
    width: float
    counts: tuple[float, ...] = ()

    @property
    def end(self) -> float:
        """End of the last bin."""
        return self.start + self.width * len(self.counts)

    def rate(self, begin: float, end: float) -> float:
        """Return bit/s between two times; a bin that is cut counts by its share. NaN outside of the course."""
        begin, end = max(begin, self.start), min(end, self.end)
        if end - begin < self.width / 2:
            return math.nan
        total = 0.0
        for i in range(int((begin - self.start) / self.width), len(self.counts)):
            left, right = self.start + i * self.width, self.start + (i + 1) * self.width
            if left >= end:
                break
            total += self.counts[i] * max(0.0, min(right, end) - max(left, begin)) / self.width
        return total * 8 / (end - begin)

    def windows(self, begin: float, end: float, span: float) -> list[tuple[float, float]]:
        """Return (begin, bit/s) of every window of `span` seconds inside two times, a bin apart."""
        size = max(1, round(span / self.width))
        first = max(0, math.ceil((begin - self.start) / self.width - 1e-6))
        last = min(len(self.counts), math.floor((end - self.start) / self.width + 1e-6))
        return [
            (self.start + i * self.width, sum(self.counts[i : i + size]) * 8 / (size * self.width))
            for i in range(first, last - size + 1)
        ]

    def longest_below(self, begin: float, end: float, bits_per_second: float) -> float:
        """Return the longest time below a rate, seconds."""
        longest = current = 0.0
        for _, rate in self.windows(begin, end, self.width):
            current = current + self.width if rate < bits_per_second else 0.0
            longest = max(longest, current)
        return longest

    def wider(self, width: float) -> Bins:
        """Return the same bytes in bins of about `width`, a multiple of this one's."""
        size = max(1, round(width / self.width))
        whole = len(self.counts) // size * size
        return Bins(
            self.start,
            self.width * size,
            tuple(sum(self.counts[i : i + size]) for i in range(0, whole, size)),
        )

    def to_json(self, zero: float) -> dict[str, Any]:
        """Return it as JSON takes it, times from `zero` on."""
        return {
            "start_s": round(self.start - zero, 4),
            "width_s": self.width,
            "mbps": [round(n * 8 / self.width / 1e6, 2) for n in self.counts],
        }


@dataclass(frozen=True)
class Outage:
    """When something was broken: seconds of CLOCK_MONOTONIC, and which share of the capacity was left."""

    begin: float
    end: float
    left: float
    what: str = ""


@dataclass
class Course:
    """One transfer.

    Attributes:
        goodput: at the receiving application.
        wire: at the ports of the receiving host; None where they cannot be counted apart.
        outages: in order.
        resent_bytes: payload that was sent again, as the sender counts it.
        more: counters worth keeping.
    """

    goodput: Bins
    wire: Bins | None = None
    outages: list[Outage] = field(default_factory=list)
    resent_bytes: int = 0
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def begin(self) -> float:
        """When it ran at full rate: a second after its start."""
        return self.goodput.start + min(1.0, (self.goodput.end - self.goodput.start) / 6)

    @property
    def end(self) -> float:
        """When it ended."""
        return self.goodput.end

    def before(self) -> float:
        """Return the rate before anything was broken, bit/s."""
        first = self.outages[0].begin if self.outages else self.end
        return self.goodput.rate(self.begin, first)

    def mean(self) -> float:
        """Return the rate of the whole course, bit/s."""
        return self.goodput.rate(self.begin, self.end)

    def back_after(self, outage: Outage, share: float, span: float = 0.1) -> float:
        """Return how long after a failure the rate was back at `share` of what was left, seconds.

        It is back when a window of `span` that begins then has that mean. NaN: not before the repair.
        """
        level = share * outage.left * self.before()
        for begin, rate in self.goodput.windows(outage.begin, outage.end, max(span, self.goodput.width)):
            if rate >= level:
                return max(0.0, begin - outage.begin)
        return math.nan

    def full_after(self, outage: Outage, share: float = 0.95, span: float = 0.1) -> float:
        """Return how long after a repair the rate was back at `share` of what it had been, seconds; NaN: never."""
        level = share * self.before()
        for begin, rate in self.goodput.windows(outage.end, self.end, max(span, self.goodput.width)):
            if rate >= level:
                return max(0.0, begin - outage.end)
        return math.nan

    def worst(self, span: float = 0.2) -> float:
        """Return the lowest window of `span` from the first failure on, as a share of the rate before."""
        first = self.outages[0].begin - span if self.outages else self.begin
        rates = [rate for _, rate in self.goodput.windows(first, self.end, span)]
        before = self.before()
        return min(rates) / before if rates and before else math.nan

    def during(self, outage: Outage, settle: float = 0.5) -> float:
        """Return the rate while something was broken, after `settle` seconds, bit/s."""
        return self.goodput.rate(min(outage.begin + settle, outage.end), outage.end)

    def stall(self) -> float:
        """Return the longest time in which next to nothing arrived, seconds; counted on the wire where it can be."""
        bins = self.wire or self.goodput
        reference = bins.rate(self.begin, self.outages[0].begin if self.outages else self.end)
        return bins.longest_below(self.begin, self.end - bins.width, _SILENT * reference)

    def lost_bytes(self) -> float:
        """Return what the failures cost: bytes that would have come at the rate before, and did not."""
        if not self.outages:
            return 0.0
        first = self.outages[0].begin
        return max(0.0, (self.before() - self.goodput.rate(first, self.end)) / 8 * (self.end - first))
