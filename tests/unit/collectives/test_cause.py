"""Who is to blame, from reports alone."""

from __future__ import annotations

from typing import Any

import pytest

from softmrc.collectives.cause import Evidence, Report, judge


def evidence(**changed: Any) -> Evidence:
    """Four ranks in their third collective, all of which answer and wait for nobody."""
    given: dict[str, Any] = {
        "members": [0, 1, 2, 3],
        "me": 0,
        "what": "all_reduce",
        "waited": 5.0,
        "reports": {r: Report(count=3, last="all_reduce", nbytes=64) for r in range(4)},
        "acked": frozenset(),
        "silent_for": {1: 0.2, 2: 5.1, 3: 0.1},
        "planes": lambda rank: "1 (10.0.0.1)",
        "together": "barrier (number 2)",
    }
    return Evidence(**{**given, **changed})


def without(*ranks: int) -> dict[int, Report]:
    return {r: Report(count=3, last="all_reduce", nbytes=64) for r in range(4) if r not in ranks}


def test_a_rank_that_does_not_answer_is_named_with_planes_and_last_heard() -> None:
    """B08."""
    text = judge(evidence(reports=without(2)))
    assert text.startswith("rank 2 does not answer on any plane")
    assert "last finished with it: barrier (number 2)" in text
    assert "tried planes 1 (10.0.0.1)" in text
    assert "last heard 5.1 s ago" in text
    assert text.endswith("the others were in all_reduce after 5.0 s")


def test_of_several_silent_ranks_the_one_silent_for_longest() -> None:
    assert judge(evidence(reports=without(1, 2))).startswith("rank 2 ")


def test_a_live_engine_with_a_stuck_program_is_something_else() -> None:
    text = judge(evidence(reports=without(2), acked=frozenset([2])))
    assert text.startswith("rank 2 is alive")


def test_stopped_goes_before_stuck() -> None:
    text = judge(evidence(reports=without(1, 2), acked=frozenset([2])))
    assert text.startswith("rank 1 does not answer")


def test_who_hears_nobody_names_itself() -> None:
    text = judge(evidence(reports=without(1, 2, 3)))
    assert text.startswith("rank 0 hears no other rank on any plane")


def test_of_two_ranks_the_other_is_named() -> None:
    mine = {0: Report(count=1, last="barrier")}
    assert judge(evidence(members=[0, 1], reports=mine)).startswith("rank 1 does not answer")


def test_the_first_that_ended_is_to_blame_for_the_others() -> None:
    reports = without()
    reports[3] = Report(count=3, ended={1: ("left", 0.2), 2: ("gone", 0.9)})
    reports[0] = Report(count=3, ended={1: ("left", 0.3)})
    text = judge(evidence(reports=reports))
    assert text.startswith("rank 2 is gone: its process ended 0.9 s ago")


def test_the_end_of_a_rank_outside_of_the_group_means_nothing() -> None:
    reports = {r: Report(count=1, last="barrier", ended={9: ("gone", 3.0)}) for r in (0, 1)}
    assert "rank 9" not in judge(evidence(members=[0, 1], reports=reports))


def test_who_has_called_less_is_behind() -> None:
    reports = without(1) | {1: Report(count=2, last="barrier")}
    text = judge(evidence(reports=reports))
    assert text.startswith("rank 1 answers, but has not called number 3")
    assert "it had reached barrier (number 2)" in text


def test_who_has_not_made_the_group() -> None:
    assert judge(evidence(reports=without(3) | {3: Report(knows=False)})).startswith(
        "rank 3 answers, but has not made"
    )


def test_who_called_something_else() -> None:
    reports = without(1) | {1: Report(count=3, last="broadcast", nbytes=8)}
    assert judge(evidence(reports=reports)).startswith(
        "rank 1 called broadcast (8 bytes) where others called all_reduce"
    )


def test_a_failed_lane_names_its_peer() -> None:
    assert "the lane to it failed (retry_exceeded)" in judge(
        evidence(failed={"peer": 3, "status": "retry_exceeded"})
    )


def test_else_the_one_most_waited_for() -> None:
    reports = {r: Report(count=3, last="all_reduce", waits=(1,) if r == 2 else (2,)) for r in range(4)}
    assert judge(evidence(reports=reports)).startswith("rank 2 answers and takes part")


def test_the_same_evidence_gives_the_same_text_whoever_asks() -> None:
    one = judge(evidence(reports=without(2)))
    reports = dict(sorted(without(2).items(), reverse=True))
    assert judge(evidence(reports=reports)) == one


@pytest.mark.parametrize("data", [{"count": "x"}, {"last": 3}, {"ended": {"a": 1}}, {"waits": 5}])
def test_reports_of_strangers_do_not_pass(data: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError, AttributeError)):
        Report.from_json(data)
