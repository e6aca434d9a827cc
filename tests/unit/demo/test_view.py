"""What a person sees: the live page, the plain lines and the picture, from a made-up run."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from softmrc.demo.plan import make_plan
from softmrc.demo.run import Run, _script
from softmrc.demo.view import View


@pytest.fixture
def run():
    made = Run(make_plan(7, 4, 3, 6.0, ipv6=False), pinned=False)
    made.start_ns = time.monotonic_ns() - int(7e9)
    made.paths = [(plane, 0x8000 + i) for plane in range(1, 5) for i in range(3)]
    for i in range(300):
        at = made.start_ns + i * 20_000_000
        made.placed.append((at, i * 600_000.0))
        for plane in range(1, 5):
            made.plane_rx.setdefault(plane, []).append((at, i * 150_000.0))
    made.states = [(made.start_ns, "gggaaagsgggd")]
    made.rtx = [(made.start_ns, 17.0)]
    made.events = [(made.start_ns + 10**9, "plane 2 is cut")]
    return made


def test_live_page(run):
    out = io.StringIO()
    with View(Console(file=out, force_terminal=True, width=100, height=40)) as view:
        view.begin("a title")
        view.update(run)
    text = out.getvalue()
    for word in ("a title", "127.0.0.3", "retransmissions 17", "plane 2 is cut", "60 Mbit/s", "●"):
        assert word in text


def test_plain_lines_when_there_is_no_terminal(run):
    out = io.StringIO()
    with View(Console(file=out, width=100)) as view:
        view.begin("a title")
        view.update(run)
    assert out.getvalue().splitlines() == ["a title", "   1.00 s  plane 2 is cut"]


def test_a_pinned_run_keeps_the_number_of_its_plane(run):
    single = Run(run.plan, pinned=True, start_ns=run.start_ns, placed=run.placed, paths=[(1, 0x8000)])
    cut = run.plan.harm.cut_plane
    single.events = [(single.at_ns(t), what) for t, what in _script(single)]
    out = io.StringIO()
    with View(Console(file=out, force_terminal=True, width=100, height=40)) as view:
        view.begin("a title")
        view.update(single)
    assert cut != 1
    assert f"plane {cut} (127.0.0.{cut}) is cut" in out.getvalue()
    assert "plane 1 " not in out.getvalue()
    assert (single.shown(1), run.shown(1)) == (cut, 1)


def test_picture(run, tmp_path):
    pytest.importorskip("matplotlib", reason="the picture needs the extra 'plot'")
    from softmrc.demo.plot import draw

    single = Run(run.plan, pinned=True, start_ns=run.start_ns, placed=run.placed)
    draw(run, single, str(tmp_path / "p.png"))
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
