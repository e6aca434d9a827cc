"""`softmrc lab up|down|status|exec|repair|pcap`: making, using and removing a lab."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softmrc.cli.lab_options import Json, Name, bits_per_second, progress
from softmrc.cli.output import guard, note, put, put_json
from softmrc.cli.program import must_run

if TYPE_CHECKING:
    from softmrc.lab import LabSpec

__all__ = ["register"]

_PROGRAM = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}


def register(app: typer.Typer) -> None:
    """Add the subcommands."""
    app.command("up")(up)
    app.command("down")(down)
    app.command("status")(status)
    app.command("exec", context_settings=_PROGRAM)(execute)
    app.command("repair")(repair)
    app.command("pcap")(pcap)


def up(
    file: Annotated[
        Path | None, typer.Argument(help="A TOML file with a [fabric] table, as the simulator's.")
    ] = None,
    name: Name = "lab",
    planes: Annotated[int | None, typer.Option(help="Equal copies of the switches. [4]")] = None,
    t0: Annotated[int | None, typer.Option(help="T0s of a plane. [2]")] = None,
    t1: Annotated[int | None, typer.Option(help="T1s of a plane. [4]")] = None,
    t2: Annotated[int | None, typer.Option(help="T2s of a plane; more than 0: three tiers. [0]")] = None,
    pods: Annotated[int | None, typer.Option(help="Pods of three tiers. [1]")] = None,
    hosts: Annotated[int | None, typer.Option(help="Hosts in all. [8]")] = None,
    rate: Annotated[
        str | None, typer.Option(help="Rate of a host's port: 200M, 1G, none for no limit. [200M]")
    ] = None,
    fabric_rate: Annotated[
        str | None, typer.Option(help="Rate of links between switches. [that of a port]")
    ] = None,
    mtu: Annotated[int | None, typer.Option(help="Of every link, bytes. [9000]")] = None,
    delay: Annotated[
        str | None, typer.Option(help="Of every link, one way: 500us, 2ms; user-space switch only. [none]")
    ] = None,
    trimming: Annotated[
        bool | None, typer.Option("--trimming/--no-trimming", help="Cut packets instead of dropping them.")
    ] = None,
    ecn: Annotated[bool | None, typer.Option("--ecn/--no-ecn", help="Switches mark.")] = None,
    plain: Annotated[str | None, typer.Option(help="Routes for bare addresses: single or ecmp.")] = None,
    paths: Annotated[
        str | None, typer.Option(help="What softmrc takes for paths: usid lists, or flow labels with ecmp.")
    ] = None,
    ua: Annotated[bool | None, typer.Option("--ua", help="One uA SID for each link, too.")] = None,
    encap: Annotated[bool | None, typer.Option("--encap", help="IPv6-in-IPv6 paths (End.DT6), too.")] = None,
    switch: Annotated[str | None, typer.Option(help="kernel, soft, veth or auto.")] = None,
    pcap: Annotated[list[str] | None, typer.Option(help="Record a link: LINK=FILE. Repeatable.")] = None,
    json: Json = False,
) -> None:
    """Make a lab: it stays until `softmrc lab down`.

    \b
    softmrc lab up                                          4 planes, 2 T0s and 4 T1s in each, 8 hosts
    softmrc lab up --planes 2 --t0 4 --t1 2 --hosts 16 --rate 1G --fabric-rate 500M
    softmrc lab up --t0 4 --t1 4 --t2 4 --pods 2 --hosts 8  three tiers
    softmrc lab up fabric.toml --name other --pcap h0.p1=h0.pcap

    Exit codes: 0 up, 1 refused by the system (nothing stays), 2 wrong use or the host cannot.
    """
    options = {
        k: v for k, v in locals().items() if k not in ("file", "name", "pcap", "json") and v is not None
    }
    with guard("lab up", json), progress("lab up") as step:
        _up(_spec(file, name, options), [_record(text) for text in pcap or ()], step, json)


def _up(spec: LabSpec, records: list[tuple[str, Path]], step: Callable[[str], None], json: bool) -> None:
    from softmrc.lab import Lab

    began = time.monotonic()
    lab = Lab.up(spec, keep=True, step=step)
    took = time.monotonic() - began
    try:
        for link, target in records:
            lab.record(link, target)
    except BaseException:
        lab.down()
        raise
    lab.close()
    if json:
        put_json({"ok": True, "up_s": round(took, 3), **_facts(lab)})
        return
    put(
        f"lab {spec.name} is up: {len(lab.hosts)} hosts, {spec.planes} planes, {len(lab.switches)} switches, "
        f"{len(lab.links)} links, in {took:.1f} s"
    )
    for text in lab.state.notes:
        note(f"  {text}")


def _spec(file: Path | None, name: str, options: dict[str, Any]) -> LabSpec:
    """Return what the options ask for; they go before the file's."""
    from softmrc.lab import LabSpec
    from softmrc.lab.amounts import seconds
    from softmrc.lab.file import read_spec

    given = dict(options)
    for option, field in (("rate", "rate_bps"), ("fabric_rate", "fabric_rate_bps")):
        if option in given:
            given[field] = bits_per_second(given.pop(option), f"--{option.replace('_', '-')}")
    if "delay" in given:
        given["delay_ns"] = round(seconds(given.pop("delay"), "--delay") * 1e9)
    return LabSpec(name=name, **given) if file is None else read_spec(file, name=name, **given)


