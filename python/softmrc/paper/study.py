"""A study: the simulations a target needs, and how their numbers are judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from softmrc.paper.cell import Cell, Measured
from softmrc.paper.check import Verdict
from softmrc.paper.params import Effort

__all__ = ["Study"]


@dataclass(frozen=True)
class Study:
    """How a target is answered.

    Attributes:
        id: Of the target, for instance "R2".
        cells: Builds the simulations for an effort; none for what is only computed.
        judge: Judges the measurements, given by the cells' keys, all of them present.
    """

    id: str
    cells: Callable[[Effort], list[Cell]]
    judge: Callable[[Effort, Mapping[str, Measured]], Verdict]
