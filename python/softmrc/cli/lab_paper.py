"""`softmrc lab paper`: the published results of MRC on a testbed in this machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from softmrc.cli.lab_options import Json, bits_per_second
from softmrc.cli.output import FAILED, INTERRUPTED, guard, note, put, put_json

if TYPE_CHECKING:
    from softmrc.paper.targets import Target

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("paper")(paper)


def paper(
    only: Annotated[str, typer.Option(help="Targets with commas between, as R6,R7; all by default.")] = "",
    quick: Annotated[bool, typer.Option("--quick", help="One draw, short states.")] = False,
    out: Annotated[str, typer.Option(help="Folder for the report, the curves and the figures.")] = "",
    rate: Annotated[
        str, typer.Option(help="Rate of a host's port, where a study says nothing else.")
    ] = "100M",
    switch: Annotated[str, typer.Option(help="kernel, soft, veth or auto.")] = "auto",
    show: Annotated[bool, typer.Option("--list", help="List the targets and run nothing.")] = False,
    name: Annotated[str, typer.Option("--name", "-n", help="Of the labs it makes.")] = "paper",
    json: Json = False,
) -> None:
    """Rebuild the experiments of the MRC paper that a small testbed can show, in the kernel's own forwarding.

    Each runs on labs of its own, made and removed. Results are ratios: rates are a thousandth of the paper's and less,
    delays are longer. The report has the form of `softmrc paper`.

    \b
    softmrc lab paper --quick
    softmrc lab paper --only R6,R7 --out report
    softmrc lab paper --json > bed.json

    Exit codes: 0 every criterion holds, 1 one does not, 2 wrong use or the host cannot, 130 interrupted.
    """
    with guard("lab paper", json):
        from softmrc.lab.paper import bed_targets, run_bed

        targets = bed_targets(only)
        if show:
            _list(targets, json)
            return
        folder = None
        if out:
            from softmrc.paper.store import prepare

            folder = prepare(out)
        say = (
            (lambda text: note(f"lab paper: {text}"))
            if sys.stderr.isatty() and not json
            else (lambda text: None)
        )
        port = bits_per_second(rate, "--rate") or 100_000_000
        report = run_bed(targets, quick=quick, name=name, rate_bps=port, switch=switch, say=say)
        if folder is not None:
            from softmrc.lab.paper_figures import store_bed

            files, why = store_bed(report, folder)
            note(f"wrote {len(files)} files to {folder}")
            if why:
                note(why)
    if json:
        put_json(report.as_dict())
    else:
        put(report.text())
    if report.partial:
        raise typer.Exit(INTERRUPTED)
    if not all(entry.met for entry in report.entries):
        raise typer.Exit(FAILED)


def _list(targets: Sequence[Target], json: bool) -> None:
    if json:
        put_json({"targets": [{"id": t.id, "title": t.title, "source": t.source} for t in targets]})
    else:
        put("\n".join(f"{t.id:4} {t.title} ({t.source})" for t in targets))
