"""Names of labs are names of files: none leads out of the labs' own directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from softmrc.errors import UsageError
from softmrc.lab.state import LabState, directory, file_of, locked

BAD = [
    "../x",
    "../../tmp/q/config",
    "/tmp/q",
    "a/b",
    "*",
    "a*",
    "[a]",
    "",
    ".",
    "..",
    "a.b",
    "-x",
    "x" * 17,
    "a b",
    "ä",
]


@pytest.mark.parametrize("name", BAD)
def test_no_file_of_another_name(name: str) -> None:
    for touch in (
        lambda: file_of(name, "json"),
        lambda: LabState.load(name),
        lambda: locked(name).__enter__(),
    ):
        with pytest.raises(UsageError, match="a letter, then letters, digits and _"):
            touch()


def test_files_lie_in_one_directory() -> None:
    assert file_of("lab_1", "json").parent == directory()


@pytest.mark.parametrize(
    "command", ["down", "status", "exec", "test", "repair", "map", "fail", "heal", "locate"]
)
def test_commands_refuse_such_names_and_leave_files_alone(command: str, tmp_path: Path) -> None:
    labs = tmp_path / "softmrc"
    labs.mkdir()
    others = [tmp_path / name for name in ("config.json", "config.prod.json", "config.lock")]
    for file in others:
        file.write_text("{}")
    more = {"exec": ["h0", "--", "true"], "fail": ["p1"]}.get(command, [])
    run = subprocess.run(
        [sys.executable, "-m", "softmrc.cli.app", "lab", command, "--name", "../config", *more],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert run.returncode == 2, run.stderr
    assert "Traceback" not in run.stderr
    assert [json.loads(file.read_text()) for file in others] == [{}, {}, {}]
