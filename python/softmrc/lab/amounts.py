"""Times and shares as people write them: "3s", "200ms", "1.5 min"; "5%", "0.05"."""

from __future__ import annotations

import math
import re

from softmrc.errors import UsageError

__all__ = ["flap", "seconds", "share"]

_UNITS = {
    "": 1.0,
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
}
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*([a-zµ%]*)\s*", re.IGNORECASE)


def seconds(value: str | float, where: str, unit: float = 1.0) -> float:
    """Return a time in seconds.

    Args:
        value: a number, or a text with a unit.
        where: what it is for, for the message.
        unit: seconds that a number without unit counts.

    Raises:
        UsageError: no time, or below 0.
    """
    if isinstance(value, str):
        match = _AMOUNT.fullmatch(value)
        if match is None or match[2].lower() not in _UNITS:
            raise UsageError(f"{where} is a time like 3s, 200ms or 1.5min, not {value!r}")
        return float(match[1]) * (_UNITS[match[2].lower()] if match[2] else unit)
    if isinstance(value, bool) or not math.isfinite(value) or value < 0:
        raise UsageError(f"{where} is a time like 3s, 200ms or 1.5min, not {value!r}")
    return value * unit


def share(value: str | float, where: str) -> float:
    """Return a share from 0 to 1: of "5%" 0.05, of 0.05 the same.

    Raises:
        UsageError: no share, or not from 0 to 1.
    """
    number = math.nan
    if isinstance(value, str):
        match = _AMOUNT.fullmatch(value)
        if match is not None and match[2] in ("", "%"):
            number = float(match[1]) / (100 if match[2] else 1)
    elif not isinstance(value, bool):
        number = float(value)
    if not 0 <= number <= 1:
        raise UsageError(f"{where} is a share like 5% or 0.05, at most 100%, not {value!r}")
    return number


def flap(value: str, where: str) -> tuple[float, float]:
    """Return the two times of "200ms/800ms": in force and not in force.

    Raises:
        UsageError: it is not written so, or one of them is 0.
    """
    first, slash, second = value.partition("/")
    times = (seconds(first, where), seconds(second, where)) if slash else (0.0, 0.0)
    if not all(times):
        raise UsageError(f"{where} is two times above 0 like 200ms/800ms: down and up in turn, not {value!r}")
    return times
