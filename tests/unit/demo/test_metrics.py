"""The figures of the demo on series whose answer is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softmrc.demo import metrics

MS = 1_000_000


def series(rates, step_ms=20, start=0):
    """Cumulative samples from bytes per second in each step."""
    out, total = [(start, 0.0)], 0.0
    for i, rate in enumerate(rates, 1):
        total += rate * step_ms / 1000
        out.append((start + i * step_ms * MS, total))
    return out


def test_value_between_and_outside():
    s = [(100, 10.0), (200, 20.0)]
    assert [metrics.value_at(s, t) for t in (0, 100, 150, 200, 999)] == [10, 10, 15, 20, 20]
    assert metrics.value_at([], 5) == 0


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=60), st.integers(1, 50))
def test_bins_add_up(rates, width_ms):
    s = series(rates)
    end = s[-1][0]
    found = metrics.bins(s, 0, end, width_ms * MS)
    whole = len(found) * width_ms * MS
    assert sum(found) * width_ms / 1000 == pytest.approx(metrics.value_at(s, whole), rel=1e-6, abs=1e-3)


def test_an_outage_that_keeps_the_share():
    s = series([800.0] * 50 + [700.0] * 50 + [800.0] * 20)
    assert metrics.min_bin_after_cut_ratio(s, 0, 1000 * MS, 2000 * MS, 8) == pytest.approx(1.0)


def test_a_stall_of_one_bin_is_found():
    s = series([800.0] * 50 + [700.0] * 20 + [350.0] * 5 + [700.0] * 25)
    assert metrics.min_bin_after_cut_ratio(s, 0, 1000 * MS, 2000 * MS, 8) == pytest.approx(0.5)


def test_the_first_100_ms_are_not_judged():
    s = series([800.0] * 50 + [0.0] * 5 + [700.0] * 45)
    assert metrics.min_bin_after_cut_ratio(s, 0, 1000 * MS, 2000 * MS, 8) == pytest.approx(1.0)


@pytest.mark.parametrize("s", [[], series([0.0] * 100)])
def test_nothing_moved_is_no_success(s):
    assert metrics.min_bin_after_cut_ratio(s, 0, 1000 * MS, 2000 * MS, 8) == 0
    assert metrics.recovered_share(s, s, 0, 1000 * MS, 8) == 0


def test_a_dead_single_path_has_ratio_zero():
    s = series([100.0] * 50 + [0.0] * 50)
    assert metrics.min_bin_after_cut_ratio(s, 0, 1000 * MS, 2000 * MS, 8) == 0


@pytest.mark.parametrize(("part", "share"), [(100.0, 1.0), (50.0, 0.5), (0.0, 0.0)])
def test_recovered_share(part, share):
    whole = series([800.0] * 50)
    assert metrics.recovered_share(series([part] * 50), whole, 0, 1000 * MS, 8) == pytest.approx(share)


def test_last_packet_before_healing():
    samples = [
        (10 * MS, 5 * MS),
        (20 * MS, 18 * MS),
        (30 * MS, 29 * MS),
        (120 * MS, 29 * MS),
        (140 * MS, 131 * MS),
    ]
    assert metrics.last_before(samples, 20 * MS, 130 * MS) == pytest.approx(9.0)
    assert metrics.last_before(samples, 40 * MS, 130 * MS) == 0
    assert metrics.last_before([], 40, 130) == 0
