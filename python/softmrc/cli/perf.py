"""`softmrc perf`: bandwidth, message rate and latency between two hosts."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softmrc.cli.observe import EventsOption, MetricsOption, QlogOption
from softmrc.cli.output import (
    FAILED,
    INTERRUPTED,
    REFUSED,
    guard,
    human_bytes,
    human_rate,
    note,
    put,
    put_json,
    quiet_library,
)
from softmrc.text import visible

if TYPE_CHECKING:
    from softmrc.perf import Local, Plan, Row
    from softmrc.perf.client import Watch
    from softmrc.perf.ends import Ends

__all__ = ["perf"]

_PORT = 18515
_SINGLE_SECONDS, _SWEEP_SECONDS = 5.0, 1.0
_UNITS = {"k": 10, "m": 20, "g": 30}


_Host = Annotated[
    str | None,
    typer.Argument(metavar="HOST[,HOST...]", help="Addresses of the server; none: be the server."),
]
_Planes = Annotated[
    str | None,
    typer.Option(
        metavar="ADDR[,ADDR...]",
        envvar="SOFTMRC_PLANES",
        help="Addresses, interfaces or prefixes here; none: by route.",
    ),
]
_Port = Annotated[int, typer.Option("-p", "--port", min=0, max=65535, help="TCP port of set-up.")]
_Op = Annotated[str, typer.Option(help="write, write_imm, lat (ping-pong) or idle.")]
_Size = Annotated[str | None, typer.Option("-s", "--size", help="Bytes of a message; 64k, 1m.")]
_Sweep = Annotated[bool, typer.Option("-a", "--all", help="Sizes 2 to 8m; default without --size.")]
_Iters = Annotated[int, typer.Option("-n", "--iters", min=0, help="Messages; 0: go by --duration.")]
_Duration = Annotated[
    float | None, typer.Option("-D", "--duration", help="Seconds a size; none: 5, in a sweep 1.")
]
_Qps = Annotated[int, typer.Option("-q", "--qps", help="Queue pairs.")]
_Depth = Annotated[int, typer.Option("-t", "--tx-depth", help="Messages in flight on each.")]
_Both = Annotated[bool, typer.Option("-b", "--bidirectional", help="Both ends send.")]
_Mtu = Annotated[
    int | None, typer.Option("-m", "--mtu", help="Payload of a packet, 256 to 8960; none: what fits.")
]
_EvRun = Annotated[int, typer.Option(help="Packets on one EV before the next; 0: automatic; 1: spray.")]
_Evs = Annotated[int, typer.Option(help="EVs of each plane of this end.")]
_Backups = Annotated[int, typer.Option(help="Of these, spares: used when one in use is given up.")]
_DelayMark = Annotated[
    int,
    typer.Option(help="Queueing delay that counts as a mark where the fabric sets none, us; 0: none does."),
]
_Steering = Annotated[
    bool,
    typer.Option("--ecn-steering/--no-ecn-steering", help="Experiment: marks do not move load between EVs."),
]
_Spin = Annotated[int, typer.Option(help="Microseconds to look for more before sleeping.")]
_Region = Annotated[str | None, typer.Option(help="Memory that messages walk through; 64m and more is cold.")]
_Drive = Annotated[str, typer.Option(help="Who drives the transport: caller or thread.")]
_Batching = Annotated[str, typer.Option(help="auto, gso or mmsg.")]
_Via = Annotated[
    str | None,
    typer.Option(
        metavar="LIST[,LIST...]", help="SRv6: uSID lists that end at the peer; EVs are spread over them."
    ),
]
_Icrc = Annotated[
    bool, typer.Option("--icrc/--no-icrc", help="Leave the iCRC off, if the other end is told the same.")
]
_Cpus = Annotated[
    str | None, typer.Option(metavar="LIST", help="CPUs that drive the transport here: 0-3,8. [not pinned]")
]
_Numa = Annotated[
    str | None, typer.Option(metavar="INTERFACE", help="The same: those of the NUMA node it hangs on.")
]
_BinMs = Annotated[int, typer.Option(help="Milliseconds of a bin of goodput over time at this end.")]
_PerPort = Annotated[bool, typer.Option("--report-per-port", help="Show every EV, too.")]
_Once = Annotated[bool, typer.Option("--once", help="Server: end after one client.")]
_Timeout = Annotated[float, typer.Option(help="Client: seconds to wait for a server.")]
_Token = Annotated[str | None, typer.Option(envvar="SOFTMRC_TOKEN", help="Shared secret of both ends.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def perf(
    host: _Host = None, planes: _Planes = None, port: _Port = _PORT, op: _Op = "write", size: _Size = None,
    sweep: _Sweep = False, iters: _Iters = 0, duration: _Duration = None, qps: _Qps = 1, depth: _Depth = 128,
    both: _Both = False, mtu: _Mtu = None, ev_run: _EvRun = 0, evs: _Evs = 16, spin_us: _Spin = 50,
    region_size: _Region = None, progress: _Drive = "caller", batching: _Batching = "auto", via: _Via = None,
    backups: _Backups = 0, delay_mark_us: _DelayMark = 2000, ecn_steering: _Steering = True,
    bin_ms: _BinMs = 100, icrc: _Icrc = True, cpus: _Cpus = None, numa: _Numa = None,
    per_port: _PerPort = False, once: _Once = False, timeout: _Timeout = 10.0,
    token: _Token = None, json: _Json = False, metrics: MetricsOption = None, events: EventsOption = None,
    qlog: QlogOption = None,
) -> None:  # fmt: skip
    """Measure what goes between two hosts: a server without HOST, a client with it.

    The client decides what is measured; --planes, --evs, --spin-us, --progress, --batching, --mtu, --bin-ms, --cpus,
    --numa and --no-icrc are each end's own. Options are named as in ib_write_bw and ib_write_lat. Rows are printed as
    they come; Ctrl-C, or a server that leaves, ends with what there is so far.

    \b
    softmrc perf
    softmrc perf 10.0.0.2,10.1.0.2 -s 1m -q 4 -D 10
    softmrc perf 10.0.0.2 --planes 10.0.0.1,10.1.0.1 -b
    softmrc perf 10.0.0.2 --op lat -s 8 --spin-us 1000000
    softmrc perf 10.0.0.2 --region-size 256m -s 1m --json
    softmrc perf 10.0.0.2 --numa eth1 --no-icrc

    Exit codes: 0 done, 1 queue pairs were lost, 2 wrong use, 3 server unreachable or refuses, 130 interrupted.
    """
    with guard("perf", json):
        from softmrc.cpus import wanted_cpus
        from softmrc.endpoint.handshake import token_bytes
        from softmrc.errors import UsageError
        from softmrc.perf import Local
        from softmrc.transfer.addresses import parse_remote_list

        quiet_library()
        if not 0 < timeout <= 86_400:
            raise UsageError(f"--timeout is above 0 and at most 86400 seconds, not {timeout:g}")
        secret = token_bytes(token)
        mine, toward, targets = _ways(planes, host)
        local = Local(
            planes=tuple(mine), evs=evs, spin_us=spin_us, progress=progress, batching=batching, pmtu=mtu,
            via=tuple(parse_remote_list(via)) if via else (), bin_ms=bin_ms,
            backups=backups, delay_mark_us=delay_mark_us, ecn_steering=ecn_steering, icrc=icrc,
            cpus=wanted_cpus(cpus, numa),
        )  # fmt: skip
        if host is None:
            _serve(local, port, secret, once, json)
            return
        plan, rows = _plan(op, size, sweep, iters, duration, qps, depth, both, ev_run, region_size)
        watch = _watch(metrics, events, qlog)
        results = _measure(targets, port, local, plan, rows, toward, secret, timeout, json, watch, per_port)
    if any(r["partial"] for r in results):
        raise typer.Exit(INTERRUPTED)
    if any(r["qp_errors"] or r["errors"] for r in results):
        raise typer.Exit(FAILED)


def _bytes(text: str, name: str) -> int:
    from softmrc.errors import UsageError

    shift = _UNITS.get(text[-1:].lower(), 0)
    digits = text[:-1] if shift else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 12:
        raise UsageError(f"--{name} takes bytes, for instance 65536, 64k or 1m, not {text!r}")
    return int(digits) << shift


def _ways(planes: str | None, host: str | None) -> tuple[list[str], list[str], list[str]]:
    """Return our planes, the addresses they lead to (none: the server's order tells), and whom to dial."""
    from softmrc.device import host_interfaces
    from softmrc.endpoint.planes import expand_planes
    from softmrc.transfer.addresses import local_address_for, named_host

    hosts = [h.strip() for h in (host or "").split(",") if h.strip()]
    routes = [local_address_for(address) for h in hosts for address in named_host(h)]
    targets = [remote for _, remote in routes]
    family = (6 if ":" in targets[0] else 4) if targets else None
    given = (
        [p.address for p in expand_planes([planes], host_interfaces, family)] if planes is not None else []
    )
    if host is None:
        return given, [], []
    mine = given or [local for local, _ in routes]
    return mine, targets if len(mine) == len(targets) else [], targets


def _plan(
    op: str, size: str | None, sweep: bool, iters: int, duration: float | None, qps: int, depth: int,
    both: bool, ev_run: int, region_size: str | None,
) -> tuple[Plan, list[Row]]:  # fmt: skip
    from softmrc.errors import UsageError
    from softmrc.perf import SWEEP, Plan, Row, region_for

    if size is not None and sweep:
        raise UsageError("--size is one size, --all is all of them")
    sizes = [_bytes(size, "size")] if size is not None else list(SWEEP) if op != "idle" else [1]
    if duration is None:
        duration = 0.0 if iters else _SWEEP_SECONDS if len(sizes) > 1 else _SINGLE_SECONDS
    elif duration <= 0:
        raise UsageError(f"--duration is above 0 seconds, not {duration:g}")
    region = _bytes(region_size, "region-size") if region_size is not None else None
    plan = Plan(
        op=op, qps=qps, depth=depth, both=both, size=max(sizes), ev_run=ev_run,
        region=region_for(max(sizes), qps, region),
    )  # fmt: skip
    walked = {s: region_for(s, qps, region) for s in sizes}
    return plan, [Row(size=s, iters=iters, duration=duration, region=walked[s]) for s in sizes]


def _watch(metrics: str | None, events: Path | None, qlog: Path | None) -> Watch | None:
    """Return what serves and records our end while it measures; None: nobody asked for it."""
    if metrics is None and events is None and qlog is None:
        return None
    from softmrc.metrics import EventLog, QlogTrace, QpName, Source, serve_metrics

    @contextlib.contextmanager
    def watch(ends: Ends) -> Iterator[Callable[[], None]]:
        with contextlib.ExitStack() as stack:
            source = Source(ends.ctx, "perf", lambda: [QpName(qp.qp_num) for qp in ends.qps], manual=True)
            stack.callback(source.close)
            if events is not None:
                stack.enter_context(EventLog(events, source, note))
            if qlog is not None:
                stack.enter_context(QlogTrace(qlog, source, note))
            if metrics is not None:
                note(f"metrics at {stack.enter_context(serve_metrics(metrics, [source])).url}")
            yield source.refresh

    return watch


def _measure(
    hosts: list[str], port: int, local: Local, plan: Plan, rows: list[Row], toward: list[str],
    token: bytes | None, timeout: float, json: bool, watch: Watch | None, per_port: bool,
) -> list[dict[str, Any]]:  # fmt: skip
    """Measure and print: each row as it comes, or one JSON object at the end, also when the server leaves."""
    from softmrc.errors import PeerError
    from softmrc.perf import measure

    report = _Report(plan.op, json)
    try:
        results = asyncio.run(
            measure(
                hosts, port, local, plan, rows, toward=toward, token=token, timeout=timeout,
                progress=report.progress if not json and sys.stderr.isatty() else None, on_row=report.row,
                watch=watch,
            )
        )  # fmt: skip
    except PeerError as error:
        if not report.rows:
            raise
        report.end(per_port, str(error))
        raise typer.Exit(REFUSED) from None
    report.end(per_port)
    return results


class _Report:
    """What is printed of the rows."""

    def __init__(self, op: str, json: bool) -> None:
        self.rows: list[dict[str, Any]] = []
        self._op, self._json = op, json
        self._told = 0.0

    def progress(self, row: Row, elapsed: float, moved: int) -> None:
        """Say about once a second how far a row is."""
        if elapsed < self._told:
            self._told = 0.0
        if elapsed - self._told >= 1.0:
            rate = human_rate(moved / elapsed) if moved else "running"
            note(f"{human_bytes(row.size)} messages: {elapsed:.0f} s, {rate}")
            self._told = elapsed

    def row(self, result: dict[str, Any]) -> None:
        """Take a row that is done, or cut short."""
        from softmrc.perf.table import heading, row_head, row_line

        self.rows.append(result)
        if self._json:
            return
        if len(self.rows) == 1:
            put(heading(self._op, result))
            put(row_head(self._op))
        put(row_line(self._op, result))

    def end(self, per_port: bool, error: str | None = None) -> None:
        """Print what all rows say together, and what ended them too early."""
        if self._json:
            whole = self.rows[0] if len(self.rows) == 1 else {"op": self._op}
            failed = {} if error is None else {"ok": False, "error": visible(error), "exit_code": REFUSED}
            put_json({**failed, **whole, "rows": self.rows})
        else:
            _print_totals(self.rows, per_port)
        if error is not None:
            note(f"softmrc perf: {error}")


def _print_totals(results: list[dict[str, Any]], per_port: bool) -> None:
    from rich.console import Console

    from softmrc.perf.table import remarks, totals_table

    terminal = sys.stdout is not None and sys.stdout.isatty()
    console = Console(width=None if terminal else 120, highlight=False, markup=False)
    with console.capture() as text:
        console.print()
        console.print(totals_table(results))
        for line in remarks(results):
            console.print(line)
        if per_port:
            for ev in results[-1]["per_ev"]:
                console.print(
                    f"plane {ev['plane']} EV {ev['ev']}: {ev['sent']} packets, {ev['lost']} lost, {ev['ecn']} marked, "
                    f"{ev['state']}"
                )
    put(text.get().rstrip("\n"))


def _serve(local: Local, port: int, token: bytes | None, once: bool, json: bool) -> None:
    from softmrc.perf import Server
    from softmrc.perf.table import icrc_words

    def tell(what: str, details: dict[str, Any]) -> None:
        if json:
            put_json({"event": what, **details})
        elif what == "listening":
            shown = details["planes"]
            note(
                f"listening on port {details['port']}, {'planes ' + ', '.join(shown) if shown else 'every address'}"
            )
            note(f"measure with: softmrc perf {','.join(shown) or 'HOST'} --port {details['port']}")
        elif what == "start":
            note(
                f"{details['peer']}: {details['op']}, {details['qps']} QP, messages up to {details['size']} bytes"
                f"{icrc_words(details, 'server')}"
            )
        elif details.get("why") is not None:
            note(f"{details['peer']}: {visible(details['why'])}")
        elif what == "end":
            note(f"{details['peer']}: done")

    asyncio.run(Server(local, port, token=token, once=once, tell=tell).run())
