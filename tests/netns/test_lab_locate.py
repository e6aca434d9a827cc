"""Which link is bad: probes through a lab's own switches name it, and endpoints keep off it (B62)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.netns.test_lab_paths import Across, total

from softmrc.lab import Lab, faults
from softmrc.lab.mapper import Change, Prober
from softmrc.srv6 import Denylist

PLANES = 4


@pytest.fixture(scope="module")
def four(lab_maker: Callable[..., Lab]) -> Lab:
    """Four planes of 50 Mbit/s, two T0s, four T1s, four hosts."""
    return lab_maker(planes=PLANES, t0=2, t1=4, hosts=4, rate_bps=50_000_000, switch="kernel")


@pytest.fixture(autouse=True)
def _healed(four: Lab) -> Iterator[None]:
    yield
    faults.heal(four)
    Denylist().write(Denylist.beside(four.fabric_file))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def until(prober: Prober, what: str, seconds: float) -> Change | None:
    """Probe until something of that kind changes."""
    return next((c for c in prober.run(seconds) if c is not None and c.what == what), None)


@pytest.mark.parametrize(
    ("target", "harm"),
    [
        ("h1.p2", {}),
        ("p3.t0-1.t1-2", {}),
        ("p1.t1-3", {}),
        ("p4.t0-0", {}),
        ("p2", {}),
        ("h2", {}),
        ("h3.p4", {"silent": True, "direction": "down"}),
        ("p2.t0-0.t1-1", {"loss": 0.1}),
    ],
)
def test_exactly_what_was_broken_is_named_and_its_end_seen(
    four: Lab, target: str, harm: dict[str, Any]
) -> None:
    with Prober(four) as prober:
        assert until(prober, "found", 0.2) is None
        faults.fail(four, target, **harm)
        change = until(prober, "found", 8.0)
        assert change is not None
        assert change.finding.name == target
        assert change.finding.found - change.finding.since < (1.0 if not harm.get("loss") else 8.0)
        faults.heal(four)
        assert until(prober, "cleared", 8.0) is not None
        assert not prober.findings


def denied(across: Across) -> set[int]:
    """Planes all of whose EVs are denied."""
    planes: dict[int, set[str]] = {}
    for path in across.paths():
        planes.setdefault(path["plane"], set()).add(path["state"])
    return {plane for plane, states in planes.items() if states == {"denied"}}


def soon(check: Callable[[], bool], seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while not (done := check()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return done


def test_a_lossy_host_link_is_named_and_left_alone_until_it_is_well(four: Lab, stack: ExitStack) -> None:
    """B62: 2 % loss on one port of the receiver: named as host and plane, denied, and nothing is lost any more."""
    file = Denylist.beside(four.fabric_file)
    across = Across(four, stack)
    across.stream()
    time.sleep(0.5)
    before = total(across.rates(1.0))
    prober = stack.enter_context(Prober(four))
    faults.fail(four, "h3.p1", loss=0.02)
    change = until(prober, "found", 20.0)
    assert change is not None
    assert (change.finding.name, change.finding.candidate.also) == ("h3.p1", ())
    prober.denylist().write(file)
    assert soon(lambda: denied(across) == {1})
    time.sleep(0.5)  # what was under way
    lost = sum(p["lost"] for p in across.paths())
    during = across.rates(2.0)
    assert total(during) > 0.9 * before * (PLANES - 1) / PLANES
    assert max(rates["1"] for rates in during) < 0.01 * before
    assert sum(p["lost"] for p in across.paths()) == lost
    faults.heal(four)
    assert until(prober, "cleared", 20.0) is not None
    prober.denylist().write(file)
    assert soon(lambda: not denied(across))
    assert soon(lambda: total(across.rates(0.5)) > 0.9 * before)


def test_the_last_plane_of_a_host_is_never_denied(four: Lab, stack: ExitStack) -> None:
    """B62: whatever the list says, a connection keeps the plane that loses least."""
    file = Denylist.beside(four.fabric_file)
    Denylist({"h0.p1": 0.3, "h3.p2": 0.1, "p3": 0.2, "p4.t0-0": 1.0}).write(file)
    across = Across(four, stack)
    assert denied(across) == {1, 3, 4}
    Denylist({"h0.p1": 0.3}).write(file)
    assert soon(lambda: denied(across) == {1})
    Denylist({"p2.t0-0.t1-1": 0.3}).write(file)
    assert soon(lambda: not denied(across))
    assert {p["path"] for p in across.paths() if p["state"] == "denied"} == {"p2 t0-0 t1-1 t0-1"}


def test_what_was_dead_before_the_start_costs_nothing(four: Lab, stack: ExitStack) -> None:
    """B64: one in ten links between switches is dead; who starts with a denylist of them loses no packet to them."""
    dead = {"p1.t0-0.t1-1", "p2.t0-1.t1-3", "p4.t0-0.t1-0"}
    for link in dead:
        faults.fail(four, link, silent=True)
    prober = stack.enter_context(Prober(four))
    deadline = time.monotonic() + 10.0
    for _ in prober.run(10.0):
        if {f.name for f in prober.findings} >= dead or time.monotonic() > deadline:
            break
    assert {f.name for f in prober.findings} == dead
    prober.denylist().write(Denylist.beside(four.fabric_file))
    across = Across(four, stack, evs_per_plane=32)
    across.stream()
    time.sleep(2.0)
    paths = across.paths()
    assert len(paths) == 128
    assert sum(p["state"] == "denied" for p in paths) == 8 * len(dead)
    assert {p["state"] for p in paths} <= {"good", "skip", "denied"}
    assert sum(p["lost"] for p in paths) < 10


def locate(lab: Lab, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "softmrc.cli.app", "lab", "locate", "--name", lab.name, *words],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_the_command_tells_people_and_programs(four: Lab) -> None:
    faults.fail(four, "h2.p3", silent=True)
    done = locate(four, "--for", "1s", "--deny", "--json")
    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert [(f["element"], f["kind"], f["denied"]) for f in result["found"]] == [("h2.p3", "link", True)]
    assert result["found"][0]["loss"] > 0.9
    assert Denylist.read(Denylist.beside(four.fabric_file)).denied.keys() == {"h2.p3"}
    lines = locate(four, "--for", "1s", "--watch", "--json").stdout.splitlines()
    assert next((x["event"], x["element"]) for x in map(json.loads, lines)) == ("found", "h2.p3")
    assert "h2.p3" in locate(four, "--for", "1s").stdout
    faults.heal(four)
    done = locate(four, "--for", "0.5s", "--undeny")
    assert done.returncode == 0
    assert "nothing is bad" in done.stdout
    assert not Denylist.read(Denylist.beside(four.fabric_file)).denied
