"""Faults of scenario files: by name, drawn from many, in bursts, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.sim.scenarios import SMALL

from softmrc.errors import UsageError
from softmrc.sim.config import Clos, Fault
from softmrc.sim.fabric import build
from softmrc.sim.fault_plan import plan_faults


def faults(*tables: dict[str, Any], **fabric: Any) -> tuple[Fault, ...]:
    return plan_faults(tables, Clos(**{**SMALL["fabric"], **fabric}))


def test_faults_by_name() -> None:
    assert faults({"kind": "link_loss", "target": "h3.p2", "value": 1e-6, "direction": "up", "at_ns": 5}) == (
        Fault(5, "link_loss", "h3.p2", 1e-6, "up"),
    )
    together = faults({"kind": "port_down", "target": ["h0.p1", "h0.p2"], "at_ns": 9, "duration_ns": 3})
    assert together == (
        Fault(9, "port_down", "h0.p1"), Fault(9, "port_down", "h0.p2"),
        Fault(12, "port_up", "h0.p1"), Fault(12, "port_up", "h0.p2"),
    )  # fmt: skip
    assert faults({"kind": "switch_reboot", "target": "p1.t1-0", "duration_ns": "2 s"}) == (
        Fault(0, "switch_reboot", "p1.t1-0", 2e9),
    )
    degraded = faults({"kind": "link_rate", "target": "p2", "value": 0.25, "duration_ns": 5})
    assert degraded[1] == Fault(5, "link_rate", "p2", 1.0)
    flaps = faults(
        {"kind": "link_down", "target": "h3", "at_ns": 10, "times": 3, "every_ns": 100, "duration_ns": 40}
    )
    assert [(f.at_ns, f.kind) for f in flaps] == [
        (t, k) for at in (10, 110, 210) for t, k in ((at, "link_down"), (at + 40, "link_up"))
    ]


def test_faults_drawn_from_many() -> None:
    drawn = faults({"kind": "link_down", "pick": {"of": "t0-t1", "fraction": 0.25}})
    assert len({f.target for f in drawn}) == 4
    fabric = build(Clos(**SMALL["fabric"]))
    assert all(fabric.tier_of_links()[fabric.link(f.target)] == 1 for f in drawn)
    assert drawn == faults({"kind": "link_down", "pick": {"of": "t0-t1", "fraction": 0.25}})
    assert drawn != faults({"kind": "link_down", "pick": {"of": "t0-t1", "fraction": 0.25}, "seed": 2})
    plane = faults({"kind": "switch_down", "pick": {"of": "t0", "count": 4, "plane": 2}})
    assert sorted(f.target for f in plane) == [f"p2.t0-{i}" for i in range(4)]
    assert len(faults({"kind": "port_down", "pick": {"of": "host-t0", "fraction": 1.0}})) == 16


def test_poisson_flaps() -> None:
    table = {"kind": "link_down", "pick": {"of": "t0-t1", "fraction": 1.0}, "poisson": True, "at_ns": 1000}
    found = faults({**table, "every_ns": 1000, "until_ns": 2_001_000, "duration_ns": 10})
    begun = [f.at_ns for f in found if f.kind == "link_down"]
    assert len(begun) == pytest.approx(2000, rel=0.1)
    assert min(begun) >= 1000
    assert max(begun) < 2_001_000
    assert [f.at_ns for f in found] == sorted(f.at_ns for f in found)
    assert len({f.target for f in found}) == 16


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"kind": "link_down"}, r"\[fault.0\] give target .* or pick"),
        ({"kind": "link_down", "target": "h9.p1"}, r"\[fault.0\] no link h9.p1: 8 hosts"),
        ({"kind": "link_down", "target": []}, "target is an empty list"),
        ({"kind": "switch_down", "target": "p1.t1-9"}, "no switch p1.t1-9"),
        ({"kind": "link_melts", "target": "h0.p1"}, "no fault 'link_melts'"),
        ({"kind": "link_loss", "target": "h0.p1", "value": 1.5}, "value = 1.5: must be 0 to 1"),
        ({"kind": "link_rate", "target": "h0.p1", "value": 0.0}, "link_rate h0.p1: value"),
        ({"kind": "link_down", "target": "h0.p1", "direction": "left"}, "direction = 'left'"),
        ({"kind": "link_down", "target": "h0.p1", "at_ns": -4}, "at_ns = -4"),
        ({"kind": "link_down", "target": "h0.p1", "duration": 4}, "did you mean duration_ns"),
        ({"kind": "link_down", "target": "h0.p1", "duration_ns": 0}, "duration_ns = 0"),
        ({"kind": "link_up", "target": "h0.p1", "duration_ns": 4}, "it is a repair"),
        ({"kind": "switch_reboot", "target": "p1.t0-0"}, "needs duration_ns"),
        ({"kind": "link_down", "target": "h0.p1", "times": 2}, "every_ns > 0"),
        (
            {"kind": "link_down", "target": "h0.p1", "times": 2, "every_ns": 5, "duration_ns": 5},
            "does not end before",
        ),
        ({"kind": "link_down", "target": "h0.p1", "poisson": True, "every_ns": 5}, "goes with until_ns"),
        ({"kind": "link_down", "target": "h0.p1", "until_ns": 5}, "goes with until_ns"),
        (
            {"kind": "link_down", "target": "h0.p1", "poisson": True, "every_ns": 1, "until_ns": 1 << 40},
            "more than 1048576 faults",
        ),
        ({"kind": "link_down", "target": "h0", "times": (1 << 20) + 1, "every_ns": 5}, "the most is 1048576"),
        ({"kind": "link_down", "pick": {"of": "t2-t3", "count": 1}}, "of = 't2-t3': host-t0"),
        ({"kind": "link_down", "pick": {"of": "t1-t2", "count": 1}}, "the fabric has no t1-t2"),
        (
            {"kind": "link_down", "pick": {"of": "t0-t1", "count": 99}},
            "99 of t0-t1 asked for, the fabric has 16",
        ),
        ({"kind": "link_down", "pick": {"of": "t0-t1"}}, "count or fraction"),
        ({"kind": "link_down", "pick": {"of": "t0-t1", "fraction": 0.0}}, "fraction = 0"),
        ({"kind": "link_down", "pick": {"of": "t0-t1", "count": 1, "plane": 3}}, "no t0-t1 in plane 3"),
    ],
)
def test_wrong_faults_are_named(table: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        faults(table)
