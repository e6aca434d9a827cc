"""Figures over round trips, against a plain computation."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from softmrc.ping import Path, Summary

RTTS = st.lists(st.lists(st.integers(1, 10**10), max_size=120), min_size=1, max_size=5)


@given(RTTS, st.integers(0, 3))
def test_figures_equal_a_plain_computation(rtts, lost):
    paths = []
    for number, values in enumerate(rtts):
        path = Path(1, number, sent=len(values) + lost)
        for value in values:
            path.add(value)
        paths.append(path)
    flat = sorted(v for values in rtts for v in values)
    found = Summary.of(paths)
    assert (found.sent, found.answered) == (len(flat) + lost * len(rtts), len(flat))
    assert found.dead == sum(not values and lost > 0 for values in rtts)
    if flat:
        assert (found.min_ns, found.avg_ns) == (flat[0], sum(flat) // len(flat))
        assert found.p99_ns == flat[math.ceil(0.99 * len(flat)) - 1]
        assert found.loss == 1 - len(flat) / found.sent
    else:
        assert (found.min_ns, found.avg_ns, found.p99_ns) == (None, None, None)


def test_json_is_in_microseconds():
    path = Path(2, 0x8001, sent=2)
    path.add(1500)
    assert path.as_dict() == {
        "plane": 2, "ev": 0x8001, "dead": False, "sent": 2, "answered": 1, "loss": 0.5,
        "rtt_us": {"min": 1.5, "avg": 1.5, "p99": 1.5},
    }  # fmt: skip


def test_a_path_that_was_never_probed_is_not_dead():
    assert not Path(1, 1).dead
    assert Summary.of([]).loss == 0.0
