"""What the meter makes of what it saw; the seeing itself on this machine."""

from __future__ import annotations

import os
import time

import pytest

from softmrc.bench.meter import Meter


def recorded(times: list[float], busy: list[float], received: list[int]) -> Meter:
    meter = Meter()
    meter._times, meter._busy = times, busy
    meter._bytes = [{"b1": r, "b2": 0} for r in received]
    return meter


def test_counts_are_interpolated() -> None:
    meter = recorded([0, 1, 2, 3], [0, 1, 3, 3], [0, 100, 300, 300])
    assert meter.span == (0, 3)
    assert meter.busy_cores(0, 2) == 1.5
    assert meter.busy_cores(0.5, 1.5) == pytest.approx(1.5)
    assert meter.arrived("b1", 0.5, 1.5) == pytest.approx(150)
    assert meter.arrived("b2", 0, 3) == 0
    assert meter.arrived("elsewhere", 0, 3) == 0
    assert meter.bins(["b1", "b2"], 0, 3, 1) == [100, 200, 0]
    assert meter.bins(["b1"], 0.5, 2.5, 0.5) == pytest.approx([100, 200, 200, 0])
    assert meter.bins(["b1"], 2, 2.5, 1) == []


def test_the_steady_part_leaves_start_and_end_outside() -> None:
    times = [i / 10 for i in range(31)]
    flowing = [0] * 10 + [1000 * i for i in range(1, 11)] + [10_000] * 11
    meter = recorded(times, times, flowing)
    begin, end = meter.steady(["b1"])
    assert (begin, end) == (pytest.approx(1.0), pytest.approx(1.8))
    idle = recorded([0, 1], [0, 0], [5, 5])
    assert idle.steady(["b1"]) == (0, 0)


def test_it_looks_at_this_machine() -> None:
    with Meter(os.getpid(), period=0.005) as meter:
        deadline = time.monotonic() + 5
        while len(meter._times) < 4 and time.monotonic() < deadline:
            time.sleep(0.005)
    begin, end = meter.span
    assert end > begin
    assert 0 <= meter.busy_cores(begin, end) <= (os.cpu_count() or 1) * 2 + 10 / (end - begin)
    assert "lo" in meter._bytes[0]
