"""Where the two ends run, and how far apart their cores are.

On a virtual machine the hypervisor moves the virtual CPUs; every figure of two cores moves with them, so each
measurement says how far apart they were before and after.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass

from softmrc import _core

__all__ = ["NEAR_NS", "Place"]

NEAR_NS = 50.0
"""Cores closer than this share a cache."""


@dataclass(frozen=True)
class Place:
    """The CPUs of the two ends; the same one twice on a host that has one."""

    a: int
    b: int
    can_pin: bool

    @classmethod
    def of_this_process(cls) -> Place:
        """Take the first two CPUs this process may use."""
        cpus = sorted(os.sched_getaffinity(0))
        return cls(cpus[0], cpus[1] if len(cpus) > 1 else cpus[0], shutil.which("taskset") is not None)

    @property
    def cores(self) -> int:
        """Number of CPUs in use."""
        return 1 if self.a == self.b else 2

    def distance(self) -> float | None:
        """Return the one-way latency between the cores, ns; None when there is one core."""
        if self.cores == 1:
            return None
        return round(_core.yard_core_to_core_ns(self.a, self.b, 3), 1) or None

    def near(self, distance: float | None) -> bool:
        """Return whether a distance is that of a shared cache; one core is near itself."""
        return distance is None or distance < NEAR_NS

    def await_near(self, patience: float) -> float | None:
        """Wait until the cores are near, for `patience` seconds at most, and return their distance."""
        end = time.monotonic() + patience
        while True:
            seen = self.distance()
            if self.near(seen) or time.monotonic() >= end:
                return seen
            time.sleep(0.25)
