"""What the demonstration does and when: planes, rates, failures, all from one seed.

Times are seconds from the first data unless they are called `_ns`, which are CLOCK_MONOTONIC.
"""

from __future__ import annotations

import random
import socket
from dataclasses import dataclass
from typing import Any

__all__ = ["CHUNK", "SLOTS", "Harm", "Plan", "Times", "ipv6_loopback_works", "make_plan", "plane_addresses"]

CHUNK = 256 << 10
"""Bytes of one write with immediate."""
SLOTS = 16
"""Chunks the receiver has room for; a slot is written again only after its chunk was verified."""

RATE_BPS = 60_000_000
"""Of each plane. Eight of them leave a two-core host more than half idle."""
QUEUE_BYTES = 512 << 10
ECN_BYTES = 80 << 10
DELAY_S = 0.004
"""Propagation of each plane.

Longer than what a busy host makes a process wait, so that the network decides.
"""
LOSS_PPM = 50_000
SETTLE_S = 0.5
"""Start of a run that is not judged."""
RECOVERY_S = 2.0
"""The healed plane is judged from this long after healing."""
RUN_MIN_S = 4.0


@dataclass(frozen=True)
class Times:
    """When things happen in one run."""

    end: float
    cut: float
    heal: float
    lossy: float
    lossy_end: float
    black: float
    black_end: float

    @classmethod
    def of(cls, seconds: float) -> Times:
        """Spread the failures over a run of `seconds` (at least 4)."""
        cut = 0.22 * seconds
        heal = cut + max(0.8, 0.22 * seconds)
        lossy = heal + 0.3
        return cls(
            end=seconds,
            cut=cut,
            heal=heal,
            lossy=lossy,
            lossy_end=min(lossy + 1.4, seconds - 0.3),
            black=lossy + 0.3,
            black_end=min(lossy + 1.2, seconds - 0.3),
        )


@dataclass(frozen=True)
class Harm:
    """Which plane is cut, and on which planes one path each goes bad.

    1-based; `index` counts a plane's EVs from 0.
    """

    cut_plane: int
    lossy_plane: int
    lossy_index: int
    black_plane: int
    black_index: int


@dataclass(frozen=True)
class Plan:
    """One demonstration: the multipath run and the run pinned to one path."""

    seed: int
    addresses: tuple[str, ...]
    """One per plane; both ends use the same, with different UDP ports."""
    evs: int
    """EVs of each plane."""
    times: Times
    harm: Harm

    @property
    def planes(self) -> int:
        """Number of planes."""
        return len(self.addresses)

    def pinned_addresses(self) -> tuple[str, ...]:
        """Return the only plane of the pinned run: the one that is cut."""
        return (self.addresses[self.harm.cut_plane - 1],)

    def links(self, planes: int) -> list[dict[str, Any]]:
        """Return the rules that make each plane a link of limited rate."""
        return [
            {
                "plane": p, "direction": "tx", "delay": DELAY_S,
                "rate_bps": RATE_BPS, "queue_bytes": QUEUE_BYTES, "ecn_bytes": ECN_BYTES,
            }
            for p in range(1, planes + 1)
        ]  # fmt: skip


def ipv6_loopback_works() -> bool:
    """Return whether ::1 can be used on this host."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def plane_addresses(planes: int, ipv6: bool) -> tuple[str, ...]:
    """Return loopback addresses for planes; the last one is ::1 when there is IPv6."""
    v4 = [f"127.0.0.{n}" for n in range(1, planes + 1)]
    return (*v4[:-1], "::1") if ipv6 and planes > 1 else tuple(v4)


def make_plan(seed: int, planes: int, evs: int, seconds: float, ipv6: bool) -> Plan:
    """Draw a plan.

    Args:
        seed: of the failures and of both endpoints.
        planes: 3 to 31.
        evs: EVs of each plane, at least 2.
        seconds: of each of the two runs, at least 4.
        ipv6: use ::1, too.
    """
    rng = random.Random(seed)
    cut, lossy, black = rng.sample(range(1, planes + 1), 3)
    harm = Harm(cut, lossy, rng.randrange(evs), black, rng.randrange(evs))
    return Plan(seed, plane_addresses(planes, ipv6), evs, Times.of(seconds), harm)
