"""What hashing alone takes from flows on single paths: rates without queues, from the share that links carry.

Every QP takes one uplink of its T0 by an even draw. Decides nothing about transports: links are full or not, a pause
that holds a NIC makes all its QPs equally fast, and QPs that get equal bytes end with the slowest.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

__all__ = ["fullest_link", "max_min", "permutation_means"]

Links = Mapping[Hashable, float]
"""Of a flow: how much of its rate each link carries."""


def max_min(flows: Sequence[Links]) -> list[float]:
    """Return the max-min fair rates of flows over links of rate 1; no flow is faster than 1."""
    rates = [0.0] * len(flows)
    open_ = set(range(len(flows)))
    while open_:
        used: dict[Hashable, float] = {}
        weight: dict[Hashable, float] = {}
        for i, flow in enumerate(flows):
            for link, share in flow.items():
                if i in open_:
                    weight[link] = weight.get(link, 0.0) + share
                else:
                    used[link] = used.get(link, 0.0) + share * rates[i]
        level, full = 1.0, None
        for link, sum_ in weight.items():
            if (room := (1.0 - used.get(link, 0.0)) / sum_) < level - 1e-12:
                level, full = room, link
        for i in [i for i in sorted(open_) if full is None or full in flows[i]]:
            rates[i] = level
            open_.discard(i)
    return rates


def permutation_means(qps: int, draws: int, *, in_step: bool, seed: int = 1) -> list[float]:
    """Return the mean rate of eight flows from two racks to the other two over four spines, of each of many draws.

    Args:
        qps: QPs of a flow, each on a spine of its own draw.
        draws: Permutations and hashes drawn.
        in_step: All QPs of a flow are as fast as its slowest, as behind a NIC that pauses hold; else each on its own.
        seed: Of the draws.
    """
    rng = random.Random(seed)
    means = []
    for _ in range(draws):
        targets = list(range(8, 16))
        rng.shuffle(targets)
        flows: list[dict[Hashable, float]] = []
        for source, target in enumerate(targets):
            single = []
            for _ in range(qps):
                spine = rng.randrange(4)
                single.append([("up", source // 4, spine), ("down", target // 4, spine)])
            if in_step:
                flows.append({})
                for link in (link for links in single for link in links):
                    flows[-1][link] = flows[-1].get(link, 0.0) + 1 / qps
            else:
                flows += [dict.fromkeys([*links, ("nic", source), ("nic", target)], 1.0) for links in single]
        means.append(sum(max_min(flows)) / 8)
    return means


def fullest_link(qps: int, draws: int, hosts: int = 64, per_rack: int = 8, seed: int = 1) -> float:
    """Return how fast a ring goes, of line rate, whose QPs all get equal bytes: the fullest link sets its pace.

    Args:
        qps: QPs from a host to the next one, which sits below the next T0.
        draws: Hashes drawn; the mean over them is returned.
        hosts: In the ring; a rack has as many uplinks as hosts.
        per_rack: Hosts of a rack.
        seed: Of the draws.
    """
    rng = np.random.default_rng(seed)
    racks = hosts // per_rack
    rates = []
    for _ in range(draws):
        # Rack r sends to rack r + 1: what leaves by a spine arrives by it, so that the uplinks tell all.
        spines = rng.integers(0, per_rack, size=(racks, per_rack * qps))
        counts = [np.bincount(row, minlength=per_rack).max() for row in spines]
        rates.append(min(1.0, qps / max(counts)))
    return statistics.fmean(rates)
