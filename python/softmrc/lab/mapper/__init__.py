"""Which link is bad: probes through a lab's own forwarding plane, and what can be told from those that are lost.

`routes` says which ways probes take, `schedule` which goes next, `prober` sends them, `outcomes` keeps what became of
them, `elements` and `infer` name the element that explains it, `locator` says since when and until when.
"""

from __future__ import annotations

from softmrc.lab.mapper.locator import Change, Finding, Locator
from softmrc.lab.mapper.prober import RATE, Prober

__all__ = ["RATE", "Change", "Finding", "Locator", "Prober"]
