"""Path policies and controllers in Python: equal to the engine's own, packet for packet; their errors come out."""

from __future__ import annotations

import gc
import runpy
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softmrc.errors import UsageError
from softmrc.sim import policies
from softmrc.sim.builder import Builder
from softmrc.sim.config import Clos, Fault, Mrc
from softmrc.sim.policies import (
    Ack,
    Controller,
    Link,
    PathPolicy,
    Slots,
    WindowController,
    load_plugins,
    register_controller,
    register_policy,
)
from softmrc.sim.run import Outcome, simulate
from softmrc.sim.scenario import Scenario
from softmrc.sim.sweep import run_sweep
from softmrc.sim.sweep_file import Sweep
from softmrc.sim.workload import Workload

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "sim_policy.py"
FABRIC = Clos(hosts=8, planes=2, hosts_per_t0=4, t1_per_plane=2)
LOSSY = (Fault(0, "link_loss", "p1.t0-0.t1-0", 0.02), Fault(5_000, "link_down", "p2.t0-1.t1-1"))


@pytest.fixture(scope="module", autouse=True)
def example() -> None:
    load_plugins([EXAMPLE])


def workload(size: int = 200_000) -> Workload:
    builder = Builder()
    builder.sends([0, 1, 2, 3, 5], [4, 4, 4, 6, 0], size)
    return builder.build()


def run(transport: Mrc, **more: Any) -> Outcome:
    return simulate(FABRIC, workload(), transport, seed=4, check=True, **more)


def assert_equal(ours: Outcome, theirs: Outcome) -> None:
    assert ours.stopped == theirs.stopped == "done"
    assert ours.totals == theirs.totals
    for group in ("tasks", "flows", "links", "ev_events"):
        mine, other = getattr(ours, group), getattr(theirs, group)
        for name in other:
            assert np.array_equal(mine[name], other[name]), (group, name)
    assert ours.totals["data_packets_rtx"] > 0


def test_round_robin_is_the_engine_s_own() -> None:
    assert_equal(
        run(Mrc(evs=16, policy="example-rr"), faults=LOSSY), run(Mrc(evs=16, policy="rr"), faults=LOSSY)
    )


def test_another_order_is_another_run() -> None:
    ours = run(Mrc(evs=16, policy="example-rr"), faults=LOSSY)
    other = run(Mrc(evs=16), faults=LOSSY)
    assert not np.array_equal(ours.links["tx_bytes"], other.links["tx_bytes"])


@pytest.mark.parametrize("config", [{}, {"max_cwnd": 60_000}])
def test_fixed_window_is_the_engine_s_own(config: dict[str, int]) -> None:
    ours = Mrc(evs=16, cc="example-fixed-window", cc_config=config)
    theirs = Mrc(evs=16, cc="fixed-window", cc_config=config)
    assert_equal(run(ours, faults=LOSSY), run(theirs, faults=LOSSY))


def test_planes_that_go_and_come_reach_both() -> None:
    faults = [Fault(8_000, "port_down", "h0.p1"), Fault(30_000, "port_up", "h0.p1"), *LOSSY]
    ours = Mrc(evs=16, policy="example-rr", cc="example-fixed-window")
    assert_equal(run(ours, faults=faults), run(Mrc(evs=16, policy="rr", cc="fixed-window"), faults=faults))


def test_a_controller_that_reacts_keeps_queues_shorter() -> None:
    fixed = simulate(FABRIC, workload(1_000_000), Mrc(evs=16, cc="example-fixed-window"))
    halved = simulate(FABRIC, workload(1_000_000), Mrc(evs=16, cc="example-halve-on-mark"))
    assert halved.stopped == "done"
    assert 3 * halved.totals["trims"] < fixed.totals["trims"]


class Raises(PathPolicy):
    where = "next"

    def reset(self, slots: Slots) -> None:
        if self.where == "reset":
            raise ZeroDivisionError("in reset")

    def next(self, slots: Slots, ports: int, avoid: int | None) -> int | None:
        if self.where == "next":
            raise LookupError("in next")
        return next((s for s in range(len(slots)) if slots.good(s) and ports >> slots.port(s) & 1), None)

    def feedback(self, slot: int, signal: str) -> None:
        if self.where == "feedback":
            raise RuntimeError(f"in feedback {signal}")


