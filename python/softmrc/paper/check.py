"""One comparison of a measured number with what a target demands of it, and the verdict over several."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Check", "Verdict", "at_least", "at_most", "between", "equal", "shown"]


@dataclass(frozen=True)
class Check:
    """A number and the range it must lie in.

    Attributes:
        name: What was measured, with its unit.
        ours: The measured value; NaN when the run gave none, which never meets anything.
        low: Smallest value that meets the criterion; -inf is no bound.
        high: Largest value that meets it; inf is no bound.
        paper: The published value, as text; "" when the paper gives none.
        decides: False for numbers that are shown but judge nothing.
    """

    name: str
    ours: float
    low: float = -math.inf
    high: float = math.inf
    paper: str = ""
    decides: bool = True

    @property
    def met(self) -> bool:
        """Whether the value lies in the range."""
        return not math.isnan(self.ours) and self.low <= self.ours <= self.high

    @property
    def range(self) -> str:
        """The range in words: ">= 0.98", "<= 3", "0.3 to 0.65"."""
        if math.isinf(self.low) and math.isinf(self.high):
            return "shown"
        if math.isinf(self.high):
            return f">= {self.low:g}"
        if math.isinf(self.low):
            return f"<= {self.high:g}"
        return f"= {self.low:g}" if self.low == self.high else f"{self.low:g} to {self.high:g}"

    def as_dict(self) -> dict[str, Any]:
        """JSON form; a missing value is null."""
        ours = None if math.isnan(self.ours) or math.isinf(self.ours) else round(self.ours, 6)
        met = self.met if self.decides else None
        return {"name": self.name, "paper": self.paper, "ours": ours, "criterion": self.range, "met": met}


@dataclass
class Verdict:
    """What a study says about its target.

    Attributes:
        checks: Every comparison made.
        ours: Our value beside the paper's, in one line.
        note: What a reader must know: reductions, differences, suspected mechanism.
        series: Curves for the figures: name to lists of numbers.
    """

    checks: list[Check] = field(default_factory=list)
    ours: str = ""
    note: str = ""
    series: dict[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        """Whether every deciding check holds; a verdict without any is not met."""
        deciding = [check for check in self.checks if check.decides]
        return bool(deciding) and all(check.met for check in deciding)

    def missed(self) -> list[Check]:
        """The deciding checks that do not hold."""
        return [check for check in self.checks if check.decides and not check.met]

    def extend(self, checks: Iterable[Check]) -> None:
        """Add comparisons."""
        self.checks.extend(checks)


def at_least(name: str, ours: float, low: float, paper: str = "") -> Check:
    """Return a check with a lower bound."""
    return Check(name, float(ours), low=low, paper=paper)


def at_most(name: str, ours: float, high: float, paper: str = "") -> Check:
    """Return a check with an upper bound."""
    return Check(name, float(ours), high=high, paper=paper)


def between(name: str, ours: float, low: float, high: float, paper: str = "") -> Check:
    """Return a check with both bounds."""
    return Check(name, float(ours), low=low, high=high, paper=paper)


def equal(name: str, ours: float, value: float, paper: str = "") -> Check:
    """Return a check that holds for one value only."""
    return Check(name, float(ours), low=value, high=value, paper=paper)


def shown(name: str, ours: float, paper: str = "") -> Check:
    """Return a number that is printed and judges nothing."""
    return Check(name, float(ours), paper=paper, decides=False)
