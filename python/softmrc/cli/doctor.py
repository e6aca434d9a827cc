"""`softmrc doctor`: say what this host offers, what softmrc will use, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from softmrc.cli.output import guard, put_json

if TYPE_CHECKING:
    from softmrc.cli.host import Host
    from softmrc.cli.kernel import Srv6

__all__ = ["doctor"]


def doctor(json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Look at this host: planes, families, buffers, offloads, flow labels, SRv6, MTU.

    Changes nothing: what has to be tried is tried on loopback or in a network namespace that ends at once.

    \b
    softmrc doctor
    softmrc doctor --json

    Exit codes: 0 softmrc works here (perhaps better after the changes listed), 1 it does not.
    """
    from softmrc.cli.host import advice, inspect

    with guard("doctor", json):
        host = inspect()
        findings = advice(host)
    works = (host.ipv4 or host.ipv6) and not host.core.startswith("missing")
    if json:
        put_json(
            {"works": works, **host.to_json(), "use": uses(host), "advice": [f.__dict__ for f in findings]}
        )
    else:
        _print(host, works)
        for finding in findings:
            typer.echo(f"\n  {finding.problem}: {finding.effect}\n    {finding.command}")
        if not findings:
            typer.echo("\nnothing to change")
    if not works:
        raise typer.Exit(1)


def uses(host: Host) -> dict[str, object]:
    """Return what softmrc takes of what there is."""
    usable = [p for p in host.planes if p.up and not p.loopback and not p.link_local]
    # A host that has only link-local addresses can still talk to its neighbours.
    usable = usable or [p for p in host.planes if p.up and not p.loopback]
    return {
        "planes": [p.address for p in usable],
        "paths_ipv4": "source ports",
        "paths_ipv6": ("flow labels" if host.flow_labels else "source ports") if host.ipv6 else "none",
        "receive_buffer": host.rcvbuf_granted,
        "send_buffer": host.sndbuf_granted,
    }


def _srv6_words(found: Srv6) -> str:
    if found.why:
        return f"routes not tried: {found.why}"
    names = {"encapsulation": found.encap, "segment End": found.end, "uSID (next-csid)": found.next_csid}
    return "routes: " + ", ".join(f"{name} {'yes' if can else 'no'}" for name, can in names.items())


def _print(host: Host, works: bool) -> None:
    def yes(value: bool) -> str:
        return "yes" if value else "no"

    typer.echo(f"kernel {host.kernel}, {host.cpus} CPUs, compiled core: {host.core}")
    nodes = ", ".join(f"node {node}: {cpus}" for node, cpus in host.numa.items()) or "none named"
    typer.echo(f"CPUs to keep threads on (only when asked) {host.cpus_usable}; NUMA {nodes}")
    typer.echo("addresses")
    for plane in host.planes:
        kind = "loopback" if plane.loopback else "link-local" if plane.link_local else ""
        rate = f"{plane.mbit} Mbit/s" if plane.mbit else ""
        state = "up" if plane.up else "down"
        node = "" if plane.numa_node is None else f"NUMA node {plane.numa_node}"
        typer.echo(
            f"  {plane.interface:12} {plane.address:40} mtu {plane.mtu:<6} {state:5} {rate} {kind} {node}".rstrip()
        )
    typer.echo(f"IPv4 {yes(host.ipv4)}, IPv6 {yes(host.ipv6)}, flow labels {yes(host.flow_labels)}")
    typer.echo(f"UDP GSO {yes(host.gso)}, UDP GRO {yes(host.gro)}, ECN readable {yes(host.ecn_readable)}")
    typer.echo(f"receive buffer {host.rcvbuf_granted} bytes granted (rmem_max {host.rmem_max})")
    typer.echo(f"send buffer {host.sndbuf_granted} bytes granted (wmem_max {host.wmem_max})")
    where = ", ".join(host.seg6_enabled) or "no interface"
    typer.echo(f"SRv6 {'in the kernel, accepted on ' + where if host.seg6 else 'not in the kernel'}")
    typer.echo(f"  {_srv6_words(host.srv6)}")
    typer.echo(f"raw sockets {yes(host.raw_sockets)}")
    typer.echo("the driver's own checks")
    for check in host.checks:
        if not check.item.startswith(("interface ", "seg6")):
            typer.echo(f"  {check.item:16} {check.status:8} {check.value}")
    use = uses(host)
    planes = use["planes"]
    assert isinstance(planes, list)
    typer.echo("\nsoftmrc will use" if works else "\nsoftmrc cannot work here")
    if works:
        typer.echo(f"  planes: {', '.join(planes) or 'loopback only'}")
        typer.echo(f"  paths: IPv4 by {use['paths_ipv4']}, IPv6 by {use['paths_ipv6']}")
