"""Bytes and times as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from softmrc.errors import UsageError
from softmrc.sim.quantity import parse_bytes, parse_ns
from softmrc.sim.workload import GREEDY


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("64 KiB", 65536),
        ("1MB", 10**6),
        ("1.5 GB", 1_500_000_000),
        (7, 7),
        ("7", 7),
        ("1e3 b", 1000),
        ("greedy", GREEDY),
    ],
)
def test_bytes_as_people_write_them(text: str | int, value: int) -> None:
    assert parse_bytes(text, "x") == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("20 us", 20_000),
        ("1.5 ms", 1_500_000),
        ("2 s", 2 * 10**9),
        (800, 800),
        ("1 min", 60 * 10**9),
        ("3 µs", 3000),
    ],
)
def test_times_as_people_write_them(text: str | int, value: int) -> None:
    assert parse_ns(text, "x") == value


@pytest.mark.parametrize(
    "text", ["", "5 parsec", "-3 us", "us", "1,5 ms", "0.0001 ns", "1e999999999 s", "9" * 99, True]
)
def test_no_amounts(text: Any) -> None:
    with pytest.raises(UsageError, match="x "):
        parse_ns(text, "x")
    with pytest.raises(UsageError, match="x "):
        parse_bytes(text, "x")
