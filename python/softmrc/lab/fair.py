"""What flows on fixed paths are entitled to: the max-min shares of the links they pass, by water filling.

Exact (fractions), plain Python. Leaves what a flow got to whoever measures.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from softmrc.errors import UsageError

__all__ = ["Bottlenecks", "bottlenecks", "max_min"]


def max_min(paths: Sequence[Sequence[Hashable]]) -> list[Fraction]:
    """Return the max-min fair rate of each flow, in rates of a link; all links are equal.

    All rates rise together; where a link is full, its flows stay, and the others go on.

    Args:
        paths: the links that each flow passes, in any order; a link is whatever can be a key.

    Raises:
        UsageError: a flow passes no link, so nothing bounds it.
    """
    if not all(paths):
        raise UsageError("a flow that passes no link has no share; name at least its host's port")
    rates: list[Fraction] = [Fraction(0)] * len(paths)
    rising = set(range(len(paths)))
    links = {link: {i for i, path in enumerate(paths) if link in path} for path in paths for link in path}
    while rising:
        room = {
            link: (Fraction(1) - sum(rates[i] for i in flows - rising)) / len(flows & rising)
            for link, flows in links.items()
            if flows & rising
        }
        level = min(room.values())
        full = {i for link, free in room.items() if free == level for i in links[link] & rising}
        for i in full:
            rates[i] = level
        rising -= full
    return rates


@dataclass(frozen=True)
class Bottlenecks:
    """Where flows meet, and what that leaves them.

    Attributes:
        rates: max-min shares, in rates of a link.
        full: the flows of each link that is full then and has more than one.
        alone: whether a flow and all that share a full link with it pass no other full link of several. Where one
            passes two, any congestion control that is not max-min gives it less and the others more.
    """

    rates: list[float]
    full: list[frozenset[int]]
    alone: list[bool]


def bottlenecks(ways: Sequence[Sequence[str]]) -> Bottlenecks:
    """Return what flows over given nodes, each from a host to a host, are entitled to."""
    paths = [list(pairwise(way)) for way in ways]
    shares = max_min(paths)
    links = {link: frozenset(i for i, p in enumerate(paths) if link in p) for p in paths for link in p}
    full = [flows for flows in links.values() if len(flows) > 1 and sum(shares[i] for i in flows) == 1]
    times = [sum(i in flows for flows in full) for i in range(len(paths))]
    alone = [all(times[j] <= 1 for flows in full if i in flows for j in flows) for i in range(len(paths))]
    return Bottlenecks([float(r) for r in shares], full, alone)
