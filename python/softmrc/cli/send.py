"""`softmrc send`: send files and directories."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softmrc.cli.observe import EventsOption, MetricsOption, QlogOption, observed
from softmrc.cli.output import INCOMPLETE, fail, guard, human_bytes, note, put_json, quiet_library

if TYPE_CHECKING:
    from softmrc.endpoint import Connection, Endpoint
    from softmrc.transfer.sender import Progress, Sender

__all__ = ["send"]

HOLD_SECONDS = 20.0
"""Without any progress for this long the receiver is given up."""
SILENCE_SECONDS = 3.0
"""Of a receiver that owes an answer; then it is said."""
_ANSWERS = ("tx.sacks_rx", "tx.nacks_rx", "tx.acks_rx", "rx.data")


def send(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH... DEST[,DEST...]", help="What to send, and where to.")
    ],
    token: Annotated[
        str | None, typer.Option(envvar="SOFTMRC_TOKEN", help="The receiver's shared secret.")
    ] = None,
    planes: Annotated[
        str | None,
        typer.Option(
            metavar="PLANE[,PLANE...]",
            envvar="SOFTMRC_PLANES",
            help="Planes of this end: addresses, interfaces (eth1,eth2), prefixes (10.1.0.0/16), exclusions "
            "(^docker0,lo); none: by route to the receiver's.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
    metrics: MetricsOption = None,
    events: EventsOption = None,
    qlog: QlogOption = None,
) -> None:
    """Send files and whole directories to `softmrc recv`.

    DEST is host[:port] or [v6]:port, one per plane with commas between; one alone is enough, the receiver
    names its other planes. When either side dies, run the same command again: what has arrived is compared by
    hash and not sent twice. Links and special files are left out and named.

    \b
    softmrc send model.ckpt 10.0.0.2
    softmrc send checkpoints/ notes.txt 10.0.0.2,10.1.0.2 --token "$TOKEN"
    softmrc send data '[fd00::2]:4791'
    softmrc send data 10.0.0.2 --planes eth1,eth2

    Exit codes: 0 done and verified, 1 failed, 2 wrong use, 3 receiver unreachable or refuses the token,
    4 done except for the files named, 130 interrupted.
    """
    with guard("send", json):
        if len(paths) < 2:
            fail("send", "give at least one PATH and a DEST", 2, json)
        result = _send(paths[:-1], paths[-1], token, json, (metrics, events, qlog), planes)
    if json:
        put_json(result)
    if result["failed"]:
        raise typer.Exit(INCOMPLETE)


def _send(
    paths: list[str],
    destination: str,
    token: str | None,
    json: bool,
    watch: tuple[str | None, Path | None, Path | None] = (None, None, None),
    planes: str | None = None,
) -> dict[str, Any]:
    from softmrc.transfer.addresses import parse_destinations
    from softmrc.transfer.scan import scan
    from softmrc.transfer.sender import Sender

    quiet_library()
    targets = parse_destinations(destination)
    source = scan(paths)
    for line in source.skipped:
        note(f"left out: {line}")
    started = time.monotonic()
    endpoint, connection = _connect([t.host for t in targets], targets[0].port, token, planes)
    if not json:
        local = {p.number: p.address for p in endpoint.planes}
        note(f"planes: {', '.join(f'{local[r.plane]} to {r.address}' for r in connection.routes)}")
    with endpoint:
        with observed(endpoint, *watch):  # its last look comes before the queue pairs go
            sender = Sender(connection, source)
            sender.progress.failed += source.unreadable
            _run_with_display(sender, connection, json)
            stats = connection.stats()
        connection.close()
    progress = sender.progress
    seconds = time.monotonic() - started
    for line in progress.failed:
        note(f"not sent: {line}")
    if not json:
        rate = progress.bytes_sent / seconds
        kept = f", {human_bytes(progress.bytes_kept)} were there already" if progress.bytes_kept else ""
        note(
            f"{progress.files_done} of {progress.files_total} files, "
            f"{human_bytes(progress.bytes_sent)} in {seconds:.1f} s "
            f"({human_bytes(rate)}/s){kept}; verified end to end"
        )
    return {
        "ok": not progress.failed,
        "files": progress.files_done,
        "bytes": progress.bytes_sent,
        "bytes_kept": progress.bytes_kept,
        "seconds": round(seconds, 3),
        "rtx": stats.rtx,
        "planes": len({p.plane for p in stats.paths}),
        "skipped": source.skipped,
        "failed": progress.failed,
    }


def _connect(
    hosts: list[str], port: int, token: str | None, planes: str | None
) -> tuple[Endpoint, Connection]:
    """Connect over every plane the receiver has, even when only one of its addresses was given."""
    from softmrc.endpoint import Endpoint
    from softmrc.transfer.addresses import local_address_for, parse_address_list, routes_to_planes
    from softmrc.transfer.sender import ask_planes

    pairs = [local_address_for(h) for h in hosts]
    remote = [its for _, its in pairs]

    def over(local: list[str]) -> tuple[Endpoint, Connection]:
        endpoint = Endpoint(*dict.fromkeys(local), hold_time=HOLD_SECONDS)
        try:
            return endpoint, endpoint.connect_sync(remote, port, token=token)
        except BaseException:
            endpoint.close()
            raise

    if planes is not None:
        return over(parse_address_list(planes, 6 if ":" in remote[0] else 4))
    endpoint, connection = over([local for local, _ in pairs])
    try:
        usable, reasons = routes_to_planes(ask_planes(connection), pairs)
    except BaseException:
        endpoint.close()
        raise
    for reason in reasons:
        note(reason)
    if len(usable) <= len(pairs):
        return endpoint, connection
    endpoint.close()
    return over([local for local, _ in usable])


def _run_with_display(sender: Sender, connection: Connection, json: bool) -> None:
    """Run the sender in this thread and show its progress from another."""
    if json:
        sender.run()
        return
    import sys

    ended = threading.Event()
    show = _show_bar if sys.stderr.isatty() else _show_lines
    display = threading.Thread(target=show, args=(sender.progress, connection, ended), daemon=True)
    display.start()
    try:
        sender.run()
    finally:
        ended.set()
        display.join(timeout=2.0)


class _Pulse:
    """Says how many paths carry the transfer, and how long the receiver has been silent."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._answers = -1
        self._since = time.monotonic()

    def text(self) -> str:
        """Return it in words; MrcError when the connection is gone."""
        stats = self._connection.stats()
        answers = sum(stats.counters[name] for name in _ANSWERS)
        now = time.monotonic()
        if answers != self._answers or not stats.inflight:
            self._answers, self._since = answers, now
        silent = now - self._since
        if silent >= SILENCE_SECONDS:
            return f"no answer for {silent:.0f} s; given up after {HOLD_SECONDS:.0f} s, a rerun goes on from here"
        paths = [p for p in stats.paths if p.active]
        good = sum(p.state in ("good", "skip") for p in paths)
        aside = f", {len(paths) - good} set aside as bad" if good < len(paths) else ""
        return f"{good} of {len(paths)} paths in use{aside}"


def _show_lines(progress: Progress, connection: Connection, ended: threading.Event) -> None:
    from softmrc.errors import MrcError

    pulse = _Pulse(connection)
    while not ended.wait(2.0):
        try:
            paths = pulse.text()
        except MrcError:
            return
        done = progress.bytes_sent + progress.bytes_kept
        note(f"{progress.phase}: {human_bytes(done)} of {human_bytes(progress.bytes_total)}, {paths}")


def _show_bar(progress: Progress, connection: Connection, ended: threading.Event) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    from softmrc.errors import MrcError

    columns = (
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(),
        TransferSpeedColumn(), TimeRemainingColumn(),
        TextColumn("{task.fields[paths]}"),
    )  # fmt: skip
    pulse = _Pulse(connection)
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(progress.phase, total=max(progress.bytes_total, 1), paths="")
        while True:
            last = ended.wait(0.2)
            try:
                paths = pulse.text()
            except MrcError:
                paths = "no path"
            done = progress.bytes_sent + progress.bytes_kept
            bar.update(task, completed=done, description=progress.phase, paths=paths)
            if last:
                return
