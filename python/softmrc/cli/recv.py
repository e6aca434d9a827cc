"""`softmrc recv`: receive files and directories."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from softmrc.cli.observe import EventsOption, MetricsOption, QlogOption, observed
from softmrc.cli.output import (
    FAILED,
    INCOMPLETE,
    OutputError,
    fail,
    guard,
    human_bytes,
    human_rate,
    note,
    put_json,
    quiet_library,
)
from softmrc.text import host_port, visible

if TYPE_CHECKING:
    from softmrc.transfer.receiver import Outcome

__all__ = ["recv"]


def recv(
    listen: Annotated[
        str,
        typer.Option(
            metavar="PLANE[,PLANE...]",
            envvar="SOFTMRC_PLANES",
            help="Planes: addresses, interfaces (eth1,eth2), prefixes (10.1.0.0/16), exclusions (^docker0,lo).",
        ),
    ],
    directory: Annotated[
        Path, typer.Option("--dir", metavar="OUT", help="Where files go; made when missing.")
    ],
    token: Annotated[
        str | None,
        typer.Option(
            envvar="SOFTMRC_TOKEN", help="Shared secret senders must know; none: one is made and printed."
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="TCP port of connection set-up; 0: a free one.")
    ] = 4791,
    once: Annotated[bool, typer.Option("--once", help="End after one transfer.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON objects, one a line.")] = False,
    metrics: MetricsOption = None,
    events: EventsOption = None,
    qlog: QlogOption = None,
) -> None:
    """Receive files and directories into OUT.

    Unfinished files are kept in OUT/.softmrc-partial; when either side dies, run the same commands again and
    only what is missing is sent. A file gets its name after it was verified (SHA-256) and is on disk; until
    then an older file of that name stays as it is. Nothing outside of OUT is ever written.

    \b
    softmrc recv --listen 10.0.0.2,10.1.0.2 --dir in
    softmrc recv --listen eth1,eth2 --dir in
    softmrc recv --listen fd00::2 --dir in --token "$TOKEN" --once

    Exit codes: 0 done, 1 failed, 2 wrong use, 4 the sender left files out, 130 interrupted.
    """
    with guard("recv", json):
        outcome = _receive(listen, directory, token, port, once, json, (metrics, events, qlog))
    if outcome is None:
        return
    if outcome.error is not None:
        fail("recv", outcome.error, FAILED)
    if outcome.incomplete:
        raise typer.Exit(INCOMPLETE)


def _receive(
    listen: str,
    directory: Path,
    token: str | None,
    port: int,
    once: bool,
    json: bool,
    watch: tuple[str | None, Path | None, Path | None],
) -> Outcome | None:
    from softmrc.endpoint import Endpoint
    from softmrc.errors import UsageError
    from softmrc.transfer.addresses import parse_address_list
    from softmrc.transfer.receiver import Receiver
    from softmrc.transfer.tree import Tree

    quiet_library()
    addresses = parse_address_list(listen)
    if token is not None and not token:
        raise UsageError("the token is empty; leave --token and SOFTMRC_TOKEN away to get one")
    secret = token or secrets.token_urlsafe(16)
    tree = Tree(os.fspath(directory))
    try:
        with (
            Endpoint(*addresses, hold_time=20.0) as endpoint,
            observed(endpoint, *watch),
            endpoint.listen(port=port, token=secret) as listener,
        ):
            if json:
                put_json(
                    {"event": "listening", "addresses": addresses, "port": listener.port, "token": secret}
                )
            else:
                note(f"receiving into {visible(tree.path)}")
                for address in addresses:
                    note(f"  plane {host_port(address, listener.port)}")
                if token is None:
                    note(f"token: {secret}")
                target = host_port(addresses[0], listener.port)
                shown = f" --token {secret}" if token is None else ""
                note(f"send with: softmrc send PATH {target}{shown}")
            reporter = _Reporter(json)
            receiver = Receiver(endpoint, listener, tree, reporter)
            try:
                outcome = receiver.serve(once)
            finally:
                receiver.close()
            if reporter.mute is not None:
                raise typer.Exit(FAILED)
            return outcome
    finally:
        tree.close()


class _Reporter:
    """Prints what happens to each peer."""

    def __init__(self, json: bool) -> None:
        self._json = json
        self._last = 0.0
        self.mute: OutputError | None = None
        """Why standard output takes nothing more. Files are received all the same."""

    def __call__(self, what: str, outcome: Outcome) -> None:
        try:
            self._tell(what, outcome)
        except OutputError as error:
            if self.mute is None:
                note(f"softmrc recv: {error}; receiving goes on without reports")
            self.mute = self.mute or error

    def _tell(self, what: str, outcome: Outcome) -> None:
        if what == "progress":
            if self._json or time.monotonic() - self._last < 2.0:
                return
            self._last = time.monotonic()
            note(
                f"{outcome.peer}: {human_bytes(outcome.bytes_received)} of {human_bytes(outcome.bytes_total)}"
            )
        elif self._json:
            put_json({"event": what, **outcome.__dict__})
        elif what == "start":
            note(f"{outcome.peer}: sends {human_bytes(outcome.bytes_total)}")
        else:
            self._ended(outcome)

    @staticmethod
    def _ended(outcome: Outcome) -> None:
        for line in outcome.incomplete:
            note(f"{outcome.peer}: left out: {line}")
        if outcome.complete:
            rate = human_rate(outcome.bytes_received / outcome.seconds) if outcome.seconds else "-"
            kept = f", {human_bytes(outcome.bytes_kept)} were here already" if outcome.bytes_kept else ""
            note(
                f"{outcome.peer}: done, {outcome.files} files, {human_bytes(outcome.bytes_received)} "
                f"in {outcome.seconds:.1f} s ({rate}){kept}; verified"
            )
        elif outcome.interrupted:
            note(
                f"{outcome.peer}: interrupted ({outcome.error or 'the sender left'}); "
                "what came is kept for the next try"
            )
        else:
            note(f"{outcome.peer}: failed: {outcome.error}")
