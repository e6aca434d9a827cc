"""`softmrc lab locate`: which link, switch, host or plane loses packets, by probes through the lab's own switches."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Annotated

import typer

from softmrc.cli.lab_options import Json, Name, progress
from softmrc.cli.output import FAILED, guard, note, put, put_json

if TYPE_CHECKING:
    from softmrc.lab import Lab
    from softmrc.lab.mapper import Prober

__all__ = ["register"]

_SECONDS = 5.0
_HEADS = ("element", "kind", "loss", "direction", "since", "confidence")


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("locate")(locate)


def locate(
    name: Name = "lab",
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Tell changes as they come, until interrupted.")
    ] = False,
    seconds: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="How long; 5s without --watch.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Probes a second in all, and as many again where something is lost.")
    ] = None,
    deny: Annotated[
        bool | None,
        typer.Option(
            "--deny/--undeny", help="Endpoints keep off what is found; --undeny: off nothing from now on."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Find what loses packets: every host sends source-routed probes to its T0s and T1s and back to itself.

    A dead link, switch, host or plane is named within tens of milliseconds, one that loses 2 % within seconds. Probes
    are of the control class, so full queues are no loss. With --deny the denylist beside the fabric file says what was
    found: endpoints in the hosts leave the paths over it within a second, and return when it is off the list. The last
    plane of a host is never denied.

    \b
    softmrc lab locate                       look for five seconds
    softmrc lab locate --watch --json        one JSON object a line for each change
    softmrc lab locate --watch --deny        keep endpoints off whatever is bad, as long as it is
    softmrc lab locate --undeny              nothing is denied any more

    Exit codes: 0 nothing is bad, 1 something is (at the end), 2 wrong use or no such lab, 130 interrupted.
    """
    with guard("lab locate", json):
        from softmrc.lab import Lab, amounts
        from softmrc.lab.mapper import RATE, Prober

        lasts = amounts.seconds(seconds, "--for") if seconds is not None else None
        if lasts is None and not watch:
            lasts = _SECONDS
        lab = Lab.load(name)
        with contextlib.closing(lab), Prober(lab, RATE if rate is None else rate) as prober:
            if deny is False:
                _write(lab, prober, nothing=True)
            _probe(lab, prober, lasts, watch=watch, deny=bool(deny), json=json)
            bad = bool(prober.findings) or prober.silent
            if not watch:
                _result(lab, prober, bool(deny), json)
    if bad:
        raise typer.Exit(FAILED)


def _probe(lab: Lab, prober: Prober, lasts: float | None, *, watch: bool, deny: bool, json: bool) -> None:
    from softmrc.lab.mapper.report import change_json, headline

    began = time.monotonic()
    with progress("lab locate") as step:
        said = 0
        for change in prober.run(lasts):
            if change is None:
                if not watch and (second := int(time.monotonic() - began)) > said:
                    said = second
                    step(f"{prober.sent} probes, {prober.lost} lost, {len(prober.findings)} found")
                continue
            if deny:
                _write(lab, prober)
            if watch and json:
                put_json(change_json(change))
            elif watch:
                put(headline(change))
    if deny:
        _write(lab, prober)


def _write(lab: Lab, prober: Prober, *, nothing: bool = False) -> None:
    from softmrc.srv6 import Denylist

    file = Denylist.beside(lab.fabric_file)
    wanted = Denylist() if nothing else prober.denylist()
    if Denylist.read(file) != wanted:
        wanted.write(file)


def _result(lab: Lab, prober: Prober, deny: bool, json: bool) -> None:
    from softmrc.lab.mapper.report import finding_json, row
    from softmrc.srv6 import Denylist

    denied = Denylist.read(Denylist.beside(lab.fabric_file)).denied
    findings = prober.findings
    if json:
        found = [{**finding_json(f), "denied": f.name in denied} for f in findings]
        put_json(
            {
                "ok": not findings and not prober.silent,
                "silent": prober.silent,
                "found": found,
                "suspects": prober.suspects,
                "probes_sent": prober.sent,
                "probes_lost": prober.lost,
                "denied": sorted(denied),
            }
        )
        return
    if prober.silent:
        put("no probe comes back: every plane is dead, or this machine is too busy to tell")
    elif findings:
        rows = [_HEADS, *(row(f) for f in findings)]
        widths = [max(len(r[i]) for r in rows) for i in range(len(_HEADS))]
        for line in rows:
            put("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
    else:
        put(f"nothing is bad: {prober.sent} probes, {prober.lost} lost")
    if prober.suspects:
        note(f"not sure yet: {', '.join(prober.suspects)}; look for longer with --for")
    for finding in findings if deny else ():
        if finding.name not in denied:
            note(f"{finding.name} is not denied: hosts would have no plane left")
    if denied:
        note(f"denied: {', '.join(sorted(denied))}")
