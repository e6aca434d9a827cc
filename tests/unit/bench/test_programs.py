"""Programs of a measurement, yardsticks as processes, and the command line."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
from tests.ports import free_port
from typer.testing import CliRunner

from softmrc.bench import Settings, yard
from softmrc.bench.bench import Bench
from softmrc.bench.place import Place
from softmrc.bench.proc import Program, python_module
from softmrc.bench.settings import BenchError
from softmrc.bench.site import LOOPBACK, Sites
from softmrc.cli.app import app


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_output_and_json() -> None:
    with Program(None, python("print('hello'); print('{\"a\": 1}')")) as p:
        p.await_line("hello")
        assert p.json(10) == {"a": 1}
    with Program(None, python("print('{')\nprint('\"a\": 2}')")) as p:
        assert p.json(10, last_line=False) == {"a": 2}


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import sys; sys.exit('the reason')", "exit status 1: the reason"),
        ("print('no figures')", "printed no JSON"),
        ("", "printed no JSON"),
    ],
)
def test_failures_say_what_the_program_said(code: str, why: str) -> None:
    with Program(None, python(code)) as p, pytest.raises(BenchError, match=why):
        p.json(10)


def test_waiting_has_an_end() -> None:
    with Program(None, python("import time; time.sleep(60)")) as p:
        for wait in (
            lambda: p.output(0.05),
            lambda: p.await_line("x", 0.05),
            lambda: p.await_listening(9, 0.05),
        ):
            with pytest.raises(BenchError, match=r"no answer in time|does not listen"):
                wait()
        pid = p.pid
    assert not Path(f"/proc/{pid}").exists()
    with Program(None, ["/no/such/program"]) as p, pytest.raises(BenchError, match="No such file"):
        p.output(10)


def test_it_waits_for_listeners_and_ready_lines() -> None:
    listen = (
        "import socket, time; s = socket.create_server(('127.0.0.1', {port})); print('up', flush=True); "
        "time.sleep(60)"
    )
    port = free_port()
    with Program(None, python(listen.format(port=port))) as p:
        p.await_listening(port)
        p.await_line("up")
    with Program(None, python("pass")) as p, pytest.raises(BenchError, match="ended before it was ready"):
        p.await_line("ready")


@pytest.fixture
def bench() -> Bench:
    return Bench(Settings(seconds=0.5, repeat=1, quick=True), Place(0, 0, False), Sites())


def test_yardsticks_run_as_processes(bench: Bench) -> None:
    runs = yard.bare_stream(bench, LOOPBACK, payload=1024, segments=16, window=8)
    assert runs.value > 0
    assert runs.more["payload"] == 1024
    single = yard.bare_stream(bench, LOOPBACK, payload=64, batch=8, receive_batch=8)
    assert single.more["mpps"] > 0
    both = yard.bare_both_ways(bench, LOOPBACK, mtu=1500)
    assert both.value == pytest.approx(both.more["to_a"] + both.more["to_b"], abs=0.001)
    ping = yard.bare_pings(bench, LOOPBACK, spin=False)
    assert 0 < ping.more["min_us"] <= ping.value <= ping.more["max_us"]


def test_a_yardstick_without_traffic_is_an_error() -> None:
    config = json.dumps({"at": ["127.0.0.1", 47999], "patience": 0.1})
    with Program(None, python_module("softmrc.bench._yard", "receive", config)) as p:
        p.await_line("ready")
        assert p.json(10)["bytes"] == 0
    unknown = python_module("softmrc.bench._yard", "juggle", "{}")
    with Program(None, unknown) as p, pytest.raises(BenchError, match="role"):
        p.json(10)


def test_the_command_lists_rows_and_refuses_nonsense() -> None:
    runner = CliRunner()
    listed = runner.invoke(app, ["bench", "transport", "--rows", "--json", "--only", "both_ways,busy_host"])
    assert listed.exit_code == 0
    assert [r["name"] for r in json.loads(listed.stdout)["rows"]] == ["both_ways", "busy_host"]
    shown = runner.invoke(app, ["bench", "transport", "--rows"])
    assert "one_path_9000" in shown.stdout
    for wrong in (["nothing"], ["transport", "--only", "x"], ["transport", "--repeat", "0"]):
        assert runner.invoke(app, ["bench", *wrong]).exit_code == 2


def test_interruption_keeps_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    from softmrc.bench import Outcome, Row, RowResult

    row = Row(name="r", about="a / b", target=1.0, run=lambda _: Outcome(value=2.0))

    def run(rows: object, settings: Settings, done: object) -> None:
        assert callable(done)
        settings.say("measuring")
        done(RowResult.of(row, Outcome(value=2.0, peer={"unit": "Gbit/s", "ours": 4.0, "median": 2.0})))
        raise KeyboardInterrupt

    monkeypatch.setattr("softmrc.bench.run_rows", run)
    result = CliRunner().invoke(app, ["bench", "transport", "--json", "--quick"])
    assert result.exit_code == 130
    printed = json.loads(result.stdout)
    assert printed["partial"] is True
    assert printed["rows"][0]["value"] == 2.0
    text = CliRunner().invoke(app, ["bench", "transport"])
    assert "1 met, 0 missed, 0 skipped, interrupted" in text.stdout
    assert "4 beside 2 Gbit/s" in text.stdout


def test_programs_die_with_their_owner() -> None:
    owner = (
        "import sys, time\nfrom softmrc.bench.proc import Program\n"
        "child = 'import time; print(\"up\", flush=True); time.sleep(60)'\n"
        "p = Program(None, [sys.executable, '-c', child])\n"
        "p.await_line('up')\n"  # only then has setpriv said what is to happen
        "print(p.pid, flush=True)\ntime.sleep(60)"
    )
    with Program(None, python(owner)) as p:
        while b"\n" not in p._output:
            p._read(time.monotonic() + 20)
        child = int(p._output.split()[0])
        p._child.kill()
        p._child.wait()
    deadline = time.monotonic() + 5
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{child}").exists()
