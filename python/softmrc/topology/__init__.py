"""What a fabric needs and loses, by formula: no simulation, no compiled code.

`ClosPlan` answers for a multi-plane folded Clos; `Power` turns its parts into watts.
"""

from __future__ import annotations

from softmrc.topology.clos import ClosPlan
from softmrc.topology.compare import compare
from softmrc.topology.power import Power

__all__ = ["ClosPlan", "Power", "compare"]
