"""What fails and when: one failure every two seconds, of every kind a fabric knows, the same for every run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from softmrc.errors import UsageError

__all__ = ["KINDS", "Incident", "Plan", "overlaps", "schedule"]

KINDS = ("plane down", "T1 reboot", "5 % loss", "flap", "all planes down")
FIRST_S, DOWN_S, FLAP_S = 1.0, 1.0, 0.2


@dataclass(frozen=True, kw_only=True)
class Incident:
    """Something that fails."""

    kind: str
    """One of `KINDS`."""
    plane: int
    """1-based; 0: all."""
    t1: int
    """0-based switch of that plane, for a reboot; path of that plane, for loss."""
    at: float
    """Seconds after the first step began."""
    seconds: float
    """Until it is healed."""

    @property
    def until(self) -> float:
        """When it is healed, seconds after the first step began."""
        return self.at + self.seconds

    def __str__(self) -> str:
        """In words, as people read them in view and figure."""
        where = {
            "plane down": f"plane {self.plane} down", "T1 reboot": f"T1 {self.t1} of plane {self.plane} reboots",
            "5 % loss": f"5 % loss on a path of plane {self.plane}", "flap": f"plane {self.plane} flaps",
            "all planes down": "all planes down",
        }  # fmt: skip
        return f"{where[self.kind]} for {self.seconds:g} s"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A demonstration."""

    ranks: int = 4
    planes: int = 4
    t1: int = 4
    steps: int = 200
    every: float = 2.0
    """Seconds from one failure to the next; the last one is healed before the next begins."""
    seed: int = 1
    width: int = 1000
    """Units of a hidden layer: about `4 * width**2` bytes are reduced every step."""
    batch: int = 32
    """Images a rank takes each step."""
    rate_bps: int = 200_000_000
    """Of each plane."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run.

        Raises:
            UsageError: a value is out of its range.
        """
        ranges: dict[str, tuple[float, float]] = {
            "ranks": (2, 16), "planes": (2, 8), "t1": (1, 16), "steps": (10, 100_000), "every": (1.5, 60),
            "width": (16, 4096), "batch": (1, 512), "rate_bps": (10_000_000, 10_000_000_000),
        }  # fmt: skip
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise UsageError(f"{name} is {low:g} to {high:g}, not {value!r}")


def schedule(plan: Plan, seconds: float) -> tuple[Incident, ...]:
    """Return the failures of a run that may last `seconds`: every kind in turn, where by the seed."""
    rng = random.Random(plan.seed)
    found: list[Incident] = []
    at = FIRST_S
    while at < seconds:
        kind = KINDS[len(found) % len(KINDS)]
        plane = 0 if kind == "all planes down" else rng.randint(1, plan.planes)
        found.append(Incident(kind=kind, plane=plane, t1=rng.randrange(plan.t1), at=at, seconds=DOWN_S))
        at += plan.every
    return tuple(found)


def overlaps(began: float, ended: float, incidents: Sequence[Incident], kind: str) -> bool:
    """Whether a span of time meets a failure of this kind."""
    return any(i.kind == kind and began < i.until and ended > i.at for i in incidents)
