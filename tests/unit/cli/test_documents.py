"""What README and docs write after `softmrc` exists: commands, options, scenarios, pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.layers.repo import ROOT

from softmrc.cli.app import app
from softmrc.sim.scenario import Scenario

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(?:sh|console)?\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`(softmrc [^`]+)`")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def written(page: Path) -> list[str]:
    """Return the commands of a page, one a line, without their comments."""
    text = page.read_text()
    lines = [line for block in BLOCK.findall(text) for line in block.splitlines()]
    lines += INLINE.findall(BLOCK.sub("", text))
    commands = [line.removeprefix("$ ").strip().split(" #")[0].strip() for line in lines]
    return [line for line in commands if line.startswith("softmrc ")]


def command_of(line: str) -> tuple[Any, list[str]]:
    """Return the command that a line calls, and the words after it; of `a|b|c` the group."""
    found: Any = typer.main.get_command(app)
    words = line.split()[1:]
    while words and hasattr(found, "get_command") and not words[0].startswith("-"):
        context = typer.Context(found)
        nexts = [found.get_command(context, name) for name in words[0].split("|")]
        assert None not in nexts, f"{line!r}: no command {words[0]}"
        words = words[1:]
        if len(nexts) > 1:
            return found, words
        found = nexts[0]
    return found, words


CASES = [(page.name, line) for page in PAGES for line in written(page)]


@pytest.mark.parametrize(("page", "line"), CASES)
def test_commands_and_options_exist(page: str, line: str) -> None:
    command, words = command_of(line)
    known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    known |= {"--help"}
    assert set(OPTION.findall(" ".join(words))) <= known, page
    if command.name == "run" and words and not words[0].startswith(("-", "[")):
        assert words[0].endswith((".toml", "FILE")) or words[0] in {name for name, _ in Scenario.list()}


def test_there_is_something_to_check() -> None:
    assert len(CASES) > 40


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_pages_that_are_named_exist(page: Path) -> None:
    named = set(re.findall(r"`((?:docs|examples|tests|core|python|tools)/[\w./-]+\.\w+)`", page.read_text()))
    assert sorted(n for n in named if not (ROOT / n).exists()) == []
