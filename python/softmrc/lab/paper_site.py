"""What every testbed study of the paper's results stands on: its labs, its bins, what line rate means, its cuts.

Nothing here depends on a target. Rates are a thousandth of the paper's and less, and delays grow with it, so results
are ratios; a bin is half a second, a quarter of the 1,000 round trips that the targets allow.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from softmrc.lab.course import Bins
from softmrc.lab.flows import Flow, Flows
from softmrc.lab.nursery import Nursery
from softmrc.lab.queue_spec import base_rtt

if TYPE_CHECKING:
    from softmrc.lab.flows import FlowResult
    from softmrc.lab.lab import Lab

__all__ = ["BIN_S", "FULL", "QUICK", "Effort", "Site", "line_rate", "together"]

BIN_S = 0.5
"""Width of the bins that criteria speak of, seconds."""
_HEADERS = 92 + 14
"""Around a full payload: IPv6, UDP, MRC, iCRC and Ethernet, which the shapers count."""


@dataclass(frozen=True)
class Effort:
    """How long a run takes.

    Attributes:
        name: "quick" or "full".
        seeds: repetitions where something is drawn by lot.
        hold: seconds of each state that is measured.
    """

    name: str
    seeds: int
    hold: float


QUICK = Effort("quick", 1, 1.0)
FULL = Effort("full", 3, 2.0)


@dataclass
class Site:
    """Where studies run.

    Attributes:
        effort: of the run.
        name: of the labs it makes; one stands at a time.
        rate_bps: of a host's port.
        switch: "kernel", "soft" or "auto".
        say: told what is being done.
    """

    effort: Effort
    name: str = "paper"
    rate_bps: int = 100_000_000
    switch: str = "auto"
    say: Callable[[str], None] = lambda _: None
    nursery: Nursery = field(default_factory=Nursery)

    def flows(self, lab: Lab, flows: Sequence[Flow], seconds: float) -> Flows:
        """Return flows that begin together, as a context manager; see `Flows`."""
        return Flows(lab, flows, seconds, self.nursery)

    @contextlib.contextmanager
    def lab(self, **fields: Any) -> Iterator[Lab]:
        """Make a lab for the block; fields of `LabSpec`."""
        from softmrc.lab.lab import Lab
        from softmrc.lab.spec import LabSpec

        given: dict[str, Any] = {
            "name": self.name, "rate_bps": self.rate_bps, "switch": self.switch, **fields
        }  # fmt: skip
        spec = LabSpec(**given)
        with Lab.up(spec) as made:
            yield made

    def wait(self, seconds: float) -> tuple[float, float]:
        """Let time pass; returns begin and end of it (CLOCK_MONOTONIC)."""
        begin = time.monotonic()
        time.sleep(seconds)
        return begin, time.monotonic()


def line_rate(lab: Lab, pmtu: int, planes: int | None = None) -> float:
    """Return the payload that the ports of a host carry, bit/s.

    Args:
        lab: whose rate.
        pmtu: payload of a full packet.
        planes: ports; None: all.
    """
    return float(lab.spec.rate_bps or 0) * (planes or lab.spec.planes) * pmtu / (pmtu + _HEADERS)


def round_trip(lab: Lab) -> float:
    """Return the round trip without queues, seconds."""
    return base_rtt(lab.spec.rate_bps or 10**12, lab.spec.mtu)


def together(results: Sequence[FlowResult]) -> Bins:
    """Return the sum of flows from when all had begun until the first ended."""
    width = results[0].goodput.width
    begin, end = max(r.goodput.start for r in results), min(r.goodput.end for r in results)
    count = max(0, int((end - begin) / width))
    counts = [0.0] * count
    for result in results:
        bins = result.goodput
        for i in range(count):
            left = begin + i * width
            rate = bins.rate(left, left + width)
            counts[i] += rate * width / 8
    return Bins(begin, width, tuple(counts))
