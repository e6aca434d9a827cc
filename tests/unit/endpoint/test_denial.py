"""Queue pairs keep off what a fabric's denylist names, and never off everything (B62)."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from softmrc.endpoint.denial import Denial, choose
from softmrc.endpoint.steering import Steering, Ways
from softmrc.srv6 import Denylist, FabricFile, Shape
from softmrc.types import EvState
from softmrc.verbs import QP

FABRIC = FabricFile(name="lab", shape=Shape(planes=3, hosts=8, hosts_per_t0=4, t1_per_plane=4))


def ways(src: int = 0, dst: int = 7) -> Ways:
    return Steering(FABRIC).ways(
        [
            (FABRIC.addresses(src)[p], FABRIC.addresses(dst)[p], p + 1, [100 * p + i for i in range(8)])
            for p in range(3)
        ]
    )


class Pair:
    """What a queue pair is to a denylist."""

    def __init__(self, evs: list[tuple[int, int]]) -> None:
        self.evs, self.closed, self.qp_num, self.ctx = evs, False, 5, SimpleNamespace(driver=self)
        self.states: dict[int, int] = {}
        self.calls = 0

    def path_stats(self) -> list[dict[str, Any]]:
        return [{"plane": plane, "ev": ev} for plane, ev in self.evs]

    def set_ev_state(self, qpn: int, ev: int, state: int) -> None:
        assert qpn == 5
        self.calls += 1
        if all(ev != mine for _, mine in self.evs):
            raise OSError(errno.ENOENT, "no such EV")
        self.states[ev] = state

    def denied(self) -> set[int]:
        return {ev for ev, state in self.states.items() if state == EvState.DENIED}


def every(w: Ways) -> list[tuple[int, int]]:
    return list(w.paths)


def test_evs_over_what_is_denied_are_chosen() -> None:
    w = ways()
    assert choose(Denylist({"h7.p2": 0.1}), w, every(w)) == {(2, 100 + i) for i in range(8)}
    assert choose(Denylist({"h6.p2": 0.1}), w, every(w)) == set()
    over = {key for key, path in w.paths.items() if path.plane == 1 and "t1-3" in path.switches}
    assert len(over) == 2
    assert choose(Denylist({"p1.t0-0.t1-3": 1.0}), w, every(w)) == over


def test_where_all_is_denied_the_plane_that_loses_least_stays() -> None:
    w = ways()
    denied = choose(Denylist({"h0.p1": 0.3, "h7.p2": 0.1, "p3": 0.2}), w, every(w))
    assert {plane for plane, _ in denied} == {1, 3}
    assert choose(Denylist({"h0": 1.0}), w, every(w)) == set()


def test_planes_outside_the_fabric_are_ways_out() -> None:
    w = ways()
    assert len(choose(Denylist({"p1": 1.0, "p2": 1.0, "p3": 1.0}), w, [*every(w), (4, 999)])) == 24


def test_what_few_evs_a_queue_pair_has_decides_what_is_left() -> None:
    """Mail has four EVs a plane: the others of a plane are no way out for it."""
    w = ways()
    mine = [key for key, path in w.paths.items() if "t1-3" in path.switches]
    denied = choose(Denylist({"p1.t1-3": 0.2, "p2.t1-3": 0.1, "p3.t1-3": 0.3}), w, mine)
    assert {plane for plane, _ in denied} == {1, 3}


def test_the_file_is_followed_and_looked_at_twice_a_second(tmp_path: Path) -> None:
    file = tmp_path / "lab.denied.json"
    w = ways()
    pair = Pair(every(w))
    denial = Denial(file)
    denial.watch(cast(QP, pair), w)
    denial.tick(0.0)
    assert pair.calls == 0
    Denylist({"h0.p1": 0.02}).write(file)
    denial.tick(0.1)
    assert pair.calls == 0, "not before its time"
    denial.tick(0.6)
    assert pair.denied() == set(range(8))
    Denylist({"h7.p3": 0.02}).write(file)
    denial.tick(1.2)
    assert pair.denied() == {200 + i for i in range(8)}
    assert {pair.states[ev] for ev in range(8)} == {EvState.GOOD}
    calls = pair.calls
    denial.tick(1.8)
    assert pair.calls == calls, "nothing has changed"
    file.unlink()
    denial.tick(2.4)
    assert pair.denied() == set()


def test_queue_pairs_that_come_later_follow_at_once(tmp_path: Path) -> None:
    file = tmp_path / "lab.denied.json"
    Denylist({"p2": 0.02}).write(file)
    denial = Denial(file)
    w = ways()
    pair = Pair(every(w))
    denial.watch(cast(QP, pair), w)
    assert pair.denied() == {100 + i for i in range(8)}


def test_a_broken_list_changes_nothing_and_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "lab.denied.json"
    Denylist({"p2": 0.02}).write(file)
    denial = Denial(file)
    w = ways()
    pair = Pair(every(w))
    denial.watch(cast(QP, pair), w)
    before = pair.denied()
    file.write_text("{")
    for now in (1.0, 2.0, 3.0):
        denial.tick(now)
    assert pair.denied() == before
    assert sum("no denylist" in r.getMessage() for r in caplog.records) == 1


def test_closed_queue_pairs_and_unknown_fabrics_are_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "lab.denied.json"
    denial = Denial(file)
    w = ways()
    pair = Pair(every(w))
    denial.watch(cast(QP, pair), w)
    pair.closed = True
    Denylist({"p2": 0.02}).write(file)
    denial.tick(1.0)
    assert pair.calls == 0
    unknown = Denial(None)
    unknown.watch(cast(QP, Pair(every(w))), w)
    unknown.tick(1.0)
