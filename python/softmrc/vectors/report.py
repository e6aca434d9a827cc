"""What a check of a vector file found, for people and for programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Difference", "Report", "Result", "VectorFileError"]


class VectorFileError(ValueError):
    """The file cannot be read as a vector file at all."""


@dataclass(frozen=True)
class Difference:
    """One field that is not as the vector says."""

    field: str
    expected: Any
    actual: Any

    def __str__(self) -> str:
        """One line of text."""
        return f"{self.field}: expected {_show(self.expected)}, got {_show(self.actual)}"


def _show(value: object) -> str:
    return f"{value} ({value:#x})" if isinstance(value, int) and value > 9 else str(value)


@dataclass
class Result:
    """The outcome of one entry."""

    name: str
    layer: str
    differences: list[Difference] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True when nothing differs."""
        return not self.differences


@dataclass
class Report:
    """The outcome of a file."""

    path: str
    impl: str
    results: list[Result]

    @property
    def total(self) -> int:
        """Entries in the file."""
        return len(self.results)

    @property
    def passed(self) -> int:
        """Entries without a difference."""
        return sum(r.ok for r in self.results)

    @property
    def ok(self) -> bool:
        """True when every entry passed, and there was one."""
        return self.total > 0 and self.passed == self.total

    def text(self) -> str:
        """Lines for a terminal: every difference, every warning, then `N of M`."""
        lines = []
        for r in self.results:
            lines += [f"{r.name} [{r.layer}] {d}" for d in r.differences]
            lines += [f"{r.name} [{r.layer}] note: {w}" for w in r.warnings]
        return "\n".join([*lines, f"{self.passed} of {self.total}"])

    def as_dict(self) -> dict[str, Any]:
        """The report as one JSON object; passed entries appear by count only."""
        return {
            "file": self.path,
            "impl": self.impl,
            "total": self.total,
            "passed": self.passed,
            "failed": self.total - self.passed,
            "ok": self.ok,
            "failures": [asdict(r) for r in self.results if not r.ok],
            "warnings": [{"name": r.name, "warning": w} for r in self.results for w in r.warnings],
        }
