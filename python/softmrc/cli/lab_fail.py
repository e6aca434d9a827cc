"""`softmrc lab fail|heal|run`: breaking links, healing them, and scripts of both."""

from __future__ import annotations

import contextlib
import json as json_module
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softmrc.cli.lab_options import Json, Name, progress
from softmrc.cli.output import guard, note, put, put_json
from softmrc.cli.program import must_run
from softmrc.errors import UsageError

if TYPE_CHECKING:
    from softmrc.lab import Lab
    from softmrc.lab.condition import Harm
    from softmrc.lab.ledger import Fault
    from softmrc.lab.player import Play

__all__ = ["register"]

_PROGRAM = {"allow_extra_args": True}

_Target = Annotated[
    str | None, typer.Argument(help="h0.p1, p2.t0-0.t1-3, h0, p2.t1-3, p2, h0.nic; none: list the faults.")
]
_Silent = Annotated[bool, typer.Option("--silent", help="Packets vanish, the link stays up, nobody is told.")]
_Loss = Annotated[str | None, typer.Option(help="Share of packets that vanish: 5%.")]
_Corrupt = Annotated[str | None, typer.Option(help="Share of packets with one byte changed: 0.1%.")]
_Rate = Annotated[str | None, typer.Option(help="Share of the rate that is left: 10%.")]
_Direction = Annotated[
    str,
    typer.Option("--dir", help="up (away from the hosts), down or both. Alone: --silent, in that direction."),
]
_End = Annotated[str | None, typer.Option(help="lower or upper: which end is set down; none: the switch's.")]
_For = Annotated[str | None, typer.Option("--for", metavar="TIME", help="Heals by itself: 3s, 200ms.")]
_Flap = Annotated[str | None, typer.Option(metavar="DOWN/UP", help="In force and not, in turn: 200ms/800ms.")]


def register(app: typer.Typer) -> None:
    """Add the subcommands."""
    app.command("fail")(fail)
    app.command("heal")(heal)
    app.command("run", context_settings=_PROGRAM)(run)


def fail(
    target: _Target = None,
    name: Name = "lab",
    silent: _Silent = False,
    loss: _Loss = None,
    corrupt: _Corrupt = None,
    rate: _Rate = None,
    direction: _Direction = "both",
    end: _End = None,
    seconds: _For = None,
    flap: _Flap = None,
    json: Json = False,
) -> None:
    """Break links. Without further words they go down; both ends see it.

    Faults add up: several on one link heal in any order. A fault with --for or --flap is kept by a small process that
    ends with the lab.

    \b
    softmrc lab fail p2                                a whole plane
    softmrc lab fail p2.t0-0.t1-3 --for 3s             one link for three seconds
    softmrc lab fail p1.t1-2                           a T1, all links down (a reboot, until healed)
    softmrc lab fail h3.nic --for 5s                   all ports of a host: its transceiver
    softmrc lab fail h0.p1 --dir down                  what is sent to the host vanishes, unseen
    softmrc lab fail p1.t1-0 --loss 2% --corrupt 0.1%  gray
    softmrc lab fail h0.p3 --rate 10%
    softmrc lab fail h0.p3 --flap 200ms/800ms --for 1min
    softmrc lab fail                                   what is in force

    Exit codes: 0 done, 1 the system refused, 2 wrong use or no such lab or target.
    """
    with guard("lab fail", json):
        from softmrc.lab import Lab, amounts, faults, keeper

        lab = Lab.load(name)
        with contextlib.closing(lab):
            if target is None:
                _list(faults.active(lab), json)
                return
            harm = _harm(silent, loss, corrupt, rate, direction, end)
            lasts = amounts.seconds(seconds, "--for") if seconds is not None else None
            turns = amounts.flap(flap, "--flap") if flap is not None else None
            timed = lasts is not None or turns is not None
            set_ = keeper.start if timed else faults.set_fault
            fault = set_(lab, target, harm, lasts, turns)
        if json:
            put_json({"ok": True, **fault.to_json()})
        else:
            put(_line(fault))


def _harm(
    silent: bool, loss: str | None, corrupt: str | None, rate: str | None, direction: str, end: str | None
) -> Harm:
    from softmrc.lab.amounts import share
    from softmrc.lab.condition import Harm

    alone = direction != "both" and loss is None and corrupt is None and rate is None
    return Harm(
        silent=silent or alone,
        loss=share(loss, "--loss") if loss is not None else 0.0,
        corrupt=share(corrupt, "--corrupt") if corrupt is not None else 0.0,
        rate=share(rate, "--rate") if rate is not None else 1.0,
        direction=direction,
        end=end,
    )


