"""Flows that arrive by themselves: Poisson arrivals at a given load, sizes from a distribution."""

from __future__ import annotations

import numpy as np

from softmrc.errors import UsageError
from softmrc.sim.builder import Builder
from softmrc.sim.sizes import SizeDistribution
from softmrc.sim.workload import MAX_TIME_NS, Int64s

__all__ = ["poisson_flows"]


def poisson_flows(
    builder: Builder,
    hosts: int,
    sizes: SizeDistribution,
    *,
    load: float,
    host_gbps: float,
    duration_ns: int,
    seed: int = 1,
    group: str = "arrivals",
) -> Int64s:
    """Add flows whose sources and destinations are drawn evenly and whose arrivals are a Poisson process.

    Args:
        builder: takes one send for each flow, by arrival.
        hosts: at least 2.
        sizes: of the flows.
        load: offered bytes as a share of what all hosts together can send, more than 0 and at most 2 (beyond 1 a
            queue grows for as long as flows arrive).
        host_gbps: rate of one host over all its planes, Gb/s.
        duration_ns: flows arrive from 0 to there.
        seed: of the drawing.
        group: reporting group.

    Returns:
        Ids of the sends.

    Raises:
        UsageError: a number out of range, or not a single arrival in that time.
    """
    if hosts < 2:
        raise UsageError(f"flows need at least 2 hosts, not {hosts}")
    if not 0 < load <= 2:
        raise UsageError(f"load {load} is outside 0..2; 0.5 is half of what the hosts can send")
    if not host_gbps > 0:
        raise UsageError(f"host_gbps {host_gbps} is no rate; give Gb/s, more than 0")
    if not 0 < duration_ns <= MAX_TIME_NS:
        raise UsageError(f"duration {duration_ns} ns is outside 1..{MAX_TIME_NS}")
    rng = np.random.default_rng([seed, hosts, 0xA1])
    expected = load * hosts * host_gbps / 8 * duration_ns / sizes.mean
    if expected > 1 << 27:
        raise UsageError(f"about {expected:.3g} flows; shorten the duration or lower the load")
    # Given their number, the arrivals of a Poisson process are independent and even over the time.
    count = int(rng.poisson(expected))
    if count == 0:
        raise UsageError(
            f"no flow arrives within {duration_ns} ns ({expected:.2g} expected); lengthen the duration"
        )
    start = np.sort(rng.integers(0, duration_ns, count))
    source = rng.integers(0, hosts, count)
    target = (source + rng.integers(1, hosts, count)) % hosts
    return builder.sends(source, target, sizes.draw(count, rng), start=start, group=group)
