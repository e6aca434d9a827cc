"""What faults make of a link together."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softmrc.errors import UsageError
from softmrc.lab.condition import Harm, LineState, LinkState, compose

SHARES = st.floats(0.01, 1.0)
HARMS = st.one_of(
    st.just(Harm()),
    st.builds(Harm, silent=st.just(True), direction=st.sampled_from(["both", "up", "down"])),
    st.builds(
        Harm, loss=SHARES, corrupt=SHARES, rate=SHARES, direction=st.sampled_from(["both", "up", "down"])
    ),
)


def test_nothing_wrong_is_a_healthy_link() -> None:
    assert compose([]) == LinkState()
    assert not LineState().damaged


def test_losses_are_independent_and_the_lowest_rate_holds() -> None:
    state = compose([(Harm(loss=0.5, rate=0.5), "b"), (Harm(loss=0.5, rate=0.25, direction="up"), "b")])
    assert (state.up.loss, state.up.rate) == (0.75, 0.25)
    assert (state.down.loss, state.down.rate) == (0.5, 0.5)


def test_a_hole_loses_everything_and_cuts_nothing() -> None:
    state = compose([(Harm(silent=True, direction="down"), "b"), (Harm(loss=0.1), "b")])
    assert (state.down.loss, state.cut) == (1.0, frozenset())
    assert state.up.loss == pytest.approx(0.1)


def test_a_link_is_down_at_each_end_that_a_fault_sets_down() -> None:
    assert compose([(Harm(), "a"), (Harm(), "b"), (Harm(), "a")]).cut == {"a", "b"}


@given(st.lists(HARMS, max_size=4))
def test_the_order_of_faults_does_not_matter(harms: list[Harm]) -> None:
    states = [compose((h, "b") for h in order) for order in itertools.permutations(harms)]
    for state in states:
        assert state.cut == states[0].cut
        for ours, its in ((state.up, states[0].up), (state.down, states[0].down)):
            assert ours.loss == pytest.approx(its.loss)
            assert ours.corrupt == pytest.approx(its.corrupt)
            assert ours.rate == its.rate


@given(HARMS)
def test_a_harm_survives_the_ledger(harm: Harm) -> None:
    assert Harm(**harm.to_json()) == harm


@pytest.mark.parametrize(
    ("what", "word"),
    [
        ({"loss": 1.5}, "loss"),
        ({"loss": -0.1}, "loss"),
        ({"corrupt": 2}, "corrupt"),
        ({"rate": 0}, "rate"),
        ({"rate": 1.1}, "rate"),
        ({"loss": float("nan")}, "loss"),
        ({"silent": True, "direction": "left"}, "direction"),
        ({"direction": "up"}, "both directions"),
        ({"end": "middle"}, "end"),
        ({"loss": 0.1, "end": "upper"}, "end"),
    ],
)
def test_what_cannot_be_is_refused(what: dict[str, object], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        Harm(**what)  # type: ignore[arg-type]


def test_words_say_what_is_wrong() -> None:
    assert Harm().words() == "down"
    assert Harm(end="lower").words() == "lower end down"
    assert Harm(loss=0.05, rate=0.1, direction="up").words() == "loss 0.05, rate x 0.1, up only"
