"""`softmrc chaos`: two engines in virtual time under random failures."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from softmrc.cli.output import FAILED, fail, guard, note, put_json

if TYPE_CHECKING:
    from softmrc.chaos import ChaosResult

__all__ = ["chaos"]


def chaos(
    seed: Annotated[int, typer.Option(help="Everything follows from it.")] = 1,
    packets: Annotated[int, typer.Option(help="Packets handed to the network.")] = 1_000_000,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Threads; one a core by default.")] = None,
    episode: Annotated[int | None, typer.Option(help="Replay this episode alone; --packets are its own.")] = None,
    without: Annotated[str, typer.Option(help="With --episode: actions to leave out, as 1,2,3.")] = "",
) -> None:
    """Run two engines against each other while links, paths, ports and sides fail at random.

    Checked all the time: every write is placed exactly and nowhere else, each immediate comes once and in order after
    its data, no QP gets stuck or goes to ERROR, memory stays bounded. Time is virtual: nothing is sent on any network.
    A failure prints what it needs to happen again and the command that shows it.

    \b
    softmrc chaos --seed 7 --packets 5000000
    softmrc chaos --seed 7 --episode 3 --packets 250000 --without 1,2,3

    Exit codes: 0 nothing wrong, 1 a violation was found, 2 wrong use, 130 interrupted.
    """
    with guard("chaos", json):
        result = _run(seed, packets, jobs, episode, without, json)
    if json:
        put_json(result.as_dict())
    else:
        print(result.text())
    for failure in result.failures:
        note(failure.text())
    if result.violations:
        raise typer.Exit(FAILED)


def _run(seed: int, packets: int, jobs: int | None, episode: int | None, without: str, json: bool) -> ChaosResult:
    from softmrc.chaos import replay, run

    if episode is not None:
        return replay(seed, episode, packets, _numbers(without, json))
    if without:
        fail("chaos", "--without needs --episode", 2, json)
    if not sys.stderr.isatty():
        return run(seed, packets, jobs)
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("chaos"), BarColumn(), MofNCompleteColumn(), TextColumn("violations {task.fields[bad]}"))
    with Bar(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("chaos", total=max(packets, 1), bad=0)
        return run(seed, packets, jobs, lambda done, bad: bar.update(task, completed=done, bad=bad))


def _numbers(text: str, json: bool) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        fail("chaos", f"--without takes numbers with commas between, not {text!r}", 2, json)
