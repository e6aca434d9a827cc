"""The check of all paths over a fabric in virtual time: what is broken is named, and how long it takes to say so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from softmrc.lab import LabSpec
from softmrc.lab.counters import Count
from softmrc.lab.probe import Check, Probed
from softmrc.lab.probe_wire import Arrival, Way
from softmrc.srv6 import Path, paths

TRIP_S, WAIT_S, HEADERS = 0.002, 1.0, 48


class Fabric:
    """Lab and wire in one: eight hosts, four planes, and a rule for what is wrong with a packet.

    The rule says which switches count it, in turn, the seconds it takes, or None if it never comes, and the switches it
    says it passed.
    """

    def __init__(self) -> None:
        self.spec = LabSpec(name="w", planes=4, t0=2, t1=4, hosts=8)
        self.hosts = [f"h{n}" for n in range(8)]
        self.now = 0.0
        self.rule: Callable[[Way, int], tuple[list[str], float | None, int]] = lambda way, _: healthy(way)
        self.packets, self.bytes = Counter[str](), Counter[str]()
        self.tries = Counter[Way]()
        self._under_way: list[tuple[float, Arrival]] = []

    def paths(self, src: str, dst: str) -> list[Path]:
        return [p for n in range(1, 5) for p in paths(self.spec.shape, n, int(src[1:]), int(dst[1:]))]

    def counters(self) -> dict[str, Count]:
        names = [f"p{p}.{s}" for p in range(1, 5) for s in ("t0-0", "t0-1", "t1-0", "t1-1", "t1-2", "t1-3")]
        return {name: Count(self.packets[name], self.bytes[name]) for name in names}

    def send(self, number: int, way: Way, size: int) -> str | None:
        self.tries[way] += 1
        switches, trip, passed = self.rule(way, self.tries[way])
        for name in switches:
            self.packets[name] += 1
            self.bytes[name] += size + HEADERS
        if trip is not None:
            arrival = Arrival(number, way.dst, way.path.plane, 64 - passed, trip)
            self._under_way.append((self.now + trip, arrival))
        return None

    def receive(self, expected: set[int], wait_s: float) -> list[Arrival]:
        missing, found, until = set(expected), [], self.now + wait_s
        for at, arrival in sorted(self._under_way, key=lambda item: item[0]):
            if at > until or not missing:
                break
            self.now = max(self.now, at)
            found.append(arrival)
            missing.discard(arrival.number)
        self._under_way = [item for item in self._under_way if item[1] not in found]
        if missing:
            self.now = until
        return found

    def check(self, step: Callable[[str], None] = lambda _: None) -> Probed:
        lab: Any = SimpleNamespace(spec=self.spec, hosts=self.hosts, paths=self.paths, counters=self.counters)
        return Check(lab, self, WAIT_S).run(step)


def healthy(way: Way) -> tuple[list[str], float | None, int]:
    return sorted(way.switches()), TRIP_S, len(way.path.switches)


def of(found: Probed) -> set[tuple[str, str, str]]:
    return {(f.src, f.dst, f.path.name) for f in found.failures}


def test_a_healthy_fabric_is_swept_once() -> None:
    fabric = Fabric()
    found = fabric.check()
    assert (found.paths_ok, found.paths_total, found.sent, found.lost) == (608, 608, 608, 0)
    assert fabric.now < 1


def test_a_dead_plane_is_told_path_by_path_within_seconds() -> None:
    fabric = Fabric()
    fabric.rule = lambda way, _: ([], None, 0) if way.path.plane == 2 else healthy(way)
    said: list[str] = []
    found = fabric.check(said.append)
    assert (found.paths_ok, len(found.failures)) == (456, 152)
    assert {(f.path.plane, f.why) for f in found.failures} == {(2, "nothing arrives")}
    assert set(fabric.tries.values()) == {1, 4}
    assert fabric.now < 8
    assert {"608 of 608 paths", "paths along which nothing arrived: 152; try 3 of 3"} <= set(said)


def test_a_dead_link_costs_little_more_than_its_paths_last_wait() -> None:
    fabric = Fabric()
    dead = {"t0-0", "t1-2"}
    fabric.rule = lambda way, _: (
        (["p1.t0-0"], None, 0) if way.path.plane == 1 and dead <= set(way.path.switches) else healthy(way)
    )
    found = fabric.check()
    assert len(found.failures) == 32
    assert all(dead <= set(f.path.switches) and f.path.plane == 1 for f in found.failures)
    assert fabric.now < 5


@pytest.mark.parametrize("trip", [0.15, 0.5, 0.95])
def test_a_slow_path_is_slow_and_not_broken(trip: float) -> None:
    fabric = Fabric()
    slow = "p3 t0-0 t1-1 t0-1"
    fabric.rule = lambda way, _: (
        (healthy(way)[0], trip, 3)
        if (way.src, way.dst, way.path.name) == ("h1", "h6", slow)
        else healthy(way)
    )
    assert fabric.check().failures == []


def test_a_fabric_of_long_lines_is_waited_for() -> None:
    fabric = Fabric()
    fabric.rule = lambda way, _: (healthy(way)[0], 0.4, len(way.path.switches))
    found = fabric.check()
    assert (found.failures, found.lost) == ([], 0)


@pytest.mark.parametrize("losses", [1, 2, 3])
def test_a_path_that_loses_is_heard_in_the_end(losses: int) -> None:
    fabric = Fabric()
    fabric.rule = lambda way, tries: (
        ([], None, 0) if way.path.plane == 4 and tries <= losses else healthy(way)
    )
    assert fabric.check().failures == []


def test_a_path_on_the_wrong_way_is_the_only_one_named() -> None:
    fabric = Fabric()
    wrong = ("h0", "h7", "p1 t0-0 t1-0 t0-1")
    fabric.rule = lambda way, _: (
        (["p1.t0-0", "p1.t1-3", "p1.t0-1"], TRIP_S, 3)
        if (way.src, way.dst, way.path.name) == wrong
        else healthy(way)
    )
    found = fabric.check()
    assert of(found) == {wrong}
    assert found.failures[0].why == "did not pass p1.t1-0"


def test_a_path_that_loops_spoils_the_sums_of_others_and_is_the_only_one_named() -> None:
    fabric = Fabric()
    wrong = ("h3", "h4", "p2 t0-0 t1-1 t0-1")
    fabric.rule = lambda way, _: (
        ([*healthy(way)[0], "p2.t0-0"], TRIP_S, 4)
        if (way.src, way.dst, way.path.name) == wrong
        else healthy(way)
    )
    found = fabric.check()
    assert of(found) == {wrong}
    assert found.failures[0].why == "passed 4 switches, not 3"


def test_failures_come_in_the_order_of_the_paths() -> None:
    fabric = Fabric()
    dead, lost = ("h5", "p1 t0-1 t1-1 t0-0"), "h2"
    fabric.rule = lambda way, _: (
        (healthy(way)[0], TRIP_S, 9)
        if (way.src, way.path.name) == dead
        else ([], None, 0)
        if lost in (way.src, way.dst)
        else healthy(way)
    )
    found = fabric.check()
    assert {f.why.partition(",")[0] for f in found.failures} == {"nothing arrives", "passed 9 switches"}
    assert [f.src for f in found.failures] == sorted(f.src for f in found.failures)