def _record(text: str) -> tuple[str, Path]:
    from softmrc.errors import UsageError

    link, equals, target = text.partition("=")
    if not equals or not target:
        raise UsageError(f"--pcap is LINK=FILE, for instance h0.p1=h0.pcap, not {text!r}")
    return link, Path(target)


def down(name: Name = "lab", json: Json = False) -> None:
    """Remove a lab with everything in it, also one that was left half-made. Twice is no error.

    \b
    softmrc lab down
    softmrc lab down --name other --json
    """
    with guard("lab down", json):
        from softmrc.lab.remove import end_lab
        from softmrc.lab.state import known

        began, was = time.monotonic(), name in known()
        gone = end_lab(name)
        took = time.monotonic() - began
        if json:
            put_json({"ok": True, "name": name, "namespaces": len(gone), "down_s": round(took, 3)})
        else:
            there = f"lab {name} is down ({len(gone)} namespaces, {took:.1f} s)"
            put(there if gone or was else f"there is no lab {name}")


def _facts(lab: Any) -> dict[str, Any]:
    spec = lab.spec
    return {
        "name": lab.name,
        "mode": lab.state.mode,
        "planes": spec.planes,
        "hosts": len(lab.hosts),
        "switches": len(lab.switches),
        "links": len(lab.links),
        "rate_bps": spec.rate_bps,
        "fabric_rate_bps": spec.link_rate("fabric"),
        "mtu": spec.mtu,
        "trimming": bool(lab.state.more.get("trimming", False)),
        "plain": spec.plain,
        "notes": lab.state.notes,
        "fabric_file": str(lab.fabric_file),
    }


def status(
    name: Name = "lab",
    live: Annotated[
        bool, typer.Option("--watch", "-w", help="Draw the load and state of every link until interrupted.")
    ] = False,
    json: Json = False,
) -> None:
    """Say which labs there are, and what is missing or broken in one.

    \b
    softmrc lab status
    softmrc lab status --watch
    softmrc lab status --json

    Exit codes: 0 all as it was made, 1 something is missing (softmrc lab repair), down or broken by a fault (softmrc
    lab heal), 2 no such lab.
    """
    with guard("lab status", json):
        from softmrc.lab import Lab
        from softmrc.lab.faults import active
        from softmrc.lab.state import known

        lab = Lab.load(name)
        if live:
            from softmrc.cli.lab_map import watch

            watch(lab, 1.0)
            return
        found = lab.verify()
        facts = {
            **_facts(lab),
            "down": [d.words for d in found.down],
            "missing": [m.words for m in found.missing],
        }
        faults = active(lab)
        lab.close()
        clean = found.whole and not faults
        if json:
            put_json({"ok": clean, **facts, "faults": [f.target for f in faults], "labs": known()})
        else:
            put(
                f"lab {name}: {facts['hosts']} hosts, {facts['planes']} planes, {facts['switches']} switches, "
                f"{facts['links']} links, in the {'kernel' if lab.state.mode == 'kernel' else 'user-space switch'}"
            )
            for text in lab.state.notes:
                put(f"  {text}")
            if faults:
                put(f"faults ({len(faults)}): {', '.join(f'{f.target} {f.harm.words()}' for f in faults)}")
            put("all links up" if not found.down else f"down: {', '.join(facts['down'])}")
            put("nothing missing" if not found.missing else f"missing ({len(found.missing)}):")
            for text in facts["missing"]:
                put(f"  {text}")
            if others := [n for n in known() if n != name]:
                put(f"other labs: {', '.join(others)}")
    if not clean:
        raise typer.Exit(1)