@pytest.mark.parametrize(
    ("where", "error", "words"),
    [
        ("reset", ZeroDivisionError, "in reset"),
        ("next", LookupError, "in next"),
        ("feedback", RuntimeError, "in feedback ok"),
    ],
)
def test_what_a_policy_raises_comes_out(where: str, error: type[Exception], words: str) -> None:
    register_policy("raises", type("Here", (Raises,), {"where": where}))
    with pytest.raises(error, match=words):
        run(Mrc(evs=16, policy="raises"))
    assert run(Mrc(evs=16)).stopped == "done"  # and the next run is none the worse


def test_what_a_controller_raises_comes_out() -> None:
    class Bad(WindowController):
        def on_ack(self, event: Ack) -> None:
            raise OverflowError("in on_ack")

    register_controller("bad", Bad)
    with pytest.raises(OverflowError, match="in on_ack"):
        run(Mrc(evs=16, cc="bad"))


class Answers(PathPolicy):
    answer: Any = None

    def next(self, slots: Slots, ports: int, avoid: int | None) -> Any:
        return self.answer(slots, ports) if callable(self.answer) else self.answer


def other_port(slots: Slots, ports: int) -> int:
    return next(s for s in range(len(slots)) if not ports >> slots.port(s) & 1)


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (16, ValueError, r"returned slot 16 of 16"),
        ("first", TypeError, r"answers: next\(\) returns a slot or None"),
        (-1, TypeError, r"a slot or None"),
        (lambda slots, ports: slots.tag(99), IndexError, "no such slot"),
    ],
)
def test_wrong_answers_are_refused(answer: Any, error: type[Exception], words: str) -> None:
    register_policy(
        "answers", type("Here", (Answers,), {"answer": staticmethod(answer) if callable(answer) else answer})
    )
    with pytest.raises(error, match=words):
        run(Mrc(evs=16, policy="answers"))


def test_a_busy_plane_is_refused() -> None:
    class Busy(PathPolicy):
        def next(self, slots: Slots, ports: int, avoid: int | None) -> int | None:
            busy = [s for s in range(len(slots)) if not ports >> slots.port(s) & 1]
            return busy[0] if busy else 0

    register_policy("busy", Busy)
    with pytest.raises(ValueError, match="which is not among `ports`"):
        run(Mrc(evs=16, policy="busy"))


def test_none_leaves_the_choice_to_the_table() -> None:
    register_policy("none", type("Here", (Answers,), {"answer": None}))
    assert run(Mrc(evs=16, policy="none")).stopped == "done"


def test_slots_are_good_for_one_call() -> None:
    kept: list[Slots] = []

    class Keeps(Raises):
        where = ""

        def next(self, slots: Slots, ports: int, avoid: int | None) -> int | None:
            kept.append(slots)
            return super().next(slots, ports, avoid)

    register_policy("keeps", Keeps)
    run(Mrc(evs=16, policy="keeps"))
    for use in (len, lambda s: s.tag(0), lambda s: s.below(2), lambda s: s.clear_skip(0)):
        with pytest.raises(ValueError, match="outside of the call"):
            use(kept[0])


def test_reset_only_looks() -> None:
    class Clears(Raises):
        where = ""

        def reset(self, slots: Slots) -> None:
            slots.clear_skip(0)

    register_policy("clears", Clears)
    with pytest.raises(ValueError, match="only looks"):
        run(Mrc(evs=16, policy="clears"))


def test_nothing_is_left_behind() -> None:
    made: list[weakref.ref[PathPolicy]] = []

    class Watched(Raises):
        where = ""

        def __init__(self) -> None:
            made.append(weakref.ref(self))

    register_policy("watched", Watched)
    run(Mrc(evs=16, policy="watched"))
    gc.collect()
    assert made
    assert all(ref() is None for ref in made)


