"""Who is to blame, from reports alone."""

from __future__ import annotations

from typing import Any

import pytest

from softmrc.collectives.calls import Call, Collective
from softmrc.collectives.cause import Evidence, Report, judge
from softmrc.collectives.vitals import State


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


ROOT_0, ROOT_1 = (Call(Collective.BROADCAST, root=root, nbytes=400).print() for root in (0, 1))
BARRIER = Call(Collective.BARRIER).print()


def test_who_called_something_else() -> None:
    """All ranks and what each called, also when the one that differs is ahead and waits for nobody."""
    reports = {
        0: Report(count=3, prints={2: BARRIER, 3: ROOT_0}, waits=(1,)),
        1: Report(count=4, prints={2: BARRIER, 3: ROOT_1, 4: BARRIER}),
        2: Report(count=3, prints={2: BARRIER, 3: ROOT_0}, waits=(0,)),
        3: Report(count=2, prints={2: BARRIER}),
    }
    text = judge(evidence(reports=reports))
    assert text.startswith(
        "ranks called different collectives: rank 0 and rank 2 called broadcast of 400 bytes with root 0, "
        "rank 1 called broadcast of 400 bytes with root 1; every rank"
    )
    assert "rank 3" not in text


def test_calls_that_differ_explain_what_followed() -> None:
    """A rank that has left, and lanes that failed, are no cause but what came of it."""
    reports = without(3) | {1: Report(count=3, prints={3: ROOT_1}), 0: Report(count=3, prints={3: ROOT_0})}
    reports[2] = Report(count=3, ended={3: ("left", 0.1)})
    text = judge(evidence(reports=reports, failed={"peer": 1, "status": "remote_access_error"}))
    assert text.startswith("ranks called different collectives: rank 0 called broadcast")


def test_what_a_rank_says_of_lengths_counts() -> None:
    reports = without() | {2: Report(count=3, last="all_to_all_v", says="ranks differ about bytes")}
    assert judge(evidence(reports=reports)) == "ranks differ about bytes"


def test_many_ranks_are_counted() -> None:
    reports = {r: Report(count=1, prints={1: ROOT_1 if r == 7 else ROOT_0}) for r in range(40)}
    text = judge(evidence(members=list(range(40)), reports=reports))
    assert "rank 6, rank 8 and 31 more called broadcast of 400 bytes with root 0, rank 7 called" in text


def test_uneven_calls_may_have_other_sizes_on_each_rank() -> None:
    uneven = Call(Collective.ALL_TO_ALL_V).print()
    reports = {r: Report(count=3, last="all_to_all_v", nbytes=r, prints={3: uneven}) for r in range(4)}
    assert "different" not in judge(evidence(reports=reports))


DYING = State("ends", "was killed (SIGKILL)")


def test_a_dying_process_is_gone_whatever_still_answers_for_it() -> None:
    """Its memory goes first and its sockets last: the kernel knows before they close."""
    reports = without(2) | {3: Report(count=3, last="all_reduce", seen={2: DYING, 0: State("runs")})}
    for acked in (frozenset[int](), frozenset({2})):
        text = judge(
            evidence(reports=reports, acked=acked, failed={"peer": 2, "status": "remote_access_error"})
        )
        assert text.startswith("rank 2 is gone: its process was killed (SIGKILL) 0.0 s ago")


def test_how_a_process_ended_is_said_if_it_is_known() -> None:
    reports = without(2) | {
        3: Report(count=3, ended={2: ("gone", 0.4)}, seen={2: State("ends", "exited (status 3)")})
    }
    assert judge(evidence(reports=reports)).startswith(
        "rank 2 is gone: its process exited (status 3) 0.4 s ago"
    )


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (State("stopped"), "its process is stopped; "),
        (State("runs"), "its process runs, so"),
        (None, "is its host cut off or down, or its process stopped?"),
    ],
)
def test_stopped_is_said_of_a_stopped_process_alone(state: State | None, words: str) -> None:
    seen = {} if state is None else {2: state}
    text = judge(evidence(reports=without(2) | {3: Report(count=3, seen=seen)}))
    assert text.startswith(f"rank 2 does not answer on any plane: {words}")


def test_a_process_that_was_stopped_after_it_had_acknowledged_is_stopped() -> None:
    reports = without(2) | {3: Report(count=3, seen={2: State("stopped")})}
    text = judge(evidence(reports=reports, acked=frozenset({2})))
    assert text.startswith("rank 2 does not answer on any plane: its process is stopped")


def test_with_all_others_stopped_a_stopped_one_is_named() -> None:
    mine = {0: Report(count=3, seen={r: State("stopped") for r in (1, 2, 3)})}
    assert judge(evidence(reports=mine)).startswith(
        "rank 2 does not answer on any plane: its process is stopped"
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
