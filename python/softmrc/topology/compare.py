"""Two fabrics side by side, and their ratio for each unit of bisection."""

from __future__ import annotations

from typing import Any

from softmrc.topology.clos import ClosPlan
from softmrc.topology.power import Power

__all__ = ["compare"]


def compare(plan: ClosPlan, other: ClosPlan, power: Power | None = None) -> dict[str, Any]:
    """Return both fabrics and, of the first over the second, what a NIC costs in parts.

    Args:
        plan: the fabric in question.
        other: what it is measured against.
        power: watts of the parts; the documented defaults without it.
    """
    watts = power or Power()
    mine, theirs = watts.describe(plan), watts.describe(other)
    return {
        "fabric": {**plan.describe(), **mine},
        "versus": {**other.describe(), **theirs},
        "ratio": {
            "nics": plan.nics / other.nics,
            "switches_per_nic": plan.switches_per_nic / other.switches_per_nic,
            "optics_per_nic": plan.optics_ends_per_nic / other.optics_ends_per_nic,
            "fabric_w_per_nic": _over(mine["fabric_w_per_nic"], theirs["fabric_w_per_nic"]),
        },
    }


def _over(top: float, bottom: float) -> float | None:
    return top / bottom if bottom else None
