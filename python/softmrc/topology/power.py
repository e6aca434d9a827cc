"""Watts of a fabric's switches and optics.

Every figure is an input. The defaults say where they come from; NICs are left out, as every fabric has the same number.
"""

from __future__ import annotations

from dataclasses import dataclass

from softmrc.errors import UsageError
from softmrc.topology.clos import ClosPlan

__all__ = ["SOURCES", "Power"]

SOURCES = {
    "optic_w": "800 Gb/s 2xDR4 OSFP module: 16 W typical, 17 W at most (NVIDIA MMS4X00-NS, specifications, 2025)",
    "switch_w": "51.2 Tb/s switch without optics: about 940 W typical (class of NVIDIA SN5600; check your own)",
}
"""Where each default comes from."""


@dataclass(frozen=True, kw_only=True)
class Power:
    """What the parts draw.

    Raises:
        UsageError: a value is negative or not a number.
    """

    optic_w: float = 16.0
    """One module of `optic_gbps`, W."""
    optic_gbps: float = 800.0
    """Rate of that module, Gb/s; links of less share one."""
    switch_w: float = 940.0
    """One switch without optics, W, whatever its tier."""
    copper_to_nic: bool = False
    """NIC-T0 cables are copper and draw nothing."""

    def __post_init__(self) -> None:
        """Check ranges."""
        for name in ("optic_w", "switch_w"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise UsageError(f"{name} is 0 or more watts, not {getattr(self, name)}")
        if not 0 < self.optic_gbps < float("inf"):
            raise UsageError(f"optic_gbps is more than 0, not {self.optic_gbps}")

    def modules(self, plan: ClosPlan) -> float:
        """Return how many optical modules a fabric has, both ends of every cable that is not copper."""
        ends = plan.optics_ends_per_nic - (2 if self.copper_to_nic else 0)
        return plan.nics * ends * plan.nic_gbps / self.optic_gbps

    def describe(self, plan: ClosPlan) -> dict[str, float]:
        """Return modules and watts of a fabric, in all and for each NIC."""
        optics = self.modules(plan) * self.optic_w
        switches = plan.switches * self.switch_w
        return {
            "optical_modules": self.modules(plan),
            "optics_kw": optics / 1e3,
            "switches_kw": switches / 1e3,
            "fabric_kw": (optics + switches) / 1e3,
            "fabric_w_per_nic": (optics + switches) / plan.nics,
        }
