"""Rows of `softmrc bench collectives`: sizes, factors, targets; no rank is started."""

from __future__ import annotations

import pytest

from softmrc.bench.collectives import Wish, _row, bus_factor, planes_capacity
from softmrc.bench.outage import _outcome
from softmrc.cli.bench_collectives import parse_size
from softmrc.errors import UsageError


def raw(
    op: str = "all_reduce",
    nbytes: int = 1 << 20,
    ranks: int = 4,
    ours: float = 100.0,
    peer: float = 200.0,
    wrong: int = 0,
):
    return {
        "op": op, "bytes": nbytes, "ranks": ranks, "time_us": {"mrc": ours, "gloo": peer},
        "times_us": {"mrc": [ours], "gloo": [peer]}, "wrong": {"mrc": wrong, "gloo": 0},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "size"),
    [("1K", 1024), ("64k", 65536), ("16M", 16 << 20), ("1GiB", 1 << 30), ("100", 100), ("0", 0)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "K", "1.5M", "-1", "1T"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="a size is like"):
        parse_size(text)


def test_factors_are_those_of_nccl_tests() -> None:
    assert bus_factor("all_reduce", 4) == 1.5
    assert bus_factor("all_gather", 4) == 0.75
    assert bus_factor("reduce_scatter", 2) == 0.5
    assert bus_factor("all_to_all", 5) == 0.8
    assert bus_factor("broadcast", 7) == 1.0


def test_a_row() -> None:
    row = _row(raw(), "loopback", "gloo")
    assert row.algbw == pytest.approx((1 << 20) / 100 / 1e3, rel=1e-3)
    assert row.busbw == pytest.approx(1.5 * row.algbw, rel=1e-3)
    assert (row.busbw_ratio, row.ok, row.target) == (2.0, True, "busbw >= 1.5 x")


@pytest.mark.parametrize(
    ("nbytes", "ours", "ok"),
    [
        (1 << 20, 150.0, False),
        (16 << 20, 112.0, False),
        (16 << 20, 110.0, True),
        (1024, 39.0, True),
        (1024, 41.0, False),
        (4096, 999.0, None),
    ],
)
def test_targets(nbytes: int, ours: float, ok: bool | None) -> None:
    assert _row(raw(nbytes=nbytes, ours=ours), "loopback", "gloo").ok is ok


def test_a_wrong_result_is_never_good() -> None:
    assert _row(raw(wrong=1), "loopback", "gloo").ok is False
    assert _row(raw(op="broadcast", wrong=1), "loopback", "gloo").ok is False


def test_slow_planes_are_judged_by_what_they_carry() -> None:
    nbytes, ranks = 16 << 20, 2
    full = bus_factor("all_reduce", ranks) * nbytes / 1e3 / planes_capacity()
    assert _row(raw(nbytes=nbytes, ranks=ranks, ours=full / 0.91), "planes", "gloo").ok is True
    assert _row(raw(nbytes=nbytes, ranks=ranks, ours=full / 0.89), "planes", "gloo").ok is False


def test_four_planes_of_200_mbit_carry_less_than_800() -> None:
    assert 0.098 < planes_capacity() < 0.1


@pytest.mark.parametrize(
    "wrong", [{"ops": ["nonsense"]}, {"places": ["mars"]}, {"ranks": [1]}, {"sizes": [2]}, {"repeat": 0}]
)
def test_wishes_that_cannot_be(wrong: dict) -> None:
    with pytest.raises(UsageError):
        Wish(**wrong)


def test_an_outage() -> None:
    ends = [1.0, 1.1, 1.2, 5.3, 5.4]
    found = _outcome("mrc", 4.0, [{"ends": ends, "error": None}, {"ends": ends, "error": None}], 1.15, 5.15)
    assert (found.resume_s, found.stall_s, found.ok) == (0.15, 4.1, True)


def test_an_outage_that_ends_the_job() -> None:
    told = [{"ends": [1.0], "error": None}, {"ends": [1.0], "error": "RuntimeError: timed out"}]
    found = _outcome("mrc", 4.0, told, 1.1, 5.1)
    assert (found.resume_s, found.stall_s, found.ok, found.error) == (
        None,
        None,
        False,
        "RuntimeError: timed out",
    )
    assert _outcome("gloo", 4.0, told, 1.1, 5.1).ok is None
