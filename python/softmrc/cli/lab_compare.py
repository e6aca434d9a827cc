"""`softmrc lab compare`: softmrc, TCP and MPTCP on one fabric under one failure."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from softmrc.cli.lab_options import Json, Name, bits_per_second
from softmrc.cli.output import FAILED, guard, need, note, put, put_json

if TYPE_CHECKING:
    from softmrc.lab import Lab
    from softmrc.lab.compare import Result

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("compare")(compare)


def compare(
    name: Name = "compare",
    only: Annotated[
        str, typer.Option(help="Kinds with commas: softmrc, softmrc-notrim, tcp, mptcp; all by default.")
    ] = "",
    planes: Annotated[int, typer.Option(min=2, max=31, help="Of a lab made for this.")] = 4,
    rate: Annotated[str, typer.Option(help="Rate of each plane of a lab made for this.")] = "200M",
    switch: Annotated[str, typer.Option(help="Of a lab made for this: kernel, soft, veth or auto.")] = "auto",
    target: Annotated[str, typer.Option(help="What fails: a plane, switch, link, port.")] = "p1",
    silent: Annotated[bool, typer.Option("--silent", help="It swallows packets and stays up.")] = False,
    before: Annotated[float, typer.Option(min=1.5, max=60, help="Seconds before the failure.")] = 3.0,
    broken: Annotated[float, typer.Option(min=0.5, max=60, help="Seconds until it is healed.")] = 3.0,
    after: Annotated[float, typer.Option(min=0.5, max=60, help="Seconds after that.")] = 3.0,
    figure: Annotated[Path | None, typer.Option(help="Draw goodput over time: .svg, .png or .pdf.")] = None,
    json: Json = False,
) -> None:
    """Send as much as fits from one host to another, lose a plane and get it back; by each transport in turn.

    Uses the lab of that --name, or makes one (2 T0s and 4 T1s a plane, 2 hosts) and removes it. TCP runs over the first
    plane, which is the one that fails; MPTCP has a subflow on each.

    \b
    softmrc lab compare
    softmrc lab compare --figure compare.svg --json
    softmrc lab compare --silent --only softmrc,mptcp
    softmrc lab compare --name lab --target p2.t1-3 --broken 1

    Exit codes: 0 every promise about softmrc holds, 1 one does not, 2 wrong use or the host cannot.
    """
    with guard("lab compare", json):
        from softmrc.lab.compare import Cut
        from softmrc.lab.compare import compare as run
        from softmrc.lab.transfers import KINDS

        if figure is not None:
            need("matplotlib")
        cut = Cut(target=target, silent=silent, at=before, until=before + broken)
        kinds = tuple(k.strip() for k in only.split(",") if k.strip()) or KINDS
        say = (
            (lambda text: note(f"lab compare: {text}"))
            if sys.stderr.isatty() and not json
            else (lambda text: None)
        )
        with _lab(name, planes, bits_per_second(rate, "--rate"), switch) as lab:
            result = run(lab, kinds=kinds, cut=cut, after=after, say=say)
        if figure is not None:
            from softmrc.lab.compare_figure import draw_comparison

            note(f"wrote {draw_comparison(result, figure)}")
    if json:
        put_json(result.to_json())
    else:
        _print(result)
    if not result.ok:
        raise typer.Exit(FAILED)


@contextlib.contextmanager
def _lab(name: str, planes: int, rate: int | None, switch: str) -> Iterator[Lab]:
    """Give out the lab of that name as it is, or one that is made for this."""
    from softmrc.lab import Lab, LabSpec
    from softmrc.lab.state import known

    if name in known():
        lab = Lab.load(name)
        try:
            yield lab
        finally:
            lab.close()
        return
    with Lab.up(LabSpec(name=name, planes=planes, t0=2, t1=4, hosts=2, rate_bps=rate, switch=switch)) as lab:
        yield lab


def _print(result: Result) -> None:
    from rich.console import Console
    from rich.table import Table

    found = result.to_json()
    table = Table(box=None, pad_edge=False)
    table.add_column("transfer")
    for column in ("Mbit/s before", "of sum", "while broken", "back ms", "full again ms", "worst 200 ms",
                   "stall ms", "re-sent MB"):  # fmt: skip
        table.add_column(column, justify="right")
    for run in found["runs"]:
        if "why_not" in run:
            continue
        outage = run["outages"][0]
        figures = (
            run["before_mbps"], run["share_before"], outage["during_mbps"], outage["back_after_ms"],
            outage["full_after_ms"], run["worst_200ms_share"], run["longest_stall_ms"],
            round(run["resent_bytes"] / 1e6, 2),
        )  # fmt: skip
        table.add_row(run["kind"], *("never" if f is None else f"{f:g}" for f in figures))
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    with console.capture() as text:
        lab = found["lab"]
        console.print(
            f"{lab['planes']} planes of {lab['rate_bps'] / 1e6:g} Mbit/s, {lab['paths']} paths; "
            f"{result.cut.target} {'swallows packets' if result.cut.silent else 'is down'} from "
            f"{result.cut.at:g} s to {result.cut.until:g} s"
        )
        console.print(table)
        for run in found["runs"]:
            if "why_not" in run:
                console.print(f"{run['kind']} was not run: {run['why_not']}")
        for check in result.checks:
            value = "never" if check.ours != check.ours else f"{check.ours:.4g}"
            console.print(
                f"{'holds  ' if check.met else 'DOES NOT HOLD'} {check.name}: {value} ({check.range})"
            )
    put(text.get().rstrip("\n"))