def execute(
    context: typer.Context,
    node: Annotated[str, typer.Argument(help="A host (h3) or a switch (p1.t0-0).")],
    name: Name = "lab",
) -> None:
    """Run any program in a host or switch: its terminal, signals and exit status are the program's own.

    Programs in a host are told about the fabric by SOFTMRC_FABRIC and SOFTMRC_PLANES, so softmrc's use SRv6 paths with
    no option.

    \b
    softmrc lab exec h0 -- softmrc perf fc00:1:8007::
    softmrc lab exec h0 -- ping fc00:1:1000:2003:1001:8007::
    softmrc lab exec p1.t1-3 -- ip -6 -s route

    Exit codes: the program's own; 126 it cannot be run, 127 it is not found, 2 no such lab or node.
    """
    with guard("lab exec"):
        from softmrc.errors import UsageError
        from softmrc.lab import Lab

        program = context.args[1:] if context.args[:1] == ["--"] else list(context.args)
        if not program:
            raise UsageError(f"which program? softmrc lab exec {node} -- bash")
        lab = Lab.load(name)
        command = lab.command(node, *program)
        must_run("lab exec", program[0])
        own = lab.environment(node) if node in lab.hosts else {}
        os.execvpe(command[0], command, {**os.environ, **own})


def repair(
    nodes: Annotated[list[str] | None, typer.Argument(help="Only these hosts and switches.")] = None,
    name: Name = "lab",
    json: Json = False,
) -> None:
    """Put back what is missing: SIDs, routes, neighbours, addresses. Links that are down stay down.

    \b
    softmrc lab repair
    softmrc lab repair p1.t0-0 h3

    Exit codes: 0 all is there now, 1 something is still missing, 2 no such lab.
    """
    with guard("lab repair", json):
        from softmrc.lab import Lab

        lab = Lab.load(name)
        before, after = lab.repair(nodes or None)
        lab.close()
        if json:
            put_json(
                {
                    "ok": not after.missing,
                    "repaired": [m.words for m in before.missing if m not in after.missing],
                    "missing": [m.words for m in after.missing],
                }
            )
        else:
            for item in before.missing:
                put(f"{'still missing' if item in after.missing else 'put back'}: {item.words}")
            put("nothing missing" if not after.missing else f"{len(after.missing)} missing: is a link down?")
    if after.missing:
        raise typer.Exit(1)


def pcap(
    link: Annotated[str, typer.Argument(help="A link: h3.p2 or p2.t0-5.t1-7.")],
    file: Annotated[Path, typer.Argument(help="Where to write; any program reads it (pcap).")],
    name: Name = "lab",
    seconds: Annotated[float | None, typer.Option("--for", help="Stop after so many seconds.")] = None,
    bytes_each: Annotated[int, typer.Option("--snap", help="Bytes kept of each packet; 0: all.")] = 0,
) -> None:
    """Record what passes a link, both directions, until interrupted.

    \b
    softmrc lab pcap p1.t0-0.t1-2 link.pcap
    softmrc lab pcap h0.p1 h0.pcap --for 5 --snap 128
    """
    with guard("lab pcap"):
        from softmrc.lab import Lab

        lab = Lab.load(name)
        count = lab.capture(link, file, seconds=seconds, snap=bytes_each)
        note(f"{count} packets in {file}")
