"""`softmrc bench sim` on small cases, with a stand-in for htsim that prints what htsim prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from softmrc.bench import sim
from softmrc.bench.settings import BenchError
from softmrc.bench.sim import CaseRuns, choose_cases, htsim_figures, measure, rows_of
from softmrc.bench.sim_cases import CASES, Case, Recorded
from softmrc.cli.app import app
from softmrc.errors import UsageError
from softmrc.sim.htsim import read_matrix
from softmrc.sim.htsim_topo import read_topology

SMALL = Case(name="small", hosts=8, radix_down=2, target=1.0, recorded=Recorded(10.0, 50.0, 50.0, 50.0))


def fake_htsim(path: Path, lines: str, code: int = 0) -> str:
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{lines}\nEND\nexit {code}\n")
    path.chmod(0o755)
    return str(path)


def finished(flows: int, at: float = 52.0) -> str:
    flow = "Flow Uec_{0}_9 flowId {0} uecSrc {0} finished at {1} total messages 1 total packets 490 RTS 0"
    return "\n".join(
        [*(flow.format(i, at + i) for i in range(flows)), ".Done", "New: 3920 Rtx: 3 RTS: 0 ACKs: 9"]
    )


def figures(packets_per_s: float, rss: float = 100.0, p99: float = 50.0) -> dict[str, object]:
    return {
        "data_packets": 1_000,
        "rtx": 0,
        "wall_s": 1_000 / packets_per_s,
        "cpu_s": 500 / packets_per_s,
        "peak_rss_mib": rss,
        "completion_us": {"p50": 50.0, "p99": p99, "max": 50.0},
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_simulators_can_read_the_files(case: Case, tmp_path: Path) -> None:
    matrix, topology = case.write(tmp_path, seed=1)
    read = read_matrix(matrix)
    fabric = read_topology(topology).fabric
    assert (read.nodes, len(read.connections), fabric.hosts) == (case.hosts, case.hosts, case.hosts)
    assert (fabric.tiers, fabric.host_gbps, fabric.host_link_ns, fabric.switch_ns) == (
        case.tiers,
        400,
        1_000,
        0,
    )
    # Not oversubscribed.
    assert fabric.hosts_per_t0 == (fabric.t1_per_pod if case.tiers == 3 else fabric.t1)


def test_the_ideal_time_by_hand() -> None:
    # 489 packets of 4,234 bytes at 400 Gb/s, three more for the store and forward, 8 us of cable.
    assert SMALL.ideal_us == pytest.approx((489 + 3) * 4_234 * 8 / 400_000 + 8, abs=1e-6)


def test_a_run_is_measured_in_its_own_process(tmp_path: Path) -> None:
    program = fake_htsim(tmp_path / "htsim_uec", finished(8))
    told: list[str] = []
    (runs,) = measure([SMALL], repeat=2, htsim=program, say=told.append)
    assert [len(runs.ours), len(runs.theirs)] == [2, 2]
    made = runs.to_json()
    assert made["data_packets"] == 8 * 489
    assert 20 < made["peak_rss_mib"] < 1_000
    assert made["htsim"]["rtx"] == 3
    assert made["speedup_vs_htsim"] > 0
    assert runs.ours[0]["completion_us"]["p50"] >= SMALL.ideal_us * 0.97
    assert runs.ours[0]["completion_us"] == runs.ours[1]["completion_us"]
    assert told[0] == "small: 1 of 2"
    # Once more on switches that hash: the same flows, other paths.
    assert runs.alike is not None
    assert runs.alike["data_packets"] == 8 * 489
    assert runs.alike["completion_us"] != runs.ours[0]["completion_us"]
    assert made["completion_alike_us"] == runs.alike["completion_us"]


def test_what_htsim_prints() -> None:
    got = htsim_figures(finished(3), 3)
    assert got == {"data_packets": 3_920, "rtx": 3, "completion_us": {"p50": 53.0, "p99": 53.98, "max": 54.0}}
    with pytest.raises(BenchError, match=r"3 of 4 flows as finished; its last line: New"):
        htsim_figures(finished(3), 4)
    with pytest.raises(BenchError, match="last line: nothing"):
        htsim_figures("", 1)


def test_a_failing_htsim_is_named(tmp_path: Path) -> None:
    program = fake_htsim(tmp_path / "htsim_uec", "assertion", code=3)
    with pytest.raises(BenchError, match="small: htsim ended with 3"):
        measure([SMALL], repeat=1, htsim=program)
    with pytest.raises(UsageError, match="is no program"):
        measure([SMALL], htsim=str(tmp_path))
    with pytest.raises(UsageError, match="repeat is 1 to 101"):
        measure([SMALL], repeat=0)


def test_rows_are_judged() -> None:
    large = next(case for case in CASES if case.name == "two_tier_8192")
    small = next(case for case in CASES if case.name == "two_tier_128")
    runs = [CaseRuns(small, [figures(900)], []), CaseRuns(large, [figures(300, rss=5_000, p99=70.0)], [])]
    rows = {row.name: row for row in rows_of(runs)}
    assert rows["two_tier_8192"].ok is False
    assert rows["peak_rss_8192"].ok is False
    assert (rows["cost_growth"].value, rows["cost_growth"].ok) == (3.0, False)
    completion = rows["completion_two_tier_8192"]
    assert completion.value == pytest.approx(70 / 55.8 - 1, abs=1e-4)
    assert completion.peer["source"] == "recorded"
    assert rows["two_tier_8192"].detail["cpu_share"] == 0.5
    alike = rows_of([CaseRuns(large, [figures(300, p99=40.0)], [], figures(300, p99=55.8))])
    detail = {row.name: row for row in alike}["completion_two_tier_8192"].detail
    assert detail["ratios"]["p99"] == 1.0
    assert detail["named_paths"]["ratios"]["p99"] == pytest.approx(40 / 55.8, abs=1e-4)
    better = rows_of([CaseRuns(SMALL, [figures(50)], [figures(25)])])
    assert [(row.name, row.ok) for row in better] == [("small", True), ("completion_small", True)]
    assert better[0].peer["median"] == 25


def test_cases_are_chosen_by_name() -> None:
    assert [case.name for case in choose_cases([], quick=True)] == ["two_tier_128", "two_tier_1024"]
    assert [case.name for case in choose_cases(["two_tier_8192"], quick=True)] == ["two_tier_8192"]
    with pytest.raises(UsageError, match="no such case: 'x'"):
        choose_cases(["x"], quick=False)


def test_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sim, "CASES", (SMALL,))
    ran = CliRunner().invoke(app, ["bench", "sim", "--repeat", "1", "--json"])
    made = json.loads(ran.stdout)
    assert [row["name"] for row in made["rows"]] == ["small", "completion_small"]
    assert {"data_packets_per_s", "peak_rss_mib", "completion_us"} <= set(made["runs"][0])
    assert ran.exit_code == (0 if all(row["ok"] for row in made["rows"]) else 1)
    listed = CliRunner().invoke(app, ["bench", "sim", "--rows", "--json"])
    assert json.loads(listed.output)["rows"][0]["name"] == "small"
    assert CliRunner().invoke(app, ["bench", "transport", "--htsim", "x"]).exit_code == 2


def test_quick_runs_are_not_judged_by_their_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = Case(name="small", hosts=8, radix_down=2, target=1e12, quick=True)
    monkeypatch.setattr(sim, "CASES", (fast,))
    for args, code in ((["--quick"], 0), (["--repeat", "1"], 1)):
        ran = CliRunner().invoke(app, ["bench", "sim", "--json", *args])
        assert [row["ok"] for row in json.loads(ran.stdout)["rows"]] == [False]
        assert ran.exit_code == code
