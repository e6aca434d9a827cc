"""The oracle itself: what is wrong with a program is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from softmrc.collectives.interpreter import BadProgram, Memory, interpret
from softmrc.collectives.program import EAGER_MAX, INPUT, OUTPUT, SCRATCH, Place, Program, Steps
from softmrc.collectives.races import races

IN, OUT, HERE = Place(INPUT, 0), Place(OUTPUT, 0), Place(SCRATCH, 0)


def programs(*writers: Callable[[Steps], object], scratch: int = 64) -> list[Program]:
    made = []
    for write in writers:
        steps = Steps()
        steps.scratch(scratch)
        write(steps)
        made.append(Program(0, 0, len(writers), steps.scratch_bytes, tuple(steps.list), (1,) * len(writers)))
    return made


def run(made: list[Program], seed: int = 0, slots: int = 16) -> list[bytes]:
    places = [Memory(bytearray([rank + 1] * 16), bytearray(16)) for rank in range(len(made))]
    interpret(made, places, seed=seed, slots=slots)
    return [bytes(place.output) for place in places]


def test_a_right_program() -> None:
    made = programs(
        lambda s: s.send(1, IN, OUT, 16, eager=False),
        lambda s: s.recv(0, OUT, 16, eager=False),
    )
    assert races(made, [None, None]) == []
    assert run(made) == [bytes(16), b"\x01" * 16]


BAD: dict[str, tuple[Callable[[Steps], object], Callable[[Steps], object], str]] = {
    "nobody sends": (lambda s: None, lambda s: s.recv(0, OUT, 4, eager=True), "stands still"),
    "nobody receives": (lambda s: s.send(1, IN, OUT, 4, eager=True), lambda s: None, "takes fewer"),
    "other lengths": (
        lambda s: s.send(1, IN, OUT, 4, eager=True),
        lambda s: s.recv(0, OUT, 8, eager=True),
        "meets",
    ),
    "other ways": (
        lambda s: s.send(1, IN, OUT, 4, eager=False),
        lambda s: s.recv(0, OUT, 4, eager=True),
        "meets",
    ),
    "another place": (
        lambda s: s.send(1, IN, OUT.at(4), 4, eager=False),
        lambda s: s.recv(0, OUT, 4, eager=False),
        "elsewhere",
    ),
    "beyond the output": (
        lambda s: s.send(1, IN, OUT.at(8), 16, eager=False),
        lambda s: s.recv(0, OUT.at(8), 16, eager=False),
        "of buffer 1 of rank 1",
    ),
    "beyond the input": (lambda s: s.copy(IN.at(12), HERE, 8), lambda s: None, "of buffer 0 of rank 0"),
    "to itself": (lambda s: s.send(0, IN, OUT, 4, eager=True), lambda s: None, "itself"),
    "too long for a slot": (
        lambda s: s.send(1, HERE, OUT, EAGER_MAX + 1, eager=True),
        lambda s: None,
        "too long",
    ),
    "waits for itself": (lambda s: s.copy(IN, OUT, 4, (0,)), lambda s: None, "no earlier step"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_programs_are_refused(name: str) -> None:
    first, second, words = BAD[name]
    with pytest.raises(BadProgram, match=words):
        run(programs(first, second, scratch=EAGER_MAX + 64))


def test_too_few_slots_stand_still() -> None:
    """Rank 1 takes the second message first; with one slot it never comes."""

    def sends(steps: Steps) -> None:
        steps.send(1, IN, OUT, 4, eager=True)
        steps.send(1, IN, OUT, 4, eager=True)
        steps.await_signal(1)

    def waits(steps: Steps) -> None:
        first = steps.await_signal(2)
        steps.recv(0, OUT, 4, (first,), eager=True)
        steps.recv(0, OUT.at(4), 4, eager=True)
        steps.signal(0)

    def after(steps: Steps) -> None:
        steps.signal(1)

    assert run(programs(sends, waits, after), slots=1)[1][:8] == b"\x01" * 8


RACES: dict[str, tuple[Callable[[Steps], object], Callable[[Steps], object]]] = {
    "two copies into one place": (
        lambda s: (s.copy(IN, OUT, 8), s.copy(IN.at(8), OUT.at(4), 8)),
        lambda s: None,
    ),
    "a landing over what is still being read": (
        lambda s: s.send(1, IN, HERE, 16, eager=False),
        lambda s: (s.copy(HERE, OUT, 16), s.recv(0, HERE, 16, eager=False)),
    ),
    "a reuse before the receiver has it": (
        lambda s: (s.send(1, HERE, OUT, 16, eager=False), s.copy(IN, HERE, 16)),
        lambda s: s.recv(0, OUT, 16, eager=False),
    ),
    "an acknowledged send is no receive": (
        lambda s: (
            s.send(1, IN, HERE, 16, eager=False),
            s.send(1, IN, HERE, 16, (0,), eager=False),
        ),
        lambda s: (
            s.recv(0, HERE, 16, eager=False),
            s.copy(HERE, OUT, 16, (0,)),
            s.recv(0, HERE, 16, eager=False),
        ),
    ),
}


@pytest.mark.parametrize("name", RACES)
def test_races_are_found(name: str) -> None:
    first, second = RACES[name]
    made = programs(first, second)
    assert races(made, [None, None])


def test_shared_memory_counts() -> None:
    """Input and output in one memory: a copy forward races with what reads behind it."""
    made = programs(lambda s: (s.copy(IN, OUT, 8), s.copy(IN.at(8), OUT.at(8), 8)))
    assert races(made, [None]) == []
    assert races(made, [(0, 8)])
