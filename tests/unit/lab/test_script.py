"""Scripts of timed failures: what they say, in which order, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from softmrc.errors import UsageError
from softmrc.lab import LabSpec, amounts
from softmrc.lab.condition import Harm
from softmrc.lab.names import Link
from softmrc.lab.plan import Plan, make_plan
from softmrc.lab.script import Action, Script
from softmrc.lab.targets import find_links


@dataclass
class Paper:
    """A lab as far as scripts look at it."""

    plan: Plan = field(default_factory=lambda: make_plan(LabSpec(planes=2, t0=2, t1=4, hosts=4)))

    @property
    def links(self) -> list[Link]:
        return self.plan.links

    @property
    def nodes(self) -> list[str]:
        return list(self.plan.nodes)

    def links_of(self, target: str) -> list[Link]:
        return find_links(self.plan, target)


def actions(text: str) -> list[Action]:
    lab: Any = Paper()
    return Script.parse(text).actions(lab)


def test_a_fault_with_a_duration_is_two_actions() -> None:
    assert actions('[[fault]]\nat = "1.5s"\ntarget = "p1"\nfor = "200ms"\nloss = "5%"') == [
        Action(1.5, "p1", Harm(loss=0.05), 1),
        Action(1.7, "p1", None, 1),
    ]


def test_several_targets_fail_together_and_heal_each() -> None:
    found = actions('[[fault]]\ntarget = ["h0.p1", "h1.p1"]\nfor = 1\ntimes = 2\nevery = 3')
    assert [(a.at, a.target, a.harm is None) for a in found] == [
        (0, "h0.p1", False), (0, "h1.p1", False), (1, "h0.p1", True), (1, "h1.p1", True),
        (3, "h0.p1", False), (3, "h1.p1", False), (4, "h0.p1", True), (4, "h1.p1", True),
    ]  # fmt: skip
    assert len({a.key for a in found}) == 4


def test_the_simulators_words_are_read() -> None:
    text = """
    [[fault]]
    kind = "link_loss"
    target = "p1.t0-0.t1-0"
    direction = "up"
    value = 0.2
    at_ns = "2 ms"
    duration_ns = 1000000
    [[fault]]
    kind = "switch_reboot"
    target = "p2.t1-3"
    at_ns = "1 ms"
    duration_ns = "5 ms"
    [[fault]]
    kind = "port_up"
    target = "h0.p1"
    at_ns = "9 ms"
    """
    found = actions(text)
    assert [(round(a.at, 9), a.target, a.harm) for a in found] == [
        (0.001, "p2.t1-3", Harm()),
        (0.002, "p1.t0-0.t1-0", Harm(loss=0.2, direction="up")),
        (0.003, "p1.t0-0.t1-0", None),
        (0.006, "p2.t1-3", None),
        (0.009, "h0.p1", None),
    ]
    assert found[-1].key == 0


def test_what_is_drawn_comes_from_the_seed() -> None:
    text = 'seed = {}\n[[fault]]\npick = {{ of = "t0-t1", count = 5 }}\n'
    one, again, other = (actions(text.format(seed)) for seed in (1, 1, 2))
    assert one == again != other
    assert len({a.target for a in one}) == 5
    links = {link.name for link in Paper().links if link.kind == "fabric"}
    assert {a.target for a in one} <= links


def test_picks_keep_to_their_plane_and_kind() -> None:
    assert [a.target for a in actions('[[fault]]\npick = { of = "t1", fraction = 1.0, plane = 2 }')] == [
        f"p2.t1-{i}" for i in range(4)
    ]
    assert len(actions('[[fault]]\npick = { of = "host-t0", fraction = 0.5 }')) == 4


def test_strokes_at_random_end_in_time() -> None:
    found = actions(
        '[[fault]]\ntarget = ["h0.p1", "h1.p1"]\npoisson = true\nevery = 0.1\nuntil = 10\nfor = 0.01'
    )
    strokes = [a for a in found if a.harm is not None]
    assert 60 < len(strokes) < 140
    assert max(a.at for a in strokes) < 10
    assert {a.target for a in strokes} == {"h0.p1", "h1.p1"}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "fault"),
        ("x = [", "TOML"),
        ("[[fault]]", "target"),
        ('[[fault]]\ntarget = "p1"\npick = { of = "t0", count = 1 }', "both"),
        ('[[fault]]\ntarget = "p1"\nlos = 1', "did you mean loss"),
        ('[[fault]]\ntarget = "p1"\nloss = "150%"', "fault.0..loss"),
        ('[[fault]]\ntarget = "p1"\nat = "soon"', "fault.0..at"),
        ('[[fault]]\ntarget = "p1"\nat = -1', "fault.0..at"),
        ('[[fault]]\ntarget = "p1"\ndirection = "up"', "both directions"),
        ('[[fault]]\ntarget = "p1"\nkind = "meteor"', "kind"),
        ('[[fault]]\ntarget = "p1"\nvalue = 0.5', "kind"),
        ('[[fault]]\ntarget = "p1"\ntimes = 3', "every"),
        ('[[fault]]\ntarget = "p1"\npoisson = true\nevery = 1', "until"),
        ('[[fault]]\ntarget = "p1"\nflap = "1s"', "flap"),
        ('[[fault]]\npick = { of = "t9", count = 1 }', "of"),
        ('[[fault]]\npick = { of = "t1" }', "count or fraction"),
        ('seed = "x"\n[[fault]]\ntarget = "p1"', "seed"),
    ],
)
def test_what_is_wrong_is_named(text: str, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        Script.parse(text)


@pytest.mark.parametrize(
    "what", ['target = "p7"', 'pick = { of = "t2", count = 1 }', 'pick = { of = "t1", count = 9 }']
)
def test_what_the_lab_does_not_have_is_named_before_it_begins(what: str) -> None:
    with pytest.raises(UsageError):
        actions(f"[[fault]]\n{what}")


def test_amounts() -> None:
    assert [amounts.seconds(t, "t") for t in ("3s", "200ms", "1.5min", "2s", 0.5)] == [
        3,
        0.2,
        90,
        2,
        0.5,
    ]
    assert [amounts.share(t, "s") for t in ("5%", "0.05", 0.05, "100%", 0)] == [0.05, 0.05, 0.05, 1, 0]
    assert amounts.flap("200ms/800ms", "f") == (0.2, 0.8)
    for wrong in ("", "s", "3 apples", "-1s", "nan"):
        with pytest.raises(UsageError):
            amounts.seconds(wrong, "t")
    for wrong in ("101%", "-5%", "five", "5s", ""):
        with pytest.raises(UsageError):
            amounts.share(wrong, "s")
    for wrong in ("1s", "0s/1s", "/", "1s/2s/3s"):
        with pytest.raises(UsageError):
            amounts.flap(wrong, "f")
