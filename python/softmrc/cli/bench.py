"""`softmrc bench`: comparisons with what else this machine can run: transports, collectives, simulators."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from softmrc.cli.bench_collectives import collectives
from softmrc.cli.output import FAILED, INTERRUPTED, guard, note, put_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from softmrc.bench import Row, RowResult

__all__ = ["bench"]

bench = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="""Measure softmrc beside what else this machine can run, in turn, and print the ratios.

    \b
    softmrc bench transport                     TCP, MPTCP, bare sockets: takes long
    softmrc bench transport --quick             a few minutes
    softmrc bench collectives                   torch's collectives, gloo in turn
    softmrc bench sim                           the simulator's speed and memory

    Exit codes: 0 every measured row meets its target, 1 one does not, 2 wrong use, 130 interrupted (what was
    measured until then is printed).
    """,
)


@bench.command("transport")
def transport(
    only: Annotated[str, typer.Option(help="Rows with commas between; all by default.")] = "",
    repeat: Annotated[int | None, typer.Option(help="Pairs of runs a row; 5 by default.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Length of a steady run; 3 by default.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="One short pair a row: that it runs, not how fast.")
    ] = False,
    rows: Annotated[
        bool, typer.Option("--rows", help="List the rows and what this host lacks for them.")
    ] = False,
) -> None:
    """Compare the transport with TCP, MPTCP and bare sockets on this machine.

    As root it builds networks of its own (namespaces) and takes them away again. Otherwise rows that can do so
    run over loopback, and the rest is skipped with the reason.

    \b
    softmrc bench transport                                 everything: takes long
    softmrc bench transport --quick                         a few minutes
    softmrc bench transport --only one_path_9000,latency_sleep --repeat 9
    """
    with guard("bench", json):
        from softmrc.bench.transport import choose

        chosen = choose([name.strip() for name in only.split(",") if name.strip()])
        if rows:
            _list(chosen, json)
            return
        default_repeat, default_seconds = (1, 1.0) if quick else (5, 3.0)
        repeat = default_repeat if repeat is None else repeat
        seconds = default_seconds if seconds is None else seconds
        # What a program reads stays one object; people see each row as it is done.
        results, interrupted = _measure(chosen, repeat, seconds, quick, note if json else typer.echo)
    if json:
        put_json({"partial": interrupted, "quick": quick, "rows": [r.to_json() for r in results]})
    else:
        _sum_up(results, interrupted)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if any(r.ok is False for r in results):
        raise typer.Exit(FAILED)


@bench.command("sim")
def sim(
    only: Annotated[str, typer.Option(help="Cases with commas between; all by default.")] = "",
    repeat: Annotated[int | None, typer.Option(help="Runs a case; 3 by default.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="One run of the small cases: that it runs, not how fast.")
    ] = False,
    rows: Annotated[bool, typer.Option("--rows", help="List the cases.")] = False,
    htsim: Annotated[str, typer.Option(help="Your own build of htsim_uec, run in turn.")] = "",
) -> None:
    """Measure the simulator: speed, memory, completion times.

    Permutations of 2 MB flows at 400 Gb/s among 128 to 8,192 hosts, one core, each run a process of its own.

    \b
    softmrc bench sim
    softmrc bench sim --htsim ~/uet-htsim/htsim/sim/datacenter/htsim_uec
    """
    with guard("bench", json):
        from softmrc.cli.bench_sim import bench_sim

        bench_sim(only=only, repeat=repeat, quick=quick, rows=rows, htsim=htsim or None, json=json)


bench.command("collectives")(collectives)


def _list(chosen: Sequence[Row], json: bool) -> None:
    from softmrc.bench.place import Place
    from softmrc.bench.transport import skip_reason

    place = Place.of_this_process()
    found = []
    for row in chosen:
        sense = "<=" if row.at_most else ">="
        found.append(
            {
                "name": row.name,
                "about": row.about,
                "target": row.target,
                "sense": sense,
                "skip": skip_reason(row, place),
            }
        )
    if json:
        put_json({"rows": found})
        return
    for line in found:
        skip = f"   (skipped: {line['skip']})" if line["skip"] else ""
        aim = "(informs)" if line["target"] is None else f"{line['sense']} {line['target']:g}"
        typer.echo(f"{line['name']:18} {line['about']} {aim}{skip}")


def _measure(
    rows: Sequence[Row], repeat: int, seconds: float, quick: bool, put: Callable[[str], None]
) -> tuple[list[RowResult], bool]:
    from softmrc.bench import Settings, run_rows

    results: list[RowResult] = []
    with _progress(len(rows), put) as (say, advance):

        def done(result: RowResult) -> None:
            results.append(result)
            advance(result)

        settings = Settings(repeat=repeat, seconds=seconds, quick=quick, say=say)
        try:
            run_rows(rows, settings, done)
        except KeyboardInterrupt:
            return results, True
    return results, False


@contextmanager
def _progress(
    total: int, put: Callable[[str], None]
) -> Iterator[tuple[Callable[[str], None], Callable[[RowResult], None]]]:
    """Put a line a row, and on a terminal a bar below that says what is being measured."""
    if not sys.stderr.isatty():
        yield (lambda _: None), (lambda result: put(_line(result)))
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    console = Console(stderr=True, highlight=False)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as bar:
        task = bar.add_task("", total=total)

        def advance(result: RowResult) -> None:
            bar.stop()  # the line takes the place of the bar, whichever stream it goes to
            put(_line(result))
            bar.advance(task)
            bar.start()

        yield (lambda text: bar.update(task, description=text)), advance


def _line(result: RowResult) -> str:
    mark = {True: "ok", False: "MISS", None: "skip" if result.value is None else "info"}[result.ok]
    if result.value is None:
        why = result.detail.get("skipped") or result.detail.get("error")
        return f"{mark:4}  {result.name:18} {why}"
    ours, theirs = result.peer.get("ours"), result.peer.get("median")
    figures = f"   {ours:g} beside {theirs:g} {result.peer.get('unit', '')}" if ours and theirs else ""
    broken = [words for words, holds in result.detail.get("also", {}).items() if not holds]
    more = f"   not: {', '.join(broken)}" if broken else ""
    judged = f"{result.value:<7g}" + ("" if result.target is None else f" {result.sense} {result.target:g}")
    return f"{mark:4}  {result.name:18} {judged}   {result.about}{figures}{more}"


def _sum_up(results: list[RowResult], interrupted: bool) -> None:
    met, missed = (sum(r.ok is ok for r in results) for ok in (True, False))
    skipped = sum(r.ok is None and r.value is None for r in results)
    tail = ", interrupted" if interrupted else ""
    typer.echo(f"\n{met} met, {missed} missed, {skipped} skipped{tail}")
