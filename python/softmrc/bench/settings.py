"""How much is measured, and the error of a measurement that did not come about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from softmrc.errors import MrcError, UsageError

__all__ = ["BenchError", "Settings"]


class BenchError(MrcError):
    """A program of a measurement failed or gave no figures; the text says which and why."""


def _silent(_: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much is measured."""

    repeat: int = 5
    """Pairs of a comparison, 1 to 101."""
    seconds: float = 3.0
    """Length of one steady run, 0.5 to 600. Rows with a course of their own have their own lengths."""
    quick: bool = False
    """One pair a row, shortest courses: shows that everything runs, proves nothing."""
    say: Callable[[str], None] = _silent
    """Told what is being measured, for people."""

    def __post_init__(self) -> None:
        """Refuse what cannot be measured.

        Raises:
            UsageError: a value is out of its range.
        """
        if not 1 <= self.repeat <= 101:
            raise UsageError(f"repeat is 1 to 101, not {self.repeat}")
        if not 0.5 <= self.seconds <= 600:
            raise UsageError(f"seconds is 0.5 to 600, not {self.seconds:g}")

    def length(self, full: float, quick: float) -> float:
        """Return the length of a course: `full` seconds, or `quick` ones."""
        return quick if self.quick else full
