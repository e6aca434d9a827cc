"""The page that commands draw over itself, and the lines that take its place."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from softmrc import live
from softmrc.live import LivePage


def test_without_a_terminal_there_are_lines_each_once() -> None:
    out = io.StringIO()
    with LivePage(Console(file=out, width=80)) as page:
        page.say("[title]")
        page.draw("a page")
        page.say_new(["one"])
        page.say_new(["one", "two"])
        page.forget()
        page.say_new(["three"])
        assert not page.drawn
    assert out.getvalue().splitlines() == ["[title]", "one", "two", "three"]


def test_on_a_terminal_there_is_a_page_and_no_line() -> None:
    out = io.StringIO()
    with LivePage(Console(file=out, width=80, force_terminal=True)) as page:
        page.say("a line")
        page.say_new(["another"])
        page.draw("a page")
        assert page.drawn
    assert "a page" in out.getvalue()
    assert "line" not in out.getvalue()
    assert "another" not in out.getvalue()


def test_ten_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(live.time, "monotonic", lambda: now)
    page = LivePage(Console(file=io.StringIO()))
    assert page.due()
    assert not page.due()
    now += 0.05
    assert not page.due()
    now += 0.06
    assert page.due()
