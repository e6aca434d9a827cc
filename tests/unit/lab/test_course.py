"""What a transfer's bins say about stalls, failures and repairs: made-up courses with known answers."""

from __future__ import annotations

import math

import pytest

from softmrc.lab.course import Bins, Course, Outage

STEP = 0.02
FULL = 1e6 * STEP / 8  # bytes of a bin at 1 Mbit/s


def course(*pieces: tuple[float, float], outages: list[Outage] | None = None) -> Course:
    """A course from 100 s on: (seconds, Mbit/s) one after another."""
    counts = [FULL * rate for seconds, rate in pieces for _ in range(round(seconds / STEP))]
    return Course(Bins(100.0, STEP, tuple(counts)), outages=outages or [])


CUT = Outage(103.0, 106.0, 0.75, "p1 down")


def test_rates_are_means_over_whole_and_cut_bins() -> None:
    bins = Bins(10.0, 0.5, (1000, 3000, 0))
    assert bins.rate(10.0, 11.0) == pytest.approx(32000)
    assert bins.rate(10.25, 10.75) == pytest.approx((500 + 1500) * 8 / 0.5)
    assert bins.rate(0, 100) == pytest.approx(4000 * 8 / 1.5)
    assert math.isnan(bins.rate(20, 21))


def test_windows_slide_by_a_bin_inside_the_limits() -> None:
    bins = Bins(0.0, 0.1, (10, 20, 30, 40))
    assert bins.windows(0.05, 0.4, 0.2) == [
        (pytest.approx(0.1), pytest.approx(2000)),
        (pytest.approx(0.2), pytest.approx(2800)),
    ]


def test_wider_bins_hold_the_same_bytes() -> None:
    assert Bins(1.0, 0.02, (1.0,) * 11).wider(0.1) == Bins(1.0, 0.1, (5.0, 5.0))


def test_a_clean_failover_is_back_at_once() -> None:
    found = course((3, 800), (3, 600), (3, 800), outages=[CUT])
    assert found.before() == pytest.approx(800e6)
    assert found.back_after(CUT, 0.95) == 0
    assert found.full_after(CUT) == pytest.approx(0, abs=1e-9)
    assert found.worst(0.2) == pytest.approx(0.75)
    assert found.during(CUT) == pytest.approx(600e6)
    assert found.stall() == 0


def test_a_stall_and_a_slow_return_are_seen_with_their_lengths() -> None:
    found = course((3, 800), (0.4, 0), (2.6, 600), (1.5, 600), (1.5, 800), outages=[CUT])
    assert found.stall() == pytest.approx(0.4)
    assert found.back_after(CUT, 0.95) == pytest.approx(0.4, abs=STEP)
    assert found.full_after(CUT) == pytest.approx(1.5, abs=0.1)
    assert found.worst(0.2) == 0
    assert found.lost_bytes() == pytest.approx((0.4 * 800 + 4.1 * 200) * 1e6 / 8, rel=0.01)


def test_a_transfer_that_never_returns_says_so() -> None:
    found = course((3, 200), (3, 0), (3, 0), outages=[CUT])
    assert math.isnan(found.back_after(CUT, 0.95))
    assert math.isnan(found.full_after(CUT))
    assert found.stall() == pytest.approx(6, abs=2 * STEP)


def test_a_stall_is_counted_on_the_wire_where_that_is_known() -> None:
    """An application that reads in lumps is no stall of the network."""
    lumpy = course(*([(0.08, 0), (0.02, 4000)] * 90), outages=[CUT])
    assert lumpy.stall() >= 0.08 - STEP / 2
    lumpy.wire = Bins(100.0, STEP, (FULL * 800,) * 450)
    assert lumpy.stall() == 0


def test_half_a_dip_is_judged_by_its_window() -> None:
    found = course((3, 800), (0.1, 0), (2.9, 600), (3, 800), outages=[CUT])
    assert found.worst(0.2) == pytest.approx(300 / 800)
    assert found.worst(0.4) == pytest.approx(450 / 800)


def test_without_a_failure_everything_is_before() -> None:
    found = course((6, 500))
    assert found.before() == found.mean() == pytest.approx(500e6)
    assert found.worst() == pytest.approx(1)
    assert found.lost_bytes() == 0


def test_json_counts_from_a_zero_that_is_given() -> None:
    assert Bins(101.0, 0.5, (125_000,)).to_json(100.0) == {"start_s": 1.0, "width_s": 0.5, "mbps": [2.0]}
