"""What a row of the comparison is, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softmrc.bench.bench import Bench

__all__ = ["Outcome", "Row", "RowResult"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a row measured."""

    value: float
    """The figure that the target is about."""
    peer: Mapping[str, Any] = field(default_factory=dict)
    """Who we were compared with, and its figures."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    also: Mapping[str, bool] = field(default_factory=dict)
    """Further conditions, in words, that must hold."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table."""

    name: str
    about: str
    """For people: what `value` is."""
    target: float | None
    """None: the row informs, and is not judged."""
    at_most: bool = False
    """The value must not exceed the target; otherwise it must reach it."""
    needs: tuple[str, ...] = ()
    """Of "netns", "iperf3", "mptcp", "srv6", "cores", "io_uring", "af_packet"."""
    loopback: bool = False
    """Without namespaces it runs over loopback."""
    run: Callable[[Bench], Outcome]

    def meets(self, value: float) -> bool:
        """Return whether a value is as good as the target; True where there is none."""
        if self.target is None:
            return True
        return value <= self.target if self.at_most else value >= self.target


@dataclass(frozen=True, kw_only=True)
class RowResult:
    """What `softmrc bench transport --json` prints of a row."""

    name: str
    about: str
    value: float | None
    """None: not measured; `detail` has "skipped" or "error"."""
    target: float | None
    """None: the row informs, and is not judged."""
    sense: str
    """">=" or "<=": how value and target must stand."""
    ok: bool | None
    """None: skipped, or not judged."""
    peer: dict[str, Any]
    detail: dict[str, Any]

    @classmethod
    def of(cls, row: Row, outcome: Outcome) -> RowResult:
        """Judge what a row measured."""
        detail = dict(outcome.detail)
        if outcome.also:
            detail["also"] = dict(outcome.also)
        ok = None if row.target is None else row.meets(outcome.value) and all(outcome.also.values())
        return cls(value=outcome.value, ok=ok, peer=dict(outcome.peer), detail=detail, **_face(row))

    @classmethod
    def skipped(cls, row: Row, why: str) -> RowResult:
        """Return a row that this host cannot measure."""
        return cls(value=None, ok=None, peer={}, detail={"skipped": why}, **_face(row))

    @classmethod
    def failed(cls, row: Row, why: str) -> RowResult:
        """Return a row whose measurement failed."""
        return cls(value=None, ok=False, peer={}, detail={"error": why}, **_face(row))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return asdict(self)


def _face(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "about": row.about,
        "target": row.target,
        "sense": "<=" if row.at_most else ">=",
    }
