"""Quantiles of the native histogram against the sorted list."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from softmrc._core import PerfHistogram

VALUES = st.lists(
    st.one_of(st.integers(0, 1000), st.integers(0, 10**7), st.integers(0, (1 << 42) - 1)),
    min_size=1,
    max_size=400,
)


@given(VALUES, st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_quantiles_are_within_one_percent(values, quantiles):
    histogram = PerfHistogram()
    histogram.record_many(values)
    values.sort()
    assert (histogram.count, histogram.min, histogram.max) == (len(values), values[0], values[-1])
    assert math.isclose(histogram.mean, sum(values) / len(values), rel_tol=1e-9)
    for q in (*quantiles, 0.0, 0.5, 0.99, 1.0):
        want = values[max(math.ceil(q * len(values)), 1) - 1]
        assert abs(histogram.quantile(q) - want) <= want / 256


@given(VALUES, VALUES)
def test_recording_in_parts_changes_nothing(first, second):
    parts, whole = PerfHistogram(), PerfHistogram()
    parts.record_many(first)
    parts.record_many(second)
    whole.record_many(second + first)
    assert [parts.quantile(q / 10) for q in range(11)] == [whole.quantile(q / 10) for q in range(11)]


def test_nothing_recorded():
    empty = PerfHistogram()
    assert (empty.count, empty.min, empty.max, empty.mean, empty.quantile(0.5)) == (0, 0, 0, 0.0, 0)
