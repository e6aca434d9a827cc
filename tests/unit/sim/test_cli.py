"""`softmrc sim` and `softmrc plot` where no simulation is needed: help, formulae, options, errors."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import Result as Ran
from tests.unit.sim.outcomes import outcome, workload
from typer.testing import CliRunner

from softmrc.cli.app import app
from softmrc.cli.sim_progress import eta_s, line_of, summary_lines
from softmrc.cli.sim_run import overrides_of
from softmrc.errors import UsageError
from softmrc.sim.result import Result, save


def run(*args: str) -> Ran:
    return CliRunner().invoke(app, list(args))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    work = workload(sends=[(0, 1, 1_000), (1, 0, 4_000)])
    made = Result(
        name="two",
        transport="mrc",
        settings={},
        workload=work,
        outcome=outcome(work, [1_000, 2_000]),
    )
    save(made, tmp_path / "result")
    return tmp_path / "result"


@pytest.mark.parametrize("name", ["run", "list", "topo", "sweep", "htsim"])
def test_every_help_has_examples_and_exit_codes(name: str) -> None:
    ran = run("sim", name, "--help")
    assert ran.exit_code == 0
    assert f"softmrc sim {name}" in ran.output
    assert "Exit codes" in ran.output
    assert "--json" in ran.output


def test_sim_and_plot_have_help() -> None:
    assert "softmrc sim list" in run("sim", "--help").output
    assert "softmrc plot" in run("plot", "--help").output
    assert run("sim", "fly").exit_code == 2


def test_topo_answers_the_paper() -> None:
    ran = run("sim", "topo", "--json")
    made = json.loads(ran.output)
    assert made["fabric"]["nics"] == 131_072
    assert made["versus"]["nics"] == 65_536
    assert made["ratio"]["switches_per_nic"] == pytest.approx(0.6)
    assert set(made["sources"]) == {"optic_w", "switch_w"}


def test_topo_for_people_and_alone() -> None:
    ran = run("sim", "topo", "--planes", "4", "--versus", "none")
    assert ran.exit_code == 0
    assert "32,768" in ran.output
    assert "25.00%" in ran.output
    assert "versus" not in ran.output


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--planes", "0"], "planes is 1 to 64"),
        (["--versus", "speed=3"], "--versus takes changes"),
        (["--nic-gbps", "700"], "even, whole number"),
        (["--optic-w", "-1"], "optic_w is 0 or more"),
    ],
)
def test_topo_refuses(args: list[str], words: str) -> None:
    ran = run("sim", "topo", *args)
    assert ran.exit_code == 2
    assert words in ran.output


def test_errors_are_json_for_programs() -> None:
    ran = run("sim", "topo", "--tiers", "9", "--json")
    assert ran.exit_code == 2
    assert json.loads(ran.stdout)["exit_code"] == 2


def test_an_output_folder_is_tried_first() -> None:
    ran = run("sim", "run", "no-such-scenario", "--out", "/proc/results")
    assert ran.exit_code == 2
    assert "cannot write results to /proc/results" in ran.output  # before the scenario is looked for


def test_set_takes_toml_and_plain_words() -> None:
    got = overrides_of(["a.b=8", "c=true", "d=[1, 2]", "e=0.5", 'f="x y"', "g=uet-1.0-nscc", "h ="], "tcp")
    assert got == {
        "a.b": 8,
        "c": True,
        "d": [1, 2],
        "e": 0.5,
        "f": "x y",
        "g": "uet-1.0-nscc",
        "h": "",
        "transport.name": "tcp",
    }


@pytest.mark.parametrize("wrong", ["a.b", "=3", ".a=3", "a.=3"])
def test_set_refuses_what_has_no_key(wrong: str) -> None:
    with pytest.raises(UsageError, match="--set takes KEY=VALUE"):
        overrides_of([wrong], "")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--wall-limit", "nan"], "wall time is a number of seconds above 0"),
        (["--wall-limit", "0"], "wall time is a number of seconds above 0"),
        (["--memory-limit", "-1"], "memory is 1 MiB or more"),
        (["--seed", "-1"], "a seed is a whole number from 0"),
        (["--seed", str(1 << 63)], "a seed is a whole number from 0"),
    ],
)
def test_impossible_limits_and_seeds(options: list[str], words: str) -> None:
    ran = run("sim", "run", "two-hosts", "--quick", *options)
    assert ran.exit_code == 2
    assert words in ran.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--end", "nan"], "--end is a time from 0.001 us"),
        (["--end", "inf"], "--end is a time from 0.001 us"),
        (["--end", "-1"], "--end is a time from 0.001 us"),
        (["--sample", "0"], "--sample is a time from 0.001 us"),
        (["--planes", "0"], "planes = 0: 1 to 31"),
        (["--seed", "-1"], "a seed is a whole number from 0"),
        ([], "flows of size 0, which never end; say when to stop: --end"),
    ],
)
def test_htsim_refuses(tmp_path: Path, options: list[str], words: str) -> None:
    (tmp_path / "m.cm").write_text("Nodes 2\nConnections 1\n0->1 start 0 size 0\n")
    ran = run("sim", "htsim", str(tmp_path / "m.cm"), *options)
    assert ran.exit_code == 2
    assert words in ran.output


def test_paper_shows_its_examples_line_by_line() -> None:
    assert "\n  softmrc paper --quick\n" in run("paper", "--help").output


def test_plot_refuses_what_is_damaged(saved: Path) -> None:
    (saved / "series.parquet").write_bytes(b"PAR1")
    ran = run("plot", str(saved))
    assert ran.exit_code == 2
    assert f"cannot read {saved / 'series.parquet'}" in ran.output
    (saved / "result.json").write_text('{"format": "softmrc-sim-1", "name": "x"}')
    ran = run("plot", str(saved))
    assert ran.exit_code == 2
    assert "lacks transport, seed" in ran.output


def test_plot_draws_what_there_is(saved: Path) -> None:
    ran = run("plot", str(saved), "--json")
    assert ran.exit_code == 0
    assert json.loads(ran.output)["files"] == [str(saved / "fct.svg")]
    assert run("plot", str(saved / "result.json"), "--out", str(saved / "x.png")).exit_code == 0
    assert (saved / "x.png").read_bytes()[:4] == b"\x89PNG"


def test_plot_says_what_is_missing(saved: Path) -> None:
    ran = run("plot", str(saved), "--kind", "steps")
    assert ran.exit_code == 2
    assert "needs a job with steps" in ran.output
    assert "does not exist" in run("plot", "/nonexistent").output


def progress(**changes: Any) -> SimpleNamespace:
    made = {"sim_ns": 500_000, "wall_s": 2.0, "tasks_done": 3, "tasks_total": 10, "packets": 1_000}
    return SimpleNamespace(**{**made, **changes})


def test_the_time_left_is_judged_by_time_or_packets() -> None:
    assert eta_s(progress(), 1_000_000, None) == 2.0
    assert eta_s(progress(), None, 4_000) == 6.0
    assert eta_s(progress(), 1_000_000, 4_000) == 2.0
    assert eta_s(progress(), None, None) is None
    assert eta_s(progress(sim_ns=0, packets=0), 1_000, 1_000) is None
    # All frames of the payload are sent, and the run goes on: the open tasks tell, 2 s x 7 / 3.
    assert eta_s(progress(packets=5_000), None, 4_000) == pytest.approx(14 / 3)
    assert eta_s(progress(packets=5_000, tasks_done=0), None, 4_000) is None


def test_the_line_has_time_pace_and_eta() -> None:
    line = line_of("x", progress(packets=2_000_000), 1_000_000, None)
    for part in ("500.000 us simulated", "250.000 us/s", "1,000 k frames/s", "tasks 3/10", "0:02 left"):
        assert part in line
    assert "no end known" in line_of("x", progress(), None, None)
    late = line_of("x", progress(sim_ns=999_999), 1_000_000, None)
    assert "about to end" in late
    assert "0:00 left" not in late


def test_the_summary_marks_what_is_partial(saved: Path) -> None:
    document = json.loads((saved / "result.json").read_text())
    assert "PARTIAL" not in "\n".join(summary_lines(document))
    text = "\n".join(summary_lines({**document, "partial": True, "stopped": "wall"}))
    assert "PARTIAL: stopped by wall" in text
    assert "p99 1.99" in text
