"""Pairs of runs: order, repetition when cores move, medians."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest

from softmrc.bench.pairs import Pair, Sample, measure_pairs
from softmrc.bench.place import Place
from softmrc.bench.settings import BenchError, Settings
from softmrc.errors import UsageError


class Cores(Place):
    """Cores whose distances are given beforehand."""

    def __init__(self, distances: Iterator[float | None]) -> None:
        super().__init__(0, 1, False)
        object.__setattr__(self, "_distances", distances)

    def distance(self) -> float | None:
        return next(self._distances)  # type: ignore[attr-defined]

    def await_near(self, patience: float) -> float | None:
        return self.distance()


def runs(log: list[str], name: str, values: list[float]) -> Callable[[], Sample]:
    left = iter(values)

    def run() -> Sample:
        log.append(name)
        return Sample(next(left))

    return run


def test_the_first_of_a_pair_changes_and_ratios_belong_to_pairs() -> None:
    log: list[str] = []
    pairs = measure_pairs(
        Settings(repeat=3),
        Cores(iter([30.0] * 9)),
        runs(log, "us", [10, 40, 90]),
        runs(log, "peer", [10, 20, 30]),
    )
    assert log == ["us", "peer", "peer", "us", "us", "peer"]
    assert [p.ratio for p in pairs.pairs] == [1, 2, 3]
    assert (pairs.ratio, pairs.ours, pairs.peer) == (2, 40, 20)
    assert (pairs.repeated, pairs.moved, pairs.far) == (0, 0, 0)
    assert pairs.to_json()["pairs"][1] == {"ours": 40, "peer": 20, "ratio": 2, "core_ns": [30, 30, 30]}


def test_a_pair_whose_cores_moved_is_measured_again() -> None:
    log: list[str] = []
    moved = [30.0, 30.0, 160.0]
    pairs = measure_pairs(
        Settings(repeat=1),
        Cores(iter([*moved, 30, 30, 30])),
        runs(log, "us", [1, 5]),
        runs(log, "peer", [1, 2]),
    )
    assert (pairs.ratio, pairs.repeated, pairs.moved) == (2.5, 1, 0)


def test_cores_that_move_for_ever_end_it_and_are_named() -> None:
    log: list[str] = []
    pairs = measure_pairs(
        Settings(repeat=1),
        Cores(iter([30.0, 160.0, 30.0] * 3)),
        runs(log, "us", [1, 1, 3]),
        runs(log, "peer", [1, 1, 2]),
    )
    assert (pairs.ratio, pairs.repeated, pairs.moved) == (1.5, 2, 1)


def test_far_cores_that_stay_far_count_and_are_named() -> None:
    log: list[str] = []
    pairs = measure_pairs(
        Settings(repeat=1), Cores(iter([160.0] * 3)), runs(log, "us", [3]), runs(log, "peer", [2])
    )
    assert (pairs.ratio, pairs.repeated, pairs.far) == (1.5, 0, 1)


def test_a_quick_run_takes_what_it_gets() -> None:
    log: list[str] = []
    pairs = measure_pairs(
        Settings(repeat=1, quick=True),
        Cores(iter([30.0, 160.0, 30.0])),
        runs(log, "us", [3]),
        runs(log, "peer", [2]),
    )
    assert (pairs.repeated, pairs.moved, log) == (0, 0, ["us", "peer"])


def test_a_peer_at_zero_is_infinitely_slower() -> None:
    pair = Pair(Sample(1.0), Sample(0.0), (None, None, None))
    assert pair.ratio == math.inf
    assert pair.to_json()["ratio"] is None


def test_failures_are_not_hidden() -> None:
    def broken() -> Sample:
        raise BenchError("no figures")

    with pytest.raises(BenchError, match="no figures"):
        measure_pairs(Settings(), Cores(iter([30.0] * 3)), broken, broken)


def test_settings_have_limits() -> None:
    for wrong in (
        {"repeat": 0},
        {"repeat": 102},
        {"seconds": 0.1},
        {"seconds": 601.0},
        {"seconds": math.nan},
    ):
        with pytest.raises(UsageError):
            Settings(**wrong)  # type: ignore[arg-type]
