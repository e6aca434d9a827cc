"""`softmrc lab test`: every path of every pair, switch by switch."""

from __future__ import annotations

import contextlib
from typing import Annotated

import typer

from softmrc.cli.lab_options import Json, Name, progress
from softmrc.cli.output import guard, note, put, put_json

__all__ = ["register"]

_SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("test")(check)


def check(
    name: Name = "lab",
    wait: Annotated[float, typer.Option(help="Seconds a probe may take, at most.")] = 1.0,
    json: Json = False,
) -> None:
    """Send along every path of every ordered pair of hosts, and see from the switches' counters which way it went.

    \b
    softmrc lab test
    softmrc lab test --json

    Exit codes: 0 every path works and passes exactly the switches it names, 1 some do not, 2 no such lab.
    """
    with guard("lab test", json):
        from softmrc.lab import Lab
        from softmrc.lab.probe import probe

        lab = Lab.load(name)
        with contextlib.closing(lab), progress("lab test") as step:
            found = probe(lab, wait_s=wait, step=step)
        if json:
            put_json(
                {
                    "ok": found.paths_ok == found.paths_total,
                    "paths_ok": found.paths_ok,
                    "paths_total": found.paths_total,
                    "probes_sent": found.sent,
                    "probes_lost": found.lost,
                    "seconds": round(found.seconds, 3),
                    "failures": [
                        {
                            "src": f.src,
                            "dst": f.dst,
                            "path": f.path.name,
                            "address": f.path.address,
                            "why": f.why,
                        }
                        for f in found.failures
                    ],
                }
            )
        else:
            put(f"{found.paths_ok} of {found.paths_total} paths ok, {found.seconds:.1f} s")
            for failure in found.failures[:_SHOWN]:
                put(f"  {failure.words}")
            if len(found.failures) > _SHOWN:
                note(f"  and {len(found.failures) - _SHOWN} more: --json lists all")
    if found.paths_ok != found.paths_total:
        raise typer.Exit(1)
