"""What fails in the training demonstration, and how runs are judged; nothing is trained."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from softmrc.errors import UsageError
from softmrc.train_demo.places import LoopbackPlace
from softmrc.train_demo.plan import KINDS, Incident, Plan, overlaps, schedule
from softmrc.train_demo.rules import rules_for
from softmrc.train_demo.run import Run, Step
from softmrc.train_demo.verdict import judge, outcome


def run(
    times: list[float], *, digest: str = "d", loss: float = 0.5, incidents: tuple[Incident, ...] = ()
) -> Run:
    at, steps = 0.0, []
    for number, seconds in enumerate(times):
        steps.append(Step(number, at, at + seconds, loss))
        at += seconds
    return Run("mrc", len(times), incidents, steps=steps, digests={0: digest, 1: digest})


def test_every_kind_fails_in_turn_and_is_healed_before_the_next() -> None:
    found = schedule(Plan(), 21.0)
    assert [i.kind for i in found[:5]] == list(KINDS)
    assert [i.at for i in found] == [1.0 + 2 * n for n in range(10)]
    assert all(a.until <= b.at for a, b in itertools.pairwise(found))
    assert all(i.plane == 0 for i in found if i.kind == "all planes down")
    assert all(1 <= i.plane <= 4 for i in found if i.kind != "all planes down")


def test_a_seed_repeats_and_another_differs() -> None:
    assert schedule(Plan(seed=5), 60) == schedule(Plan(seed=5), 60)
    assert schedule(Plan(seed=5), 60) != schedule(Plan(seed=6), 60)


@pytest.mark.parametrize(
    "wrong", [{"ranks": 1}, {"steps": 3}, {"every": 1.0}, {"planes": 1}, {"rate_bps": 1}]
)
def test_plans_that_cannot_be(wrong: dict) -> None:
    with pytest.raises(UsageError):
        Plan(**wrong)


def test_a_run_that_kept_everything() -> None:
    assert judge(run([0.1] * 20), run([0.1] * 20)).ok


def test_other_parameters_break_the_promise() -> None:
    assert "parameters differ" in judge(run([0.1] * 9, digest="x"), run([0.1] * 9)).broken[0]


def test_ranks_that_disagree_break_the_promise() -> None:
    torn = run([0.1] * 9)
    torn.digests[1] = "y"
    assert not judge(torn, run([0.1] * 9)).ok


def test_a_lost_step_breaks_the_promise() -> None:
    short = run([0.1] * 9)
    short.wanted = 10
    assert "lost 1 steps" in judge(short, run([0.1] * 10)).broken[0]


def test_a_slow_step_counts_unless_every_plane_was_down() -> None:
    times = [0.1] * 10 + [1.1] + [0.1] * 10
    everything = Incident(kind="all planes down", plane=0, t1=0, at=1.0, seconds=1.0)
    one = dataclasses.replace(everything, kind="plane down", plane=2)
    assert judge(run(times, incidents=(everything,)), run([0.1] * 21)).ok
    assert "a step took 1100 ms" in judge(run(times, incidents=(one,)), run([0.1] * 21)).broken[0]


def test_the_figures_of_a_run() -> None:
    told = outcome(run([0.1] * 10 + [0.3]))
    assert (told["steps"], told["steps_lost"], told["median_step_ms"], told["slowest_step_ms"]) == (
        11,
        0,
        100,
        300,
    )


def test_spans_that_meet() -> None:
    incident = Incident(kind="flap", plane=1, t1=0, at=2.0, seconds=1.0)
    assert overlaps(1.5, 2.1, [incident], "flap")
    assert not overlaps(1.5, 2.0, [incident], "flap")
    assert not overlaps(3.0, 4.0, [incident], "flap")
    assert not overlaps(2.2, 2.4, [incident], "plane down")


def test_failures_on_loopback_hit_the_paths_they_name() -> None:
    plan = Plan(planes=2, t1=2)
    evs = {1: [10, 11, 12, 13], 2: [20, 21, 22, 23]}
    incidents = [
        Incident(kind="T1 reboot", plane=1, t1=1, at=1.0, seconds=1.0),
        Incident(kind="5 % loss", plane=2, t1=0, at=3.0, seconds=1.0),
        Incident(kind="plane down", plane=2, t1=0, at=5.0, seconds=1.0),
        Incident(kind="all planes down", plane=0, t1=0, at=7.0, seconds=1.0),
        Incident(kind="flap", plane=1, t1=0, at=9.0, seconds=1.0),
    ]
    found = rules_for(LoopbackPlace(plan).rules(incidents, 100.0), evs)
    rates, harms = found[:2], found[2:]
    assert [(r.plane, r.rate_bps) for r in rates] == [(1, plan.rate_bps), (2, plan.rate_bps)]
    reboot = [r for r in harms if r.start == 101.0]
    assert [(r.ev, r.down) for r in reboot] == [(11, True), (13, True)]
    assert [(r.ev, r.drop) for r in harms if r.start == 103.0] == [(20, 0.05), (22, 0.05)]
    assert [(r.plane, r.ev, r.down, r.stop) for r in harms if r.start == 105.0] == [(2, None, True, 106.0)]
    assert [(r.plane, r.down) for r in harms if r.start == 107.0] == [(0, True)]
    assert [(round(r.start, 3), round(r.stop, 3)) for r in harms if r.start >= 109.0] == [
        (109.0, 109.2),
        (109.4, 109.6),
        (109.8, 110.0),
    ]
