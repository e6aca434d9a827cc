"""`softmrc ping`: round trip and loss of every path to a peer."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softmrc.cli.output import FAILED, USAGE, fail, guard, note, put, put_json, quiet_library

if TYPE_CHECKING:
    from softmrc.endpoint import Connection, Endpoint
    from softmrc.ping import Pinger, Summary

__all__ = ["ping"]

_NEVER = 86400.0


_Destination = Annotated[
    str | None, typer.Argument(metavar="DEST[,DEST...]", help="Where a receiver or server listens.")
]
_Planes = Annotated[
    str | None,
    typer.Option(
        metavar="ADDR[,ADDR...]", envvar="SOFTMRC_PLANES", help="Local addresses; none: those of the routes."
    ),
]
_PeerPlanes = Annotated[
    str | None,
    typer.Option(metavar="ADDR[,ADDR...]", help="Instead of DEST: the peer's planes, in order of --planes."),
]
_Answer = Annotated[bool, typer.Option("--answer", help="Answer the probes of anybody on --planes.")]
_Port = Annotated[
    int, typer.Option(min=1, max=65535, help="With --peer-planes and --answer: UDP port of both ends.")
]
_Count = Annotated[int, typer.Option("-c", "--count", min=0, help="Rounds; 0: until interrupted.")]
_Interval = Annotated[float, typer.Option("-i", "--interval", help="Seconds between rounds.")]
_Timeout = Annotated[float, typer.Option("-W", "--timeout", help="Seconds an answer may take, at most 1.")]
_Evs = Annotated[int, typer.Option(min=1, max=4096, help="Paths of each plane.")]
_Paths = Annotated[bool, typer.Option("--paths", help="Show every path, not only troubled ones.")]
_Token = Annotated[str | None, typer.Option(envvar="SOFTMRC_TOKEN", help="The peer's shared secret.")]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")]


def ping(
    destination: _Destination = None,
    planes: _Planes = None,
    peer_planes: _PeerPlanes = None,
    answer: _Answer = False,
    udp_port: _Port = 4791,
    count: _Count = 5,
    interval: _Interval = 1.0,
    timeout: _Timeout = 1.0,
    evs: _Evs = 16,
    paths: _Paths = False,
    token: _Token = None,
    json: _Json = False,
) -> None:
    """Probe every path (plane and EV) to a peer and say how long it takes and what gets lost.

    DEST is host[:port] or [v6]:port of a `softmrc recv` or any listening endpoint. Its planes are learned from
    it. Answers come back on a path that the peer picks anew each time: a path that answers nothing is dead on
    the way there, a little loss on all paths of a plane is loss on the way back.

    Without a listening peer, one end runs --answer and the other names its planes.

    \b
    softmrc ping 10.0.0.2 --token "$TOKEN"
    softmrc ping 10.0.0.2 -c 20 -i 0.2 --paths
    softmrc ping --answer --planes 10.0.0.2,10.1.0.2
    softmrc ping --planes 10.0.0.1,10.1.0.1 --peer-planes 10.0.0.2,10.1.0.2

    Exit codes: 0 every path answered, 1 a path is dead, 2 wrong use, 3 peer unreachable or refuses the token,
    130 interrupted before the first round was over.
    """
    if (destination is not None) + (peer_planes is not None) + answer != 1:
        fail("ping", "give DEST, or --peer-planes, or --answer", USAGE, json)
    if destination is None and planes is None:
        fail("ping", "--peer-planes and --answer need --planes", USAGE, json)
    if not 0.01 <= interval <= 3600.0:
        fail("ping", f"--interval is 0.01 to 3600, not {interval:g}", USAGE, json)
    quiet_library()
    with guard("ping", json):
        if answer:
            _answer(planes or "", udp_port, evs, json)
            return
        if destination is not None:
            opened = _connected(destination, planes, evs, token, timeout)
        else:
            opened = _explicit(planes or "", peer_planes or "", udp_port, evs, timeout)
        with opened as pinger:
            rounds, interrupted = _rounds(pinger, count, interval, json)
            result = _result(pinger, rounds)
            if interrupted and rounds == 0:
                raise KeyboardInterrupt
            if not json:
                _print(pinger, paths)
    if json:
        put_json(result)
    if not result["ok"]:
        raise typer.Exit(FAILED)


@contextlib.contextmanager
def _connected(
    destination: str, planes: str | None, evs: int, token: str | None, timeout: float
) -> Iterator[Pinger]:
    """Connect, so that both ends know each other: only then do they answer (reference 9.4)."""
    from softmrc.errors import MrcError
    from softmrc.ping import Pinger, Target
    from softmrc.transfer.addresses import family_of, parse_address_list, parse_destinations

    targets = parse_destinations(destination)
    local = parse_address_list(planes, family_of(targets[0].host)) if planes is not None else None
    endpoint, connection = _connect([t.host for t in targets], targets[0].port, local, evs, token)
    with endpoint:
        routes = [Target(r.plane, r.address, r.udp_port) for r in connection.routes]
        try:
            with Pinger(endpoint.ctx, routes, timeout=timeout, names=connection.path_names) as pinger:
                yield pinger
        finally:
            with contextlib.suppress(MrcError):  # a dead peer cannot say goodbye; the figures stand
                connection.close(timeout=1.0)


def _connect(
    hosts: list[str], port: int, local: list[str] | None, evs: int, token: str | None
) -> tuple[Endpoint, Connection]:
    """Connect over every plane of the peer that this host has a route to, in the peer's order."""
    from softmrc.endpoint import Endpoint, Plane
    from softmrc.transfer.addresses import local_address_for, routes_to_planes

    pairs = [local_address_for(host) for host in hosts]
    remote = [its for _, its in pairs]

    # A peer answers an address at the UDP port it heard of first: the second endpoint keeps those of the first.
    ports: dict[str, int] = {}

    def over(addresses: list[str]) -> tuple[Endpoint, Connection]:
        planes = [Plane(address=a, udp_port=ports.get(a)) for a in dict.fromkeys(addresses)]
        endpoint = Endpoint(*planes, evs_per_plane=evs, hold_time=_NEVER, keepalive=0)
        ports.update((p.address, p.udp_port) for p in endpoint.planes)
        try:
            return endpoint, endpoint.connect_sync(remote, port, token=token)
        except BaseException:
            endpoint.close()
            raise

    endpoint, connection = over(local or [mine for mine, _ in pairs])
    if local is not None or len(connection.peer_addresses) <= len(pairs):
        return endpoint, connection
    try:
        usable, reasons = routes_to_planes(connection.peer_addresses, pairs)
    except BaseException:
        endpoint.close()
        raise
    for reason in reasons:
        note(reason)
    if len(usable) <= len(pairs):
        return endpoint, connection
    connection.close(timeout=1.0)
    endpoint.close()
    return over([mine for mine, _ in usable])


