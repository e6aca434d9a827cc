"""Which ranks of a group share a host, as every rank of it knows: what algorithms may build on.

Decides orders of ranks that cross from host to host as seldom as possible; leaves which algorithm to use to
`compiled`. All ranks of a group see the same placement, so they write programs that fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Placement"]


@dataclass(frozen=True, slots=True)
class Placement:
    """Hosts by rank."""

    hosts: tuple[int, ...]
    """By rank: number of its host, counted in the order in which they occur."""

    @classmethod
    def of(cls, memories: Sequence[str]) -> Placement:
        """From what each rank says of the memory it shares (`Card.memory`); "": with nobody."""
        numbers: dict[str, int] = {}
        return cls(
            tuple(numbers.setdefault(m or f"/{rank}", len(numbers)) for rank, m in enumerate(memories))
        )

    @classmethod
    def apart(cls, ranks: int) -> Placement:
        """Every rank on a host of its own."""
        return cls(tuple(range(ranks)))

    @property
    def count(self) -> int:
        """Number of hosts."""
        return max(self.hosts) + 1

    @property
    def near(self) -> bool:
        """Whether all ranks, more than one, share one host."""
        return self.count == 1 and len(self.hosts) > 1

    @property
    def even(self) -> bool:
        """Whether there are several hosts with several ranks each, as many on every one."""
        sizes = set(Counter(self.hosts).values())
        return self.count > 1 and len(sizes) == 1 and sizes != {1}

    def members(self, host: int) -> list[int]:
        """Ranks of a host, in order."""
        return [rank for rank, where in enumerate(self.hosts) if where == host]

    def circle(self, first: int = 0) -> list[int]:
        """All ranks, host by host, beginning with `first`; on hosts of their own: `first`, the next one, and so on."""
        ranks, home, count = len(self.hosts), self.hosts[first], self.count
        return sorted(
            range(ranks), key=lambda rank: ((self.hosts[rank] - home) % count, (rank - first) % ranks)
        )
