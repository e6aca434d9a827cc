"""`softmrc train-demo`: training that does not stop, beside one that has to wait."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated, Any

import typer

from softmrc.cli.output import FAILED, guard, need, note, put_json

__all__ = ["train_demo"]


def train_demo(
    where: Annotated[
        str,
        typer.Option(help="lab (namespaces, needs root), loopback, or auto: a lab where one can be made."),
    ] = "auto",
    ranks: Annotated[int, typer.Option(help="Training processes, 2 to 16.")] = 4,
    steps: Annotated[int, typer.Option(help="Optimiser steps of each run, 10 to 100000.")] = 200,
    every: Annotated[float, typer.Option(help="Seconds from one failure to the next, 1.5 to 60.")] = 2.0,
    planes: Annotated[int, typer.Option(help="2 to 8.")] = 4,
    rate: Annotated[float, typer.Option(help="Mbit/s of each plane, 10 to 10000.")] = 200.0,
    width: Annotated[
        int, typer.Option(help="Units of a hidden layer; 4 * width^2 bytes are reduced a step.")
    ] = 1000,
    peer: Annotated[str, typer.Option(help="gloo or none.")] = "gloo",
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**31, help="Of model, data and failures; none: a new one.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Where the figure goes.")] = Path("demo-out"),
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Train with DDP while planes, switches and paths fail every two seconds.

    A small network learns the handwritten digits of scikit-learn on several ranks: once over MRC in peace, once
    over MRC while things fail in turn (a plane, a T1, 5 % loss on a path, a flapping plane, every plane at once),
    and once over gloo under the same failures. Promised: no step is lost, the parameters equal those of the quiet
    run bit by bit, and no step takes 250 ms longer than the median while any plane is up.

    \b
    softmrc train-demo
    softmrc train-demo --where loopback --steps 100 --json
    softmrc train-demo --ranks 2 --every 1.5 --seed 7

    Exit codes: 0 every promise holds, 1 one does not, 2 wrong use, 130 interrupted.
    """
    with guard("train-demo", json):
        need("torch", "sklearn")
        if peer not in ("gloo", "none"):
            from softmrc.errors import UsageError

            raise UsageError(f"--peer is gloo or none, not {peer!r}")
        result = _run(
            where, None if peer == "none" else peer, out, json,
            ranks=ranks, planes=planes, steps=steps, every=every, width=width, rate_bps=int(rate * 1e6),
            seed=secrets.randbelow(1 << 31) if seed is None else seed,
        )  # fmt: skip
    if json:
        put_json(result)
    else:
        _print(result)
    if not result["ok"]:
        raise typer.Exit(FAILED)


def _run(where: str, peer: str | None, out: Path, json: bool, **plan: Any) -> dict[str, Any]:
    from rich.console import Console

    from softmrc.train_demo.demo import choose_place, perform
    from softmrc.train_demo.plan import Plan
    from softmrc.train_demo.view import View

    place = choose_place(where)
    if place == "loopback" and peer and not json:
        note(
            "the gloo twin runs undisturbed: on loopback only MRC's own planes can be broken (a lab needs root)"
        )
    with View(Console(stderr=True, quiet=json)) as view:
        return perform(Plan(**plan), place, peer, out, view).to_json()


def _print(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(title=f"seed {result['seed']}, {result['where']}", title_justify="left")
    for name in (
        "",
        "steps",
        "seconds",
        "median ms",
        "slowest ms",
        "slowest, a plane up",
        "final loss",
        "parameters",
    ):
        table.add_column(name)
    for run in result["runs"]:
        lost = f" ({run['steps_lost']} lost)" if run["steps_lost"] else ""
        cells = [
            run[k] for k in ("seconds", "median_step_ms", "slowest_step_ms", "slowest_step_partly_up_ms")
        ]
        table.add_row(
            run["name"], f"{run['steps']}{lost}", *("" if c is None else f"{c:g}" for c in cells),
            "" if run["final_loss"] is None else f"{run['final_loss']:.7f}", (run["digest"] or "")[:12],
        )  # fmt: skip
    console.print(table)
    for run in result["runs"]:
        for error in run["failed"]:
            console.print(f"{run['name']}: {error}", highlight=False, markup=False)
    if result["figure"]:
        console.print(f"figure: {result['figure']}", highlight=False)
    else:
        note("no figure: matplotlib is missing; pip install 'softmrc[train]'")
    if result["ok"]:
        console.print("[bold green]every promise holds[/]")
    for line in result["broken"]:
        console.print(f"[bold red]broken:[/] {line}", highlight=False)
