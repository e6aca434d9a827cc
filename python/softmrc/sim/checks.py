"""Checks that configurations make of their own members."""

from __future__ import annotations

from softmrc.errors import UsageError

__all__ = ["check", "check_range"]


def check(ok: bool, what: str) -> None:
    """Raise `UsageError(what)` unless `ok`."""
    if not ok:
        raise UsageError(what)


def check_range(name: str, value: float | None, low: float, high: float) -> None:
    """Raise unless `low <= value <= high`; None passes."""
    check(value is None or low <= value <= high, f"{name} = {value}: must be {_plain(low)} to {_plain(high)}")


def _plain(bound: float) -> str:
    return f"{bound:d}" if isinstance(bound, int) else f"{bound:g}"
