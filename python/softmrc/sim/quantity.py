"""Amounts as people write them in scenario files: "64 KiB", "1 MB", "20 us", "1.5 ms", or plain numbers.

KB, MB, GB, TB are powers of 1,000, KiB, MiB, GiB, TiB of 1,024; a number without unit counts bytes or nanoseconds.
"""

from __future__ import annotations

import re
from fractions import Fraction

from softmrc.errors import UsageError
from softmrc.sim.workload import GREEDY

__all__ = ["parse_bytes", "parse_ns"]

_BYTES = {"": 1, "b": 1}
_BYTES |= {f"{p}b": 1000**i for i, p in enumerate("kmgt", 1)}
_BYTES |= {f"{p}ib": 1024**i for i, p in enumerate("kmgt", 1)}
_TIMES = {
    "": 1,
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}
_AMOUNT = re.compile(r"\s*(\d{1,30}(?:_\d{1,30}){0,9}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,2})?)\s*([A-Za-zµ]*)\s*")


def parse_bytes(value: int | str, where: str) -> int:
    """Return bytes; "greedy" is a flow without end.

    Raises:
        UsageError: no amount of bytes; names `where`.
    """
    if value == "greedy":
        return GREEDY
    return _amount(value, _BYTES, where, 'bytes, for instance 4096, "64 KiB" or "1 MB"')


def parse_ns(value: int | str, where: str) -> int:
    """Return nanoseconds.

    Raises:
        UsageError: no time; names `where`.
    """
    return _amount(value, _TIMES, where, 'a time, for instance "20 us", "1.5 ms" or 800 (ns)')


def _amount(value: int | str, units: dict[str, int], where: str, expected: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _AMOUNT.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2].lower() not in units:
        raise UsageError(f"{where} is {expected}, not {value!r}")
    amount = Fraction(match[1].replace("_", "")) * units[match[2].lower()]
    if amount.denominator != 1:
        raise UsageError(f"{where} = {value!r} is no whole number of the smallest unit")
    return int(amount)
