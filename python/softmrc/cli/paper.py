"""`softmrc paper`: the published results of MRC beside ours."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from softmrc.cli.output import FAILED, INTERRUPTED, guard, note, put, put_json

if TYPE_CHECKING:
    from softmrc.paper.run import Progress

__all__ = ["paper"]


def paper(
    only: Annotated[str, typer.Option(help="Targets with commas between, as R2,R3; all by default.")] = "",
    quick: Annotated[
        bool, typer.Option("--quick", help="Few seeds, small sizes: two to three minutes on two idle cores.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    out: Annotated[str, typer.Option(help="Folder for the report, the curves and the figures.")] = "",
    jobs: Annotated[int | None, typer.Option(help="Processes; one a core by default.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds where hashing or EVs are random.")] = None,
    show: Annotated[bool, typer.Option("--list", help="List the targets and run nothing.")] = False,
) -> None:
    """Rebuild the experiments of the MRC paper in the simulator and judge the results.

    For each target it prints the paper's value, ours, the criterion and whether it is met. All scenarios share one
    set of parameters; --quick changes seeds and sizes only. With --out the paper's figures are drawn with its own
    points beside ours.

    \b
    softmrc paper --quick
    softmrc paper --only R2,R3,R4 --out report
    softmrc paper --json --seeds 20 > paper.json

    Exit codes: 0 all that must hold holds, 1 something does not, 2 wrong use, 130 interrupted (what was complete by
    then is printed).
    """
    with guard("paper", json):
        from softmrc.paper.targets import chosen

        targets = chosen(only)
        if show:
            _list(targets, json)
            return
        from softmrc.paper.run import run_paper
        from softmrc.paper.store import prepare, store

        folder = prepare(out) if out else None
        with _progress() as progress:
            report = run_paper(targets, quick=quick, seeds=seeds, jobs=jobs, progress=progress)
        if folder is not None:
            files, why = store(report, folder)
            note(f"wrote {len(files)} files to {folder}")
            if why:
                note(why)
    if json:
        put_json(report.as_dict())
    else:
        put(report.text())
    if report.partial:
        raise typer.Exit(INTERRUPTED)
    if not report.ok:
        raise typer.Exit(FAILED)


def _list(targets: object, json: bool) -> None:
    from softmrc.paper.targets import Target

    assert isinstance(targets, list)
    rows: list[Target] = targets
    if json:
        put_json(
            {"targets": [{"id": t.id, "title": t.title, "source": t.source, "must": t.must} for t in rows]}
        )
        return
    put("\n".join(f"{t.id:4} {'must' if t.must else '    '} {t.title} ({t.source})" for t in rows))


@contextmanager
def _progress() -> Iterator[Progress]:
    """Show simulations done and the time left; on a terminal a bar, else a line now and then."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bar

    columns = (BarColumn(), TextColumn("{task.fields[cells]}"), TimeElapsedColumn(), TimeRemainingColumn(),
               TextColumn("{task.fields[last]}"), MofNCompleteColumn())  # fmt: skip
    with Bar(TextColumn("paper"), *columns[:-1], console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("paper", total=None, cells="", last="")

        def progress(done: int, cells: int, spent: float, total: float, key: str) -> None:
            bar.update(task, total=total, completed=spent, cells=f"{done}/{cells}", last=key)

        yield progress


def _lines() -> Callable[[int, int, float, float, str], None]:
    import time

    began = last = time.monotonic()

    def progress(done: int, cells: int, spent: float, total: float, key: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= 10 and spent:
            last = now
            left = (now - began) * (total - spent) / spent
            note(f"{done} of {cells} simulations, about {left:.0f} s left")

    return progress