@contextlib.contextmanager
def _explicit(planes: str, peer_planes: str, udp_port: int, evs: int, timeout: float) -> Iterator[Pinger]:
    from softmrc.errors import UsageError
    from softmrc.ping import Pinger, Target
    from softmrc.transfer.addresses import parse_address_list, parse_remote_list
    from softmrc.verbs import Context

    remote = parse_remote_list(peer_planes)
    local = parse_address_list(planes, 6 if ":" in remote[0] else 4)
    if len(local) != len(remote):
        raise UsageError(f"--planes has {len(local)} addresses, --peer-planes {len(remote)}")
    with Context(planes=local, evs_per_plane=evs, udp_port=udp_port, accept_only_known_peers=False) as ctx:
        targets = [Target(plane, address, udp_port) for plane, address in enumerate(remote, start=1)]
        with Pinger(ctx, targets, timeout=timeout) as pinger:
            yield pinger


def _answer(planes: str, udp_port: int, evs: int, json: bool) -> None:
    """Be the other end of --peer-planes until interrupted; the engine answers."""
    from softmrc.text import host_port
    from softmrc.transfer.addresses import parse_address_list
    from softmrc.verbs import Context

    addresses = parse_address_list(planes)
    with Context(
        planes=addresses, evs_per_plane=evs, udp_port=udp_port, accept_only_known_peers=False
    ) as ctx:
        if json:
            put_json({"event": "answering", "addresses": addresses, "udp_port": udp_port})
        else:
            note(f"answering anybody's EV probes on {', '.join(host_port(a, udp_port) for a in addresses)}")
        while not (failure := ctx.driver.failure()):
            time.sleep(0.5)
        fail("ping", failure, FAILED, json)


def _rounds(pinger: Pinger, count: int, interval: float, json: bool) -> tuple[int, bool]:
    """Ping until it is enough; an interrupt ends it in good order."""
    done = 0
    try:
        while count == 0 or done < count:
            began = time.monotonic()
            answered = pinger.round()
            done += 1
            if not json:
                note(f"round {done}: {answered} of {len(pinger.paths)} paths answered")
            if done != count:
                time.sleep(max(0.0, began + interval - time.monotonic()))
    except KeyboardInterrupt:
        return done, True
    return done, False


def _result(pinger: Pinger, rounds: int) -> dict[str, Any]:
    whole = pinger.summary()
    planes = []
    for plane in pinger.planes:
        summary, target = pinger.summary(plane), pinger.target(plane)
        planes.append(
            {"plane": plane, "peer": target.address, "udp_port": target.udp_port, "paths": summary.paths,
             "dead": summary.dead, **summary.as_dict()}
        )  # fmt: skip
    return {
        "ok": whole.dead == 0 and whole.sent > 0,
        "rounds": rounds,
        "dead": whole.dead,
        **whole.as_dict(),
        "planes": planes,
        "paths": [p.as_dict() for p in pinger.paths],
    }


def _row(summary: Summary) -> list[str]:
    times = [
        f"{ns / 1000:.0f}" if ns is not None else "-"
        for ns in (summary.min_ns, summary.avg_ns, summary.p99_ns)
    ]
    return [str(summary.sent), f"{summary.loss * 100:.1f}", *times]


def _print(pinger: Pinger, every_path: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from softmrc.ping import Summary

    figures = ("sent", "lost %", "min us", "avg us", "p99 us")
    table = Table(box=None, pad_edge=False)
    for name in ("plane", "peer", "paths", "dead"):
        table.add_column(name)
    for name in figures:
        table.add_column(name, justify="right")
    for plane in pinger.planes:
        summary = pinger.summary(plane)
        dead = f"[bold red]{summary.dead}[/]" if summary.dead else "0"
        table.add_row(str(plane), pinger.target(plane).address, str(summary.paths), dead, *_row(summary))
    console = Console()
    console.print(table, highlight=False)
    shown = [p for p in pinger.paths if every_path or p.answered < p.sent]
    if shown:
        detail = Table(box=None, pad_edge=False)
        for name in ("plane", "ev", *figures):
            detail.add_column(name, justify="right")
        detail.add_column("path")
        for path in shown:
            style = "red" if path.dead else None
            detail.add_row(
                str(path.plane), f"{path.ev:#010x}", *_row(Summary.of([path])), path.name, style=style
            )
        put("")
        console.print(detail, highlight=False)
    if pinger.refused:
        note(f"{pinger.refused} probes could not be sent: too many are open on this host")
