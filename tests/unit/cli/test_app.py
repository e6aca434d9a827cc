"""The command line without a network: help, versions, errors and their exit codes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from softmrc.cli.app import app

COMMANDS = ("send", "recv", "ping", "demo", "doctor", "chaos", "vectors")


@pytest.fixture
def run():
    return lambda *args, **kw: CliRunner().invoke(app, list(args), **kw)


def test_help_names_every_command(run):
    result = run("--help")
    assert result.exit_code == 0
    assert all(name in result.output for name in COMMANDS)


@pytest.mark.parametrize("name", ["send", "recv", "ping", "demo", "doctor"])
def test_help_of_each_has_examples_and_exit_codes(run, name):
    result = run(name, "--help")
    assert result.exit_code == 0
    assert f"softmrc {name}" in result.output
    assert "Exit codes" in result.output


def test_version(run):
    result = run("--version")
    assert result.exit_code == 0
    assert result.output.startswith("softmrc ")


def test_unknown_command(run):
    assert run("sned").exit_code == 2


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["send", "only"], 2, "DEST"),
        (["send", "/nonexistent", "10.0.0.1"], 1, "/nonexistent"),
        (["send", "/etc/hostname", "10.0.0.1:x"], 2, "port"),
        (["recv", "--listen", "0.0.0.0", "--dir", "x"], 2, "address of its own"),
        (["recv", "--listen", "nohost", "--dir", "x"], 2, "doctor"),
        (["recv", "--listen", "127.0.0.1", "--dir", "/dev/null/x"], 1, "/dev/null/x"),
        (["recv", "--listen", "127.0.0.1", "--dir", "x", "--token", ""], 2, "token is empty"),
        (["demo", "--seconds", "1"], 2, "--seconds"),
        (["demo", "--seconds", "nan"], 2, "8 to 600, not nan"),
        (["demo", "--seconds", "601"], 2, "8 to 600, not 601"),
        (["demo", "/nonexistent"], 1, "/nonexistent"),
        (["chaos", "--packets", str(1 << 60)], 2, "packets must be 1 to 1000000000000"),
        (["chaos", "--packets", "0"], 2, "packets must be 1 to 1000000000000"),
    ],
)
def test_errors_say_what_and_how(run, tmp_path, monkeypatch, args, code, words):
    monkeypatch.chdir(tmp_path)
    result = run(*args)
    assert result.exit_code == code
    assert words in result.output
    assert "Traceback" not in result.output


def test_errors_as_json(run):
    result = run("send", "/nonexistent", "10.0.0.1", "--json")
    found = json.loads(result.stdout)
    assert found["ok"] is False
    assert found["exit_code"] == result.exit_code == 1


def test_doctor_json(run):
    result = run("doctor", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert found["works"] is True
    assert any(p["address"] == "127.0.0.1" for p in found["planes"])


def test_nothing_heavy_is_imported_for_help():
    code = (
        "import sys, softmrc.cli.app; print(sorted({'matplotlib', 'numpy', 'rich.live'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
