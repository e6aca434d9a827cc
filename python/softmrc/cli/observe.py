"""Options of commands that can be watched while they run, and what stands behind them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from softmrc.cli.output import note

if TYPE_CHECKING:
    from softmrc.endpoint import Endpoint

__all__ = ["EventsOption", "MetricsOption", "QlogOption", "observed"]

MetricsOption = Annotated[
    str | None, typer.Option("--metrics", metavar="[ADDR:]PORT", help="Serve Prometheus metrics there.")
]
EventsOption = Annotated[
    Path | None, typer.Option("--events", metavar="FILE", help="Append what happens, a JSON object a line.")
]
QlogOption = Annotated[
    Path | None, typer.Option("--qlog", metavar="FILE", help="Write a qlog-style trace: states and counters.")
]


@contextlib.contextmanager
def observed(
    endpoint: Endpoint, metrics: str | None, events: Path | None, qlog: Path | None
) -> Iterator[None]:
    """Serve and record what was asked for until the block ends; a full disk ends a record, not the command."""
    if metrics is None and events is None and qlog is None:
        yield
        return
    from softmrc.metrics import EventLog, QlogTrace, Source, serve_metrics

    with contextlib.ExitStack() as stack:
        source = Source.of_endpoint(endpoint)
        stack.callback(source.close)
        if events is not None:
            stack.enter_context(EventLog(events, source, note))
        if qlog is not None:
            stack.enter_context(QlogTrace(qlog, source, note))
        if metrics is not None:
            server = stack.enter_context(serve_metrics(metrics, [source]))
            note(f"metrics at {server.url}")
        yield
