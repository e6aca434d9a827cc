"""`softmrc sim run` from scenario to files: reproducible, honest about what is partial, plain in its errors."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result as Ran
from scapy.layers.inet6 import IPv6
from scapy.utils import rdpcap
from tests.unit.sim.small import GREEDY, SMALL, write
from typer.testing import CliRunner

from softmrc.cli import sim_run
from softmrc.cli.app import app
from softmrc.sim.htsim import permutation_matrix


def run(*args: str) -> Ran:
    return CliRunner().invoke(app, ["sim", *args])


@pytest.fixture
def small(tmp_path: Path) -> str:
    return write(tmp_path)


def test_failed_tasks_are_a_failure(tmp_path: Path) -> None:
    """A host whose ports all die: its QP gives up, and the goodput is over the time until then."""
    text = SMALL.partition("[[fault]]")[0] + '[[fault]]\nat_ns = 6000\nkind = "link_down"\ntarget = "h0"\n'
    ran = run("run", write(tmp_path, text), "--json", "--no-progress")
    assert ran.exit_code == 1
    document = json.loads(ran.stdout)
    assert document["tasks"]["failed"] > 0
    assert document["end_ns"] == document["sim_ns"] > 1_000_000
    assert document["goodput"]["total_gbps"] < 16 * 200
    assert "tasks failed: their QPs gave up" in ran.stderr


def test_a_run_leaves_document_tables_figures_and_captures(small: str, tmp_path: Path) -> None:
    ran = run("run", small, "--out", str(tmp_path / "out"))
    assert ran.exit_code == 0, ran.output
    made = {file.name for file in (tmp_path / "out").iterdir()}
    tables = {f"{name}.parquet" for name in ("tasks", "links", "series", "ev_events")}
    assert {
        "result.json",
        "goodput.svg",
        "fct.svg",
        "queue.svg",
        "heat.svg",
        "h0.p1.up.pcap",
    } | tables <= made
    document = json.loads((tmp_path / "out" / "result.json").read_text())
    assert document["tasks"] == {
        "total": 16,
        "sends": 16,
        "greedy": 0,
        "done": 16,
        "failed": 0,
        "unfinished": 0,
        "bytes_asked": 3_200_000,
        "bytes_delivered": 3_200_000,
    }
    assert document["cost"]["incidents"][0]["faults"][0]["targets"] == ["p1.t0-0.t1-0"]
    packets = rdpcap(str(tmp_path / "out" / "h0.p1.up.pcap"))
    assert len(packets) > 10
    assert {packet[IPv6].src for packet in packets} == {"fd00:0:1::"}


def test_figures_of_an_earlier_run_do_not_stay(small: str, tmp_path: Path) -> None:
    stale = tmp_path / "out" / "steps.svg"
    stale.parent.mkdir()
    stale.write_text("another job")
    assert run("run", small, "--quick", "--out", str(tmp_path / "out"), "--no-plot").exit_code == 0
    assert not stale.exists()


def test_one_seed_has_the_same_bytes(small: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert run("run", small, "--seed", "7", "--out", str(tmp_path / name), "--no-timing").exit_code == 0
    files = sorted(file.name for file in (tmp_path / "a").iterdir())
    assert files == sorted(file.name for file in (tmp_path / "b").iterdir())
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file


def test_thirty_seeds_differ_and_say_which_they_are(small: str) -> None:
    ran = [json.loads(run("run", small, "--quick", "--seed", str(s), "--json").stdout) for s in range(30)]
    assert [made["seed"] for made in ran] == list(range(30))
    assert len({made["completion_us"]["all"]["mean"] for made in ran}) > 20


def test_the_same_run_without_incidents_tells_their_cost(small: str) -> None:
    made = json.loads(run("run", small, "--json", "--clean", "--set", "cost.gpus=3600").stdout)
    without = json.loads(run("run", small, "--json", "--set", "fault=[]").stdout)
    cost = made["cost"]["versus_clean"]
    assert cost["clean_end_ns"] == without["end_ns"]
    assert cost["lost_s"] == pytest.approx((made["end_ns"] - without["end_ns"]) / 1e9)
    assert cost["gpu_hours"] == pytest.approx(cost["lost_s"], rel=1e-5)
    assert without["cost"] is None


def test_json_is_the_document(small: str) -> None:
    made = json.loads(run("run", small, "--quick", "--json", "--no-progress").stdout)
    assert made["format"] == "softmrc-sim-1"
    assert made["quick"] is True
    assert made["settings"]["workload"]["size"] == "20 KB"
    assert "wall_s" in made["timing"]


def test_values_and_transport_can_be_changed(small: str) -> None:
    ran = run("run", small, "--json", "--quick", "--set", "transport.qps=4", "--set", "fabric.planes=1")
    made = json.loads(ran.stdout)
    assert made["settings"]["transport"]["qps"] == 4
    assert made["planes"] == 1


def test_ablations_are_transports(small: str) -> None:
    ran = run(
        "run", small, "--json", "--quick", "--transport", "mrc:no-trimming+2qp", "--set", "transport.qps=4"
    )
    made = json.loads(ran.stdout)
    assert made["transport"] == "mrc:no-trimming+2qp"
    chosen = made["settings"]["transport"]
    assert (chosen["name"], chosen["trimming"], chosen["qps"]) == ("mrc", False, 4)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["no-such"], "no scenario 'no-such'"),
        (["{small}", "--set", "transport.qp=4"], "did you mean qps"),
        (["{small}", "--set", "fabric"], "--set takes KEY=VALUE"),
        (["{small}", "--transport", "quic"], "mrc, rocev2, tcp"),
        (["{small}", "--transport", "mrc:fast"], "no option 'fast' of mrc"),
        (["{small}", "--set", "fault.0.target=p9.t0-0.t1-0"], "p9"),
    ],
)
def test_wrong_use_is_told_with_exit_code_2(small: str, args: list[str], words: str) -> None:
    ran = run("run", *[arg.replace("{small}", small) for arg in args])
    assert ran.exit_code == 2
    assert words in ran.output


def test_a_limit_leaves_a_partial_result(tmp_path: Path) -> None:
    endless = write(tmp_path, GREEDY)
    ran = run("run", endless, "--wall-limit", "0.05", "--out", str(tmp_path / "out"), "--json")
    assert ran.exit_code == 1
    made = json.loads((tmp_path / "out" / "result.json").read_text())
    assert (made["partial"], made["stopped"]) == (True, "wall")
    assert made["goodput"]["total_gbps"] > 0
    assert json.loads(ran.stdout)["partial"] is True
    ran = run("run", endless, "--memory-limit", "1")
    assert ran.exit_code == 1
    assert "PARTIAL: stopped by memory" in ran.output


def test_an_interrupt_leaves_a_partial_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def impatient(*_: object) -> Iterator[Callable[[object], None]]:
        def interrupt(_: object) -> None:
            raise KeyboardInterrupt

        yield interrupt

    monkeypatch.setattr(sim_run, "showing", impatient)
    ran = run("run", write(tmp_path, GREEDY), "--out", str(tmp_path / "out"))
    assert ran.exit_code == 130
    made = json.loads((tmp_path / "out" / "result.json").read_text())
    assert (made["partial"], made["stopped"]) == (True, "interrupted")
    assert (tmp_path / "out" / "tasks.parquet").exists()


def test_scenarios_are_listed() -> None:
    made = json.loads(run("list", "--json").stdout)
    assert all(set(entry) == {"name", "about"} for entry in made["scenarios"])


def test_a_matrix_of_htsim_runs(tmp_path: Path) -> None:
    matrix = tmp_path / "perm.cm"
    matrix.write_text(permutation_matrix(16, 100_000))
    ran = run("htsim", str(matrix), "--linkspeed", "100000", "--planes", "2", "--json", "--no-timing")
    made = json.loads(ran.stdout)
    assert made["completion_us"]["all"]["count"] == 16
    assert made["settings"]["plane_gbps"] == 50
    # No flow beats its own bytes at line rate.
    assert made["completion_us"]["all"]["min"] > 100_000 * 8 / 100e3
    assert (
        ran.stdout
        == run("htsim", str(matrix), "--linkspeed", "100000", "--planes", "2", "--json", "--no-timing").stdout
    )


def test_a_bad_matrix_is_refused_with_its_line(tmp_path: Path) -> None:
    matrix = tmp_path / "bad.cm"
    matrix.write_text("Nodes 4\nConnections 1\n0->0 start 0 size 10\n")
    ran = run("htsim", str(matrix))
    assert ran.exit_code == 2
    assert "bad.cm:3" in ran.output
    matrix.write_text("Nodes 4\nConnections 1\n0->1 start 0 size 10\n")
    assert "linkspeed is 1 to" in run("htsim", str(matrix), "--linkspeed", "0").output
    assert "no transport 'x'" in run("htsim", str(matrix), "--transport", "x").output


def test_an_error_in_a_policy_names_its_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from softmrc.sim.policies import PathPolicy, register_policy\n"
        "class Wrong(PathPolicy):\n"
        "    def next(self, slots, ports, avoid):\n"
        "        return {}['slot']\n"
        "register_policy('wrong', Wrong)\n"
    )
    file = write(tmp_path, 'plugins = ["mine.py"]\n' + SMALL)
    ran = run("run", str(file), "--set", "transport.policy=wrong", "--json")
    assert ran.exit_code == 2
    assert f"plugin {tmp_path / 'mine.py'}, line 4, in next: KeyError: 'slot'" in ran.output
    assert "Traceback" not in ran.output
    (tmp_path / "mine.py").write_text("x = 1\nnone.y\n")
    ran = run("run", str(file))
    assert ran.exit_code == 2
    assert "mine.py, line 2: NameError" in ran.output
