"""Sweeps: the same bytes for any number of workers, continued where they stopped, honest about runs that failed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.unit.sim.small import GREEDY, SMALL, write
from typer.testing import CliRunner

from softmrc.cli.app import app
from softmrc.errors import UsageError
from softmrc.sim.overrides import expanded
from softmrc.sim.result.execute import Limits, execute, plan_of
from softmrc.sim.scenario import Scenario
from softmrc.sim.sweep import TABLE, Done, key_of, run_sweep
from softmrc.sim.sweep_engine import workers
from softmrc.sim.sweep_file import Sweep

BODY = {"quick": True, "seeds": 3, "grid": {"transport.evs": [8, 16]}}


def sweep(folder: Path, **body: Any) -> Sweep:
    write(folder)
    return Sweep.from_table({"sweep": {"scenario": "small.toml", **BODY, **body}}, folder)


def rows(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(folder / TABLE).to_pylist()
    return found


def test_workers_do_not_show_in_the_bytes(tmp_path: Path) -> None:
    made = sweep(tmp_path)
    for jobs in (1, 2):
        run_sweep(made, tmp_path / str(jobs), jobs=jobs)
    assert (tmp_path / "1" / TABLE).read_bytes() == (tmp_path / "2" / TABLE).read_bytes()
    cells = {file.name: file.read_bytes() for file in (tmp_path / "1" / "cells").iterdir()}
    assert len(cells) == 6
    assert cells == {file.name: file.read_bytes() for file in (tmp_path / "2" / "cells").iterdir()}


def test_workers_that_were_started_elsewhere_find_the_scenario(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        made = sweep(Path(), seeds=2)
        assert made.scenario == "small.toml"
        assert [row["error"] for row in run_sweep(made, "out", jobs=2)] == [None] * 4
        Path("small.toml").unlink()


def test_rows_tell_cells_apart_and_have_figures(tmp_path: Path) -> None:
    run_sweep(sweep(tmp_path), tmp_path / "out", jobs=1)
    got = rows(tmp_path / "out")
    assert [(row["case"], row["seed"]) for row in got[:4]] == [
        ("evs=8", 1),
        ("evs=8", 2),
        ("evs=8", 3),
        ("evs=16", 1),
    ]
    assert {row["set.transport.evs"] for row in got} == {8, 16}
    assert all(row["tasks_done"] == 16 and row["fct_p99_us"] > 0 and row["error"] is None for row in got)
    assert len({row["fct_mean_us"] for row in got}) > 1


def test_finished_runs_are_found_again(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []

    def tell(done: int, total: int, last: Done | None) -> None:
        told.append((done, total))

    run_sweep(sweep(tmp_path, seeds=2), tmp_path / "out", jobs=1, progress=tell)
    assert told == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    told.clear()
    run_sweep(sweep(tmp_path), tmp_path / "out", jobs=1, progress=tell)
    assert told == [(4, 6), (5, 6), (6, 6)]
    # A cell is what it was computed from, not where it stands in the file.
    told.clear()
    run_sweep(
        sweep(tmp_path, grid={"transport.evs": [16]}, seeds=[3, 1]), tmp_path / "out", jobs=1, progress=tell
    )
    assert told == [(2, 2)]
    assert [row["seed"] for row in rows(tmp_path / "out")] == [3, 1]


def test_an_interrupted_sweep_goes_on(tmp_path: Path) -> None:
    def impatient(done: int, total: int, last: Done | None) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(sweep(tmp_path), tmp_path / "out", jobs=1, progress=impatient)
    assert [row["tasks_done"] for row in rows(tmp_path / "out")] == [16, 16, None, None, None, None]
    run_sweep(sweep(tmp_path), tmp_path / "out", jobs=1)
    run_sweep(sweep(tmp_path), tmp_path / "whole", jobs=1)
    assert (tmp_path / "out" / TABLE).read_bytes() == (tmp_path / "whole" / TABLE).read_bytes()


def test_a_run_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    made = sweep(tmp_path, seeds=1, grid={"transport.cc": ["uet-1.0-nscc", "no-such"]})
    got = run_sweep(made, tmp_path / "out", jobs=1)
    assert got[0]["error"] is None
    assert "cannot be simulated" in got[1]["error"]
    assert len(list((tmp_path / "out" / "cells").iterdir())) == 1


def test_a_policy_that_raises_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "worse.py").write_text(
        "from softmrc.sim.policies import PathPolicy, register_policy\n"
        "class Worse(PathPolicy):\n    def next(self, slots, ports, avoid):\n        raise RuntimeError('no way')\n"
        "register_policy('sweep-worse', Worse)\n"
    )
    made = sweep(tmp_path, seeds=1, grid={"transport.policy": ["sweep-worse", "bitmap"]})
    write(tmp_path, 'plugins = ["worse.py"]\n' + SMALL)
    got = run_sweep(made, tmp_path / "out", jobs=1)
    assert got[0]["error"] == f"plugin {tmp_path / 'worse.py'}, line 4, in next: RuntimeError: no way"
    assert got[1]["error"] is None


def test_a_damaged_document_is_computed_again(tmp_path: Path) -> None:
    made = sweep(tmp_path, seeds=1)
    run_sweep(made, tmp_path / "out", jobs=1)
    whole = (tmp_path / "out" / TABLE).read_bytes()
    first, second = sorted((tmp_path / "out" / "cells").iterdir())
    first.write_bytes(first.read_bytes()[:100])
    second.write_text("{}")
    run_sweep(made, tmp_path / "out", jobs=1)
    assert (tmp_path / "out" / TABLE).read_bytes() == whole


def test_wrong_options_are_refused_although_nothing_is_left_to_do(tmp_path: Path) -> None:
    made = sweep(tmp_path, seeds=1)
    run_sweep(made, tmp_path / "out", jobs=1)
    with pytest.raises(UsageError, match="jobs is 1 to"):
        run_sweep(made, tmp_path / "out", jobs=0)


def test_a_partial_run_is_done_again(tmp_path: Path) -> None:
    write(tmp_path, GREEDY, "endless.toml")
    made = Sweep.from_table({"sweep": {"scenario": "endless.toml"}}, tmp_path)
    (row,) = run_sweep(made, tmp_path / "out", jobs=1, limits=Limits(wall_s=0.01))
    assert (row["partial"], row["stopped"]) == (True, "wall")
    assert list((tmp_path / "out" / "cells").iterdir()) == []


def test_a_scenario_that_does_not_load_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean evs"):
        run_sweep(sweep(tmp_path, grid={"transport.evz": [1]}), tmp_path / "out")


def test_keys_depend_on_all_that_decides_a_run() -> None:
    keys = {key_of({"a": 1}, 1), key_of({"a": 2}, 1), key_of({"a": 1}, 2)}
    assert len(keys) == 3
    assert key_of({"b": 1, "a": 2}, 1) == key_of({"a": 2, "b": 1}, 1)


@pytest.mark.parametrize(
    ("engine", "jobs", "address", "words"),
    [
        ("slurm", 1, None, "no engine 'slurm'; there is local, dask, ray"),
        ("local", 0, None, "jobs is 1 to"),
        ("local", None, "tcp://x", "add --engine"),
        ("dask", None, None, r"pip install 'dask\[distributed\]'"),
        ("ray", None, None, "pip install ray"),
    ],
)
def test_engines_that_cannot_be(engine: str, jobs: int | None, address: str | None, words: str) -> None:
    # Neither dask nor ray is among what tests install.
    with pytest.raises(UsageError, match=words), workers(engine, jobs, address):
        pass


def test_a_scheduler_that_does_not_answer_is_named_at_once() -> None:
    # Port 1 of this host: nobody listens there.
    with (
        pytest.raises(UsageError, match=r"no dask scheduler at tcp://127\.0\.0\.1:1: "),
        workers("dask", None, "tcp://127.0.0.1:1"),
    ):
        pass


def test_the_command(tmp_path: Path) -> None:
    write(tmp_path)
    file = tmp_path / "sweep.toml"
    file.write_text(
        '[sweep]\nscenario = "small.toml"\nquick = true\nseeds = 2\n[sweep.grid]\n"transport.cc" = ["x"]\n'
    )
    ran = CliRunner().invoke(
        app, ["sim", "sweep", str(file), "--out", str(tmp_path / "o"), "--jobs", "1", "--json"]
    )
    assert ran.exit_code == 4
    assert json.loads(ran.stdout)["failed"] == 2
    file.write_text('[sweep]\nscenario = "small.toml"\nquick = true\nseeds = 2\n')
    ran = CliRunner().invoke(app, ["sim", "sweep", str(file), "--out", str(tmp_path / "o"), "--jobs", "1"])
    assert ran.exit_code == 0, ran.output
    assert "2 runs, 0 failed" in ran.output
    drawn = CliRunner().invoke(app, ["plot", str(tmp_path / "o" / TABLE), "--metric", "goodput_gbps"])
    assert drawn.exit_code == 0
    assert (tmp_path / "o" / "sweep.svg").exists()


def test_an_interrupted_command_says_so_to_programs_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("softmrc.sim.sweep.run_sweep", stopped)
    write(tmp_path)
    (tmp_path / "s.toml").write_text('[sweep]\nscenario = "small.toml"\n')
    ran = CliRunner().invoke(app, ["sim", "sweep", str(tmp_path / "s.toml"), "--out", "o", "--json"])
    assert ran.exit_code == 130
    assert json.loads(ran.stdout)["error"].startswith("interrupted; the same command goes on")


@pytest.mark.parametrize("name", ["mrc", "tcp:dctcp"])
def test_the_frames_of_a_run_are_about_as_many_as_expected(tmp_path: Path, name: str) -> None:
    overrides = expanded(
        {"transport.name": name, "transport.mrc.evs": 16, "fault": [], "workload.size": "1 MB"}
    )
    text = SMALL.replace("[transport]\nevs = 16\n", "")
    plan = plan_of(Scenario.load(write(tmp_path, text), overrides=overrides))
    sent = execute(plan).outcome.totals["frames_sent"]
    assert plan.frames == pytest.approx(sent, rel=0.15)
    endless = plan_of(Scenario.load(write(tmp_path, GREEDY)))
    assert endless.frames is None
