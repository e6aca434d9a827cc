"""`softmrc chaos`: two engines in virtual time under random failures."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from softmrc.cli.output import FAILED, USAGE, fail, guard, note, put_json

if TYPE_CHECKING:
    from softmrc.chaos import ChaosResult

__all__ = ["chaos"]


def chaos(
    seed: Annotated[int, typer.Option(help="Everything follows from it.")] = 1,
    packets: Annotated[int, typer.Option(help="Packets handed to the network.")] = 1_000_000,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Threads; one a core by default.")] = None,
    max_qp_bytes: Annotated[int | None, typer.Option(help="State one QP may hold.")] = None,
    episode: Annotated[int | None, typer.Option(help="Replay one episode; --packets are its own.")] = None,
    actions: Annotated[int | None, typer.Option(help="With --episode: only the first N actions.")] = None,
    without: Annotated[str, typer.Option(help="With --episode: actions to leave out, as 1,2,3.")] = "",
) -> None:
    r"""Run two engines against each other while links, paths, ports and sides fail at random.

    Checked all the time: every write is placed exactly and nowhere else, each immediate comes once, in order
    and after its data, no QP gets stuck or goes to ERROR, memory stays bounded. Time is virtual: nothing is
    sent on any network. A failure prints what it needs to happen again and the command that shows it.

    \b
    softmrc chaos --seed 7 --packets 5000000
    softmrc chaos --seed 7 --episode 3 --packets 250000 --actions 40 --without 1,2,3

    Exit codes: 0 nothing wrong, 1 a violation was found, 2 wrong use, 130 interrupted.
    """
    with guard("chaos", json):
        if episode is not None:
            result = _replay(seed, episode, packets, actions, _numbers(without, json), max_qp_bytes)
        elif without or actions is not None:
            fail("chaos", "--without and --actions need --episode", USAGE, json)
        else:
            result = _run(seed, packets, jobs, max_qp_bytes)
    if json:
        put_json(result.as_dict())
    else:
        print(result.text())
    for failure in result.failures:
        note(failure.text())
    if result.violations:
        raise typer.Exit(FAILED)


def _replay(
    seed: int, number: int, packets: int, actions: int | None, without: list[int], max_qp_bytes: int | None
) -> ChaosResult:
    from softmrc.chaos import MAX_QP_BYTES, Episode, replay

    limit = MAX_QP_BYTES if max_qp_bytes is None else max_qp_bytes
    return replay(Episode(seed, number, packets, tuple(sorted(set(without))), actions, limit))


def _run(seed: int, packets: int, jobs: int | None, max_qp_bytes: int | None) -> ChaosResult:
    from softmrc.chaos import MAX_QP_BYTES, run

    limit = MAX_QP_BYTES if max_qp_bytes is None else max_qp_bytes
    if not sys.stderr.isatty():
        return run(seed, packets, jobs, max_qp_bytes=limit)
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("violations {task.fields[bad]}"),
        TimeElapsedColumn(),
    )
    with Bar(TextColumn("chaos"), *columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("chaos", total=max(packets, 1), bad=0)

        def progress(done: int, bad: int) -> None:
            bar.update(task, completed=done, bad=bad)

        return run(seed, packets, jobs, progress, max_qp_bytes=limit)


def _numbers(text: str, json: bool) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        fail("chaos", f"--without takes numbers with commas between, not {text!r}", USAGE, json)