def test_names() -> None:
    for name in ("", "bitmap"):
        with pytest.raises(UsageError):
            register_policy(name, Raises)
    for name in ("", "uet-1.0-nscc"):
        with pytest.raises(UsageError):
            register_controller(name, WindowController)
    with pytest.raises(
        UsageError, match=r"no path policy 'never registered'; there is .*bitmap, bitmap-flat"
    ):
        run(Mrc(evs=16, policy="never registered"))
    with pytest.raises(UsageError, match=r"no congestion control 'neither'; there is .*uet-1\.0-nscc"):
        run(Mrc(evs=16, cc="neither"))


def test_factories_that_make_something_else() -> None:
    register_policy("no policy", dict)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="made a dict, no PathPolicy"):
        run(Mrc(evs=16, policy="no policy"))
    register_controller("no controller", lambda config, link, now: object())  # type: ignore[arg-type, return-value]
    with pytest.raises(UsageError, match="made a object, no Controller"):
        run(Mrc(evs=16, cc="no controller"))


def test_controllers_hear_what_the_link_is_like() -> None:
    seen: list[tuple[int, bool, int]] = []

    class Looks(WindowController):
        def __init__(self, config: Any, link: Link, now_ns: int) -> None:
            super().__init__(config, link, now_ns)
            seen.append((link.bytes_per_second, link.trimming, link.mtu))

    register_controller("looks", Looks)
    run(Mrc(evs=16, cc="looks"))
    assert set(seen) == {(25_000_000_000, True, 4096 + 88)}
    with pytest.raises(TypeError):
        Controller({}, None, 0)  # type: ignore[abstract, arg-type]


def test_plugins(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    text = (
        "from softmrc.sim.policies import PathPolicy, register_policy\n"
        "class P(PathPolicy):\n    def next(self, slots, ports, avoid): return None\n"
    )
    file.write_text(text + "register_policy('mine', P)\n")
    load_plugins([file, str(file)])
    first = policies._policies["mine"]
    load_plugins([file])
    assert policies._policies["mine"] is first
    file.write_text(text + "register_policy('mine', P)\n# changed\n")
    load_plugins([file])
    assert policies._policies["mine"] is not first
    assert run(Mrc(evs=16, policy="mine")).stopped == "done"
    file.write_text("1 / 0\n")
    with pytest.raises(UsageError, match=r"mine\.py, line 1: ZeroDivisionError"):
        load_plugins([file])
    with pytest.raises(UsageError, match="cannot read plugin"):
        load_plugins([tmp_path / "none.py"])


SCENARIO = """
plugins = ["sim_policy.py"]
[fabric]
hosts = 8
planes = 2
hosts_per_t0 = 4
t1_per_plane = 2
[workload]
kind = "permutation"
size = "50 KB"
[transport]
evs = 16
policy = "example-rr"
"""
SWEEP = """
[sweep]
scenario = "mine.toml"
seeds = 2
[sweep.grid]
"transport.policy" = ["example-rr", "rr"]
"""


def write_scenario(folder: Path) -> Path:
    (folder / "sim_policy.py").write_bytes(EXAMPLE.read_bytes())
    (folder / "mine.toml").write_text(SCENARIO)
    return folder / "mine.toml"


def test_a_scenario_names_plugins(tmp_path: Path) -> None:
    scenario = Scenario.load(write_scenario(tmp_path))
    assert scenario.files()["sim_policy.py"]
    outcome = simulate(scenario.topology, scenario.workload(), scenario.transport, seed=1)
    assert outcome.stopped == "done"
    with pytest.raises(UsageError, match="plugins is a list of Python files"):
        Scenario.load(tmp_path / "mine.toml", overrides={"plugins": "sim_policy.py"})
    with pytest.raises(UsageError, match=r"cannot read plugin .*none\.py"):
        Scenario.load(tmp_path / "mine.toml", overrides={"plugins": ["none.py"]})


def test_workers_of_a_sweep_load_plugins(tmp_path: Path) -> None:
    write_scenario(tmp_path)
    (tmp_path / "sweep.toml").write_text(SWEEP)
    rows = run_sweep(Sweep.load(tmp_path / "sweep.toml"), tmp_path / "out", jobs=2)
    assert [row["error"] for row in rows] == [None] * 4
    ours, theirs = rows[:2], rows[2:]
    assert [row["end_ns"] for row in ours] == [row["end_ns"] for row in theirs]


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("example-rr, NSCC")
