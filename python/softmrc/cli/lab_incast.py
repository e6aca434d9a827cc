"""`softmrc lab incast`: many hosts write to one, with trimming and without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from softmrc.cli.lab_options import Json, bits_per_second, progress
from softmrc.cli.output import FAILED, guard, human_rate, put, put_json

if TYPE_CHECKING:
    from softmrc.lab.incast import Outcome

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("incast")(incast)


def incast(
    senders: Annotated[int, typer.Option(min=2, max=64, help="Hosts that send to one.")] = 8,
    planes: Annotated[int, typer.Option(min=1, max=31, help="Of the fabric.")] = 4,
    rate: Annotated[str, typer.Option(help="Of every link.")] = "200M",
    seconds: Annotated[
        float, typer.Option("-D", "--duration", min=1, max=600, help="Seconds measured.")
    ] = 6.0,
    switch: Annotated[str, typer.Option(help="kernel, soft, veth or auto.")] = "auto",
    name: Annotated[str, typer.Option("--name", "-n", help="Of the lab that is made for this.")] = "incast",
    json: Json = False,
) -> None:
    """Let many hosts write to one, as fast as they may, on a lab made for it: once with trimming, once without.

    With trimming, packets that find no room reach the receiver as headers, which name them to their senders: hardly
    any is lost unseen, no path is blamed, and the receiver's ports stay full.

    \b
    softmrc lab incast
    softmrc lab incast --senders 8 --planes 1 --rate 500M --json

    Exit codes: 0 all of that holds, 1 some does not, 2 wrong use or the host cannot.
    """
    with guard("lab incast", json), progress("lab incast") as step:
        from softmrc.errors import UsageError
        from softmrc.lab.incast import Incast, run_incast

        bps = bits_per_second(rate, "--rate")
        if bps is None:
            raise UsageError("--rate none: where nothing queues, nothing is trimmed")
        plan = Incast(senders=senders, planes=planes, rate_bps=bps, seconds=seconds, name=name, switch=switch)
        on = run_incast(plan, True, step)
        if on.trimming:
            raise UsageError(f"this host's switches do not trim: {on.trimming}")
        off = run_incast(plan, False, step)
        checks = on.checks()
        if json:
            both = {"trimming": on.to_json(), "no_trimming": off.to_json()}
            put_json({"ok": all(checks.values()), "senders": senders, "checks": checks, **both})
        else:
            put(f"{senders} hosts to one, {planes} planes of {human_rate(bps / 8)}")
            _table(on, off)
            for what, holds in checks.items():
                put(f"{'holds' if holds else 'DOES NOT HOLD'}: {what}")
    if not all(checks.values()):
        raise typer.Exit(FAILED)


def _table(on: Outcome, off: Outcome) -> None:
    rows = [
        ("goodput", *(f"{human_rate(o.goodput_bps / 8)} ({o.goodput_share:.1%})" for o in (on, off))),
        ("found no room", *(str(o.trimmed + o.dropped) for o in (on, off))),
        ("  became headers", *(f"{o.trimmed}" for o in (on, off))),
        ("  dropped", *(f"{o.dropped}" for o in (on, off))),
        ("headers received", *(f"{o.headers}" for o in (on, off))),
        ("NACKs for them", *(f"{o.nacks}" for o in (on, off))),
        ("sent again after a NACK", *(f"{o.repeated}" for o in (on, off))),
        ("sent again after a timeout", *(f"{o.timeouts}" for o in (on, off))),
        ("paths assumed bad, times", *(f"{o.assumed_bad}" for o in (on, off))),
        ("lost in the receiver's sockets", *(f"{o.receiver_drops}" for o in (on, off))),
    ]
    put(f"{'':32}{'trimming':>22}{'no trimming':>22}")
    for name, one, two in rows:
        put(f"{name:32}{one:>22}{two:>22}")
