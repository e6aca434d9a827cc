"""`softmrc lab map`: the fabric as a picture, in the terminal or as SVG, with the load and state of each link."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from softmrc.cli.lab_options import Json, Name
from softmrc.cli.output import guard, note, put, put_json

if TYPE_CHECKING:
    from softmrc.lab import Lab
    from softmrc.lab.look import LinkLoad

__all__ = ["register", "watch"]


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("map")(show)


def show(
    name: Name = "lab",
    svg: Annotated[Path | None, typer.Option(help="Write an SVG instead of drawing in the terminal.")] = None,
    live: Annotated[
        bool, typer.Option("--watch", "-w", help="Draw again and again until interrupted.")
    ] = False,
    interval: Annotated[
        float, typer.Option(min=0.1, max=60, help="Seconds over which load is measured.")
    ] = 1.0,
    json: Json = False,
) -> None:
    """Draw the fabric: which link carries how much, which are down or hurt.

    Each cell of the terminal's tables is a link, its rate up and down as two bars. In the SVG, darkness and width are
    load; point at a link for its figures.

    \b
    softmrc lab map
    softmrc lab map --watch
    softmrc lab map --svg fabric.svg

    Exit codes: 0 done, 2 no such lab, 130 interrupted.
    """
    with guard("lab map", json):
        from softmrc.lab import Lab
        from softmrc.lab.draw_svg import draw_svg

        lab = Lab.load(name)
        try:
            if live and not json:
                watch(lab, interval)
                return
            loads = _measure(lab, interval)
        finally:
            lab.close()
        if svg is not None:
            svg.write_text(draw_svg(loads, f"lab {name}"), encoding="utf-8")
            note(f"wrote {svg}")
        if json:
            put_json({"ok": True, "name": name, "links": [load.to_json() for load in loads]})
        elif svg is None:
            _print(loads, f"lab {name}")


def _measure(lab: Lab, interval: float) -> list[LinkLoad]:
    from softmrc.lab.look import look

    before = look(lab)
    time.sleep(interval)
    return look(lab).since(before)


def _print(loads: list[LinkLoad], title: str) -> None:
    from rich.console import Console

    from softmrc.lab.draw_text import draw_text

    terminal = sys.stdout is not None and sys.stdout.isatty()
    console = Console(width=None if terminal else 120, highlight=False)
    with console.capture() as text:
        console.print(draw_text(loads, title))
    if terminal:
        sys.stdout.write(text.get())
    else:
        put(text.get().rstrip("\n"))


def watch(lab: Lab, interval: float) -> None:
    """Draw a lab until interrupted; on a terminal in place, else one picture after another."""
    from rich.console import Console
    from rich.live import Live

    from softmrc.lab.draw_text import draw_text
    from softmrc.lab.look import look
    from softmrc.lab.state import LabState

    console = Console(highlight=False)
    before = look(lab)
    in_place = Live(console=console, auto_refresh=False, screen=True) if console.is_terminal else None
    with in_place or contextlib.nullcontext():
        while (state := LabState.load(lab.name)) is not None:
            time.sleep(interval)
            lab.state = state  # faults come and go in other processes
            now = look(lab)
            picture = draw_text(now.since(before), f"lab {lab.name}  {time.strftime('%H:%M:%S')}")
            if in_place is not None:
                in_place.update(picture, refresh=True)
            else:
                console.print(picture)
            before = now
