"""Small scenarios of `softmrc paper`, run: they work, repeat, and the command prints what it promises."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from softmrc.cli.app import app
from softmrc.paper import classify, collectives, ecn, incast, permutation, ports
from softmrc.paper.params import FULL, QUICK
from softmrc.paper.run import studies
from softmrc.paper.targets import TARGETS


@pytest.fixture
def run():
    return lambda *args: CliRunner().invoke(app, ["paper", *args])


def test_every_target_has_a_study_or_a_reason():
    known = studies()
    assert {t.id for t in TARGETS if not t.skip} == known.keys()


@pytest.mark.parametrize("effort", [QUICK, FULL], ids=lambda effort: effort.name)
def test_keys_of_cells_name_their_runs(effort):
    seen = {}
    for study in studies().values():
        for cell in study.cells(effort):
            assert seen.setdefault(cell.key, cell) == cell, cell.key


def test_the_quick_run_stays_small():
    cells = {cell.key: cell for study in studies().values() for cell in study.cells(QUICK)}
    # A million packets take about a second or two; the run has ten minutes on two cores.
    assert sum(cell.cost for cell in cells.values()) < 300


def test_computed_targets_as_json(run, tmp_path):
    result = run("--only", "R1,R20", "--quick", "--json", "--jobs", "1", "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [r["id"] for r in found["results"]] == ["R1", "R20"]
    assert found["results"][0]["met"]
    assert isinstance(found["results"][1]["met"], bool)
    assert {"paper", "ours", "criterion", "met", "note"} <= found["results"][0].keys()
    stored = json.loads((tmp_path / "out" / "paper.json").read_text())
    assert stored["results"] == found["results"]
    assert "131,072" in (tmp_path / "out" / "paper.md").read_text()


def test_what_is_not_run_says_why(run):
    result = run("--only", "R25", "--quick")
    assert result.exit_code == 0
    assert "not run" in result.output
    assert "prober" in result.output


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--only", "R99"], "R99"),
        (["--seeds", "0"], "--seeds"),
        (["--jobs", "0"], "--jobs"),
        (["--only", "R1", "--out", "/proc/x"], "--out"),
    ],
)
def test_wrong_use(run, args, words):
    result = run(*args)
    assert result.exit_code == 2
    assert words in result.output


def test_help_has_examples(run):
    result = run("--help")
    assert result.exit_code == 0
    assert "softmrc paper --quick" in result.output
    assert "Exit codes" in result.output


def test_list(run):
    result = run("--list", "--json")
    assert [t["id"] for t in json.loads(result.stdout)["targets"]] == [t.id for t in TARGETS]


def test_a_seed_repeats():
    first = permutation.permutation("mrc1", 3, 200_000, False)
    assert permutation.permutation("mrc1", 3, 200_000, False) == first
    assert permutation.permutation("pfc1", 3, 200_000, False) != permutation.permutation(
        "pfc1", 4, 200_000, False
    )


def test_latency_is_calibrated(run):
    result = run("--only", "R19", "--quick", "--json", "--jobs", "1")
    found = json.loads(result.stdout)["results"][0]
    assert found["met"]
    local = next(c["ours"] for c in found["checks"] if c["name"].startswith("T0-local"))
    assert local == pytest.approx(5.09, rel=0.01)


def test_pfc_spreads_an_incast_and_mrc_does_not():
    # 1 ms is enough to tell a victim held back to its share of the spine from one at line rate.
    pfc = incast.incast("pfc8", "shared", 1, 1_000_000, False)
    mrc = incast.incast("mrc1", "shared", 1, 1_000_000, False)
    assert pfc["totals"]["pfc_pauses"] > 0
    assert pfc["victim"] < 200
    assert mrc["victim"] > 380
    assert len(pfc["spine"]) == 8 * 8


def test_ring_moves_every_byte():
    found = collectives.collective("ring", "mrc1", 2, 0, 4, 1, "timer")
    assert found["totals"]["data_packets"] == 4 * 64 * 8
    assert 0 < found["gbps"] < 400


def test_losing_ports_costs_their_share():
    found = ports.ports("four", 1)
    start, four, back = found["plateaus"]
    assert four / start == pytest.approx(0.5, abs=0.02)
    assert back / start == pytest.approx(1.0, abs=0.02)
    assert found["totals"]["qp_errors"] == 0


def test_a_dead_t1_is_left_soon():
    found = classify.dead_t1(1)
    assert found["demoted"] == 1
    assert found["last_us"] < 60


def test_the_second_pair_joins():
    found = ecn.two_pairs(True, 1)
    assert found["alone"] > 380
    assert found["pair2"] > 100
