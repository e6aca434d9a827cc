from __future__ import annotations

import math

import numpy as np
import pytest

from softmrc.paper import measure


def test_gbps_of_bytes_an_interval():
    # 12,500 bytes in 1 us are 100 Gb/s.
    assert measure.gbps([12_500, 0], 1000).tolist() == [100.0, 0.0]


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [(0, 500, [0, 1, 2, 3, 4]), (100, 300, [1, 2]), (101, 300, [2]), (100, 299, [1]), (450, 500, [])],
)
def test_span_takes_whole_intervals(begin, end, expected):
    ends = np.array([100, 200, 300, 400, 500])
    assert np.arange(5)[measure.span(ends, begin, end)].tolist() == expected


def test_mean_and_median_rate():
    time = [1000, 2000, 3000, 4000]
    series = [12_500, 12_500, 0, 25_000]
    assert measure.mean_rate(series, time, 0, 4000) == 100.0
    assert measure.median_rate(series, time, 0, 4000) == 100.0
    assert measure.mean_rate(series, time, 2000, 3000) == 0.0
    assert math.isnan(measure.mean_rate(series, time, 4000, 4500))


def test_rebin_leaves_out_what_is_incomplete():
    assert measure.rebin([1, 2, 3, 4, 5], 2).tolist() == [3, 7]
    with pytest.raises(ValueError, match="at least one"):
        measure.rebin([1], 0)


def test_worst_window_slides():
    # Fixed bins of two would give 1 + 9 and 9 + 1; the worst pair is in the middle.
    assert measure.worst_window([9, 1, 1, 9], 2) == 2
    assert measure.worst_window([5, 5], 2) == 10
    assert math.isnan(measure.worst_window([5], 2))


def test_longest_gap():
    full = 12_500  # 100 Gb/s
    series = [full, 0, 0, full, 0, 0, 0, full]
    assert measure.longest_below_ns(series, 1000, 50) == 3000
    assert measure.longest_below_ns(series, 1000, 100) == 3000  # a sample at the level is no gap
    assert measure.longest_below_ns([full], 1000, 50) == 0


def test_jain():
    assert measure.jain([5, 5, 5]) == pytest.approx(1)
    assert measure.jain([1, 0, 0, 0]) == pytest.approx(0.25)
    # Six flows of 49 and one of 97: the paper's 0.918 with PFC only.
    assert measure.jain([49] * 6 + [97]) == pytest.approx(0.918, abs=0.002)
    assert math.isnan(measure.jain([0, 0]))


def test_clusters():
    assert measure.clusters_at_fractions([1.0, 0.5, 0.33, 0.25]) == 1
    assert measure.clusters_at_fractions([0.75, 0.42]) == 0
    assert measure.clusters_at_fractions([1.0, 0.75]) == 0.5