def heal(
    target: Annotated[
        str | None, typer.Argument(help="As for fail, or the number of a fault; none: everything.")
    ] = None,
    name: Name = "lab",
    json: Json = False,
) -> None:
    """End faults: those set on the target and those inside it. What was there before is there again.

    Without a target it is no error if nothing is in force.

    \b
    softmrc lab heal
    softmrc lab heal p2.t0-0.t1-3
    softmrc lab heal 4

    Exit codes: 0 done, 1 the system refused, 2 no such lab or target, or nothing of it is in force.
    """
    with guard("lab heal", json):
        from softmrc.lab import Lab, faults

        lab = Lab.load(name)
        with contextlib.closing(lab):
            chosen = int(target) if target is not None and target.isdecimal() else target
            ended = faults.heal(lab, chosen)
            left = faults.active(lab)
            if target is not None and not ended:
                raise UsageError(_not_in_force(target, left))
        if json:
            put_json(
                {"ok": True, "healed": [f.to_json() for f in ended], "left": [f.to_json() for f in left]}
            )
            return
        for fault in ended:
            put(f"healed {_line(fault)}")
        put("no faults" if not left else f"{len(left)} left")


def _not_in_force(target: str, active: list[Fault]) -> str:
    """Say what could be healed instead."""
    what = (
        f"no fault {target} is in force" if target.isdecimal() else f"no fault on or in {target} is in force"
    )
    if not active:
        return f"{what}; there are no faults"
    return f"{what}; in force: {'; '.join(_line(fault) for fault in active)}"


def run(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="TOML, or the log of an earlier run (*.jsonl).")],
    name: Name = "lab",
    host: Annotated[str | None, typer.Option(help="The program runs in this host.")] = None,
    log: Annotated[Path | None, typer.Option(help="Write what was done when, a line each (*.jsonl).")] = None,
    json: Json = False,
) -> None:
    """Play a script of timed failures, beside a program if one is given: when it ends, so does the script.

    Times count from the start; what is drawn at random comes from the script's seed, so it breaks the same links each
    time. Whatever the script broke is healed at the end. A log can be played again.

    \b
    softmrc lab run failures.toml
    softmrc lab run failures.toml --log run.jsonl --host h0 -- softmrc perf h7 -D 30
    softmrc lab run run.jsonl

    \b
    [[fault]]
    at = "1s"
    target = "p2.t1-3"
    for = "3s"
    loss = "5%"

    Exit codes: 0 all was done, 1 an action failed, 2 wrong use, 130 interrupted; with a program: its own, 126 it
    cannot be run, 127 it is not found.
    """
    with guard("lab run", json):
        from softmrc.lab import Lab
        from softmrc.lab.script import Script

        program = context.args[1:] if context.args[:1] == ["--"] else list(context.args)
        plan = Script.load(script)
        if program:
            must_run("lab run", program[0])
        lab = Lab.load(name)
        code = 0
        with contextlib.closing(lab), progress("lab run") as step:
            play = plan.play(lab)
            try:
                if program:
                    code = _beside(lab, host, program)
                else:
                    while not play.wait(0.5):
                        step(f"{len(play.log)} done, {(time.monotonic_ns() - play.start_ns) / 1e9:.0f} s")
            finally:
                play.stop()
                _keep(play, log)
        _tell(play, json, code if program else None)
    if code or play.errors:
        raise typer.Exit(code or 1)


def _beside(lab: Lab, host: str | None, program: list[str]) -> int:
    if host is None:
        return subprocess.run(program, check=False).returncode
    env = {**os.environ, **lab.environment(host)}
    return subprocess.run(lab.command(host, *program), env=env, check=False).returncode


def _keep(play: Play, log: Path | None) -> None:
    if log is not None:
        lines = "".join(json_module.dumps(entry) + "\n" for entry in play.log)
        log.write_text(lines, encoding="utf-8")


def _tell(play: Play, json: bool, code: int | None) -> None:
    late = max(((e["begun_ns"] - e["due_ns"]) / 1e6 for e in play.log), default=0.0)
    took = max(((e["done_ns"] - e["begun_ns"]) / 1e6 for e in play.log), default=0.0)
    if json:
        facts: dict[str, Any] = {
            "start_ns": play.start_ns,
            "late_ms": round(late, 3),
            "took_ms": round(took, 3),
        }
        put_json({"ok": not play.errors, "program": code, **facts, "errors": play.errors, "log": play.log})
        return
    for text in play.errors:
        note(f"softmrc lab run: {text}")
    note(f"{len(play.log)} actions; begun at most {late:.1f} ms late, done within {took:.1f} ms")


def _line(fault: Fault) -> str:
    links = f"{len(fault.links)} links" if len(fault.links) != 1 else "1 link"
    words = [f"{fault.number}: {fault.target} ({links}) {fault.harm.words()}"]
    if fault.flap is not None:
        words.append(f"flapping {fault.flap[0]:g} s / {fault.flap[1]:g} s")
    if fault.until_ns is not None:
        words.append(f"for {(fault.until_ns - fault.since_ns) / 1e9:g} s")
    return ", ".join(words)


def _list(found: list[Fault], json: bool) -> None:
    if json:
        put_json({"ok": True, "faults": [f.to_json() for f in found]})
        return
    for fault in found:
        put(_line(fault))
    if not found:
        put("no faults")
