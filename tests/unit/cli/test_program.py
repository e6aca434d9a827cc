"""Programs that a command is to run: found, missing, or of no use, with a shell's exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from softmrc.cli.program import must_run


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "good").write_text("#!/bin/sh\n")
    (tmp_path / "good").chmod(0o755)
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    (tmp_path / "folder").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("program", ["good", "./good"])
def test_a_program_that_is_there(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    must_run("lab exec", program)  # goes on, and has nothing to say
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("program", "code", "words"),
    [
        ("missing", 127, "missing: not found; looked in"),
        ("./missing", 127, "./missing: not found; there is no such file"),
        ("/no/such/folder/x", 127, "there is no such file"),
        ("plain", 126, "plain: cannot be run: not executable; chmod +x"),
        ("./plain", 126, "not executable"),
        ("./folder", 126, "a directory"),
        ("", 126, "cannot be run"),
    ],
)
def test_a_program_that_cannot_be_run(
    program: str, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended:
        must_run("lab exec", program)
    assert ended.value.exit_code == code
    said = capsys.readouterr().err
    assert said.startswith(f"softmrc lab exec: {program}")
    assert words in said
