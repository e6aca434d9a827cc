"""The testbed's report of the paper's targets, and the arithmetic below it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from softmrc.cli.app import app
from softmrc.errors import UsageError
from softmrc.lab.course import Bins
from softmrc.lab.flows import FlowResult
from softmrc.lab.paper import BedEntry, bed_targets
from softmrc.lab.paper_figures import draw_bed, store_bed
from softmrc.lab.paper_site import together
from softmrc.paper.check import Verdict, at_least
from softmrc.paper.report import Report


def flow(start: float, *mbps: float, width: float = 0.02) -> FlowResult:
    counts = tuple(m * 1e6 / 8 * width for m in mbps)
    row: dict[str, Any] = {"per_ev": [{"plane": 1, "ev": 7, "path": "p1 t0-0 t1-1 t0-1"}]}
    return FlowResult(Bins(start, width, counts), row)


def test_flows_add_up_while_all_run() -> None:
    both = together([flow(10.0, *[100.0] * 10), flow(10.05, *[50.0] * 20)])
    assert both.start == 10.05
    assert both.end == pytest.approx(10.2, abs=0.02)
    assert both.rate(10.05, 10.15) == pytest.approx(150e6)


def test_changes_of_evs_are_found_by_state_and_time_and_named() -> None:
    found = flow(0.0)
    found.events = [
        {"kind": "ev_state", "state": "assumed_bad", "plane": 1, "ev": 7, "at": 5.0},
        {"kind": "ev_state", "state": "good", "plane": 1, "ev": 7, "at": 6.0},
        {"kind": "start", "at": 1.0},
    ]
    assert [e["at"] for e in found.ev_changes("assumed_bad")] == [5.0]
    assert found.ev_changes("assumed_bad", since=5.5) == []
    assert found.path_of(1, 7) == "p1 t0-0 t1-1 t0-1"
    assert found.path_of(1, 8) == ""


@pytest.mark.parametrize(("only", "words"), [("R3", "simulator"), ("R99", "no such target")])
def test_targets_of_others_are_refused(only: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        bed_targets(only)


def test_targets_come_in_their_own_order() -> None:
    assert [t.id for t in bed_targets("r7, R6")] == ["R6", "R7"]


def test_a_missed_criterion_says_by_how_much() -> None:
    (target,) = bed_targets("R6")
    entry = BedEntry(target, Verdict([at_least("worst bin", 0.5, 0.99)], "half", "a remark"))
    assert entry.met is False
    assert "missed: worst bin is 0.5, not >= 0.99" in entry.note
    assert "a remark" in entry.note
    failed = BedEntry(target, None, "failed: no iperf3", failed=True)
    assert failed.met is False
    assert failed.note == "failed: no iperf3"


def test_a_report_is_stored_with_its_figures(tmp_path: Path) -> None:
    (target,) = bed_targets("R8")
    series = {"plateaus": [1.0, 0.87, 0.75, 0.62, 0.5, 0.37, 0.25, 0.12], "bins": [1.0] * 50}
    report = Report("quick", 1, [BedEntry(target, Verdict([at_least("x", 1, 0)], "good", "", series))])
    files, why = store_bed(report, tmp_path)
    assert why == ""
    assert {f.name for f in files} == {"lab-paper.json", "lab-paper.md", "curves.json", "lab_ports.png"}
    assert json.loads((tmp_path / "lab-paper.json").read_text())["results"][0]["met"] is True


def test_every_figure_can_be_drawn(tmp_path: Path) -> None:
    curves = {
        "R5": {"sprayed": [0.98] * 8, "single": [0.25, 0.3, 0.5, 0.5, 0.5, 0.6, 1.0, 1.0]},
        "R6": {"bins_20": [1.0] * 60, "bins_100": [0.9] * 60}, "R7": {"bins": [1.0] * 60},
        "R13": {"bins": [1.0] * 60}, "R16": {"rates": [1.0, 1.0, 0.9, 1.0, 1.0, 1.0], "lost": [1.0]},
    }  # fmt: skip
    assert len(draw_bed(curves, tmp_path, ".svg")) == 5


def test_the_list_of_targets_is_printed() -> None:
    done = CliRunner().invoke(app, ["lab", "paper", "--list", "--json"])
    assert done.exit_code == 0
    assert {"R5", "R6", "R24"} <= {t["id"] for t in json.loads(done.stdout)["targets"]}


def test_wrong_use_of_the_commands_is_said(tmp_path: Path) -> None:
    for words in (
        ["lab", "paper", "--only", "R1"],
        ["lab", "compare", "--only", "quic", "--name", "no-such", "--rate", "fast"],
        ["lab", "export", "--name", "nosuchlab"],
        ["lab", "map", "--name", "nosuchlab"],
    ):
        assert CliRunner().invoke(app, words).exit_code == 2, words
