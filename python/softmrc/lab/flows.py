"""Flows of softmrc between hosts of a lab, several at once, each a pair of programs; and counters of links meanwhile.

Decides how flows are started together and read on one clock; leaves what happens to the fabric, and what it means, to
others.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from softmrc.errors import MrcError
from softmrc.lab.course import Bins
from softmrc.lab.nursery import Child, Nursery
from softmrc.lab.soft import SoftLab

if TYPE_CHECKING:
    from softmrc.lab.lab import Lab
    from softmrc.lab.names import Link

__all__ = ["BIN_MS", "Flow", "FlowResult", "Flows", "LinkWatch"]

BIN_MS = 20
_FIRST_PORT = 18800
_PATIENCE = 25.0
_LATE_S = 0.1
_RUNNING = 0.05
"""Share of a port's rate at the receiver from which a flow counts as running."""


@dataclass(frozen=True, kw_only=True)
class Flow:
    """One flow.

    Attributes:
        source, sink: hosts.
        via: uSID lists instead of all paths.
        both: the sink sends, too.
        options: further ones of `softmrc perf` at the sending end.
        ends: options of both ends (EVs, marks).
    """

    source: str
    sink: str
    via: tuple[str, ...] = ()
    both: bool = False
    options: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()


@dataclass
class FlowResult:
    """What came of a flow.

    Attributes:
        goodput: at the receiver.
        row: as `softmrc perf` reports it.
        events: of the sender's transport, with `at`: seconds of CLOCK_MONOTONIC.
    """

    goodput: Bins
    row: dict[str, Any]
    events: list[dict[str, Any]] = field(default_factory=list)

    def path_of(self, plane: int, ev: int) -> str:
        """Return the way of an EV."""
        return str(
            next((p.get("path", "") for p in self.row["per_ev"] if (p["plane"], p["ev"]) == (plane, ev)), "")
        )

    def ev_changes(self, state: str, since: float = 0.0) -> list[dict[str, Any]]:
        """Return when EVs took a state, from a time on."""
        return [
            e for e in self.events if e["kind"] == "ev_state" and e["state"] == state and e["at"] >= since
        ]


class Flows:
    """Flows that begin together; a context manager that ends them."""

    def __init__(
        self, lab: Lab, flows: Sequence[Flow], seconds: float, nursery: Nursery, *, size: str = "256k"
    ) -> None:
        """Prepare; they begin with the block.

        Args:
            lab: where.
            flows: at least one.
            seconds: how long each sends.
            nursery: starts their programs.
            size: of a message.
        """
        self.lab, self.flows, self.seconds, self._size = lab, list(flows), seconds, size
        self._nursery = nursery
        self._stack = ExitStack()
        self._clients: list[Child] = []
        self._began = 0.0
        self._logs: list[Path] = []

    def __enter__(self) -> Flows:
        """Start them and wait until data arrives from each."""
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """End what still runs."""
        self._stack.close()

    def _start(self) -> None:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="softmrc-")))
        servers = []
        for i, flow in enumerate(self.flows):
            words = ["--once", "--bin-ms", str(BIN_MS), *flow.ends]
            servers.append(self._program(flow.sink, _FIRST_PORT + i, words))
        for i, server in enumerate(servers):
            server.await_listening(_FIRST_PORT + i)
        before = {node: _received(self.lab, node) for node in {f.sink for f in self.flows}}
        for i, flow in enumerate(self.flows):
            self._logs.append(folder / f"{i}.jsonl")
            words = [
                flow.sink, "-s", self._size, "-t", "16", "-D", f"{self.seconds:g}", "--bin-ms", str(BIN_MS),
                "--events", str(self._logs[-1]), *flow.ends, *flow.options,
            ]  # fmt: skip
            words += ["--via", ",".join(flow.via)] if flow.via else []
            words += ["-b"] if flow.both else []
            self._clients.append(self._program(flow.source, _FIRST_PORT + i, words))
        self._await_running(before)
        self._began = time.monotonic()

    def _program(self, host: str, port: int, words: Sequence[str]) -> Child:
        child = self._nursery.start(self.lab, host, "perf", "--port", str(port), "--json", *words)
        self._stack.callback(child.stop)
        return child

    def _await_running(self, before: dict[str, int]) -> None:
        """Wait until every sink has got what a tenth of a second at a twentieth of its rate brings."""
        enough = int((self.lab.spec.rate_bps or 10**9) * _RUNNING * 0.1 / 8)
        deadline = time.monotonic() + _PATIENCE
        while any(_received(self.lab, node) - got < enough for node, got in before.items()):
            if time.monotonic() > deadline:
                raise MrcError("flows did not begin in time")
            if any(not c.running for c in self._clients):
                break  # its report says why
            time.sleep(0.02)

    def send_all(self) -> None:
        """Wait until they have sent for their time; what they still have to say needs a network that is whole."""
        time.sleep(max(0.0, self._began + self.seconds + _LATE_S - time.monotonic()))

    def results(self) -> list[FlowResult]:
        """Wait for the end and return what came of each flow, in order.

        Raises:
            MrcError: one failed.
        """
        found = []
        for client, log in zip(self._clients, self._logs, strict=True):
            row = client.json(self.seconds + _PATIENCE, accept=(0, 1))
            bins = row["bins"]
            goodput = Bins(bins["start_ns"] / 1e9, bins["width_ms"] / 1e3, tuple(bins["bytes"]))
            found.append(FlowResult(goodput, row, _events(log)))
        return found


def _received(lab: Lab, node: str) -> int:
    """Return the bytes that have arrived at all ports of a host."""
    if isinstance(lab, SoftLab):
        return lab.received(node)
    total = 0
    for device in lab.netlinks.ask(lab.namespace(node), "get_links"):
        if str(device.get_attr("IFLA_IFNAME")).startswith("p"):
            total += int((device.get_attr("IFLA_STATS64") or {}).get("rx_bytes", 0))
    return total


def _events(log: Path) -> list[dict[str, Any]]:
    """Read an event log; its wall clock becomes the clock of everything else."""
    ahead = time.time() - time.monotonic()
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    events = [json.loads(line) for line in lines]
    return [{**e, "at": e["time_ns"] / 1e9 - ahead} for e in events]


class LinkWatch:
    """Counts what some links carry, every few milliseconds, on a thread of its own; a context manager."""

    def __init__(self, lab: Lab, links: Sequence[tuple[Link, str]], period: float = 0.005) -> None:
        """Prepare.

        Args:
            lab: where.
            links: links, each with the end that sends: "a" (upwards) or "b" (downwards).
            period: seconds between looks.
        """
        self._lab, self._period = lab, period
        self._links = list(links)
        self.times: list[float] = []
        self.counts: list[list[int]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="link-watch", daemon=True)

    def _run(self) -> None:
        look = self._soft_look() if isinstance(self._lab, SoftLab) else self._kernel_look()
        while not self._stop.wait(self._period):
            began = time.monotonic()
            row = look()
            self.times.append((began + time.monotonic()) / 2)
            self.counts.append(row)

    def _soft_look(self) -> Callable[[], list[int]]:
        assert isinstance(self._lab, SoftLab)
        ports = [(link.name, "up" if side == "a" else "down") for link, side in self._links]
        return partial(self._lab.sent_bytes, ports)

    def _kernel_look(self) -> Callable[[], list[int]]:
        at = []
        for link, side in self._links:
            node, device, _ = link.ends()[side == "b"]
            space = self._lab.namespace(node)
            at.append((space, self._lab.netlinks.index(space, device)))

        def look() -> list[int]:
            row = []
            for space, index in at:
                (device,) = self._lab.netlinks.ask(space, "get_links", index)
                row.append(int((device.get_attr("IFLA_STATS64") or {}).get("tx_bytes", 0)))
            return row

        return look

    def __enter__(self) -> LinkWatch:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """End; what was seen stays."""
        self._stop.set()
        self._thread.join()

    def rates(self, which: int) -> list[tuple[float, float]]:
        """Return (time, bit/s) between the looks at one of the links."""
        return [
            ((t1 + t2) / 2, (b[which] - a[which]) * 8 / (t2 - t1))
            for t1, t2, a, b in zip(self.times, self.times[1:], self.counts, self.counts[1:], strict=False)
            if t2 > t1
        ]

    def sent(self, begin: float, end: float) -> list[int]:
        """Return the bytes of each link between two times."""
        inside = [row for t, row in zip(self.times, self.counts, strict=True) if begin <= t <= end]
        return (
            [b - a for a, b in zip(inside[0], inside[-1], strict=True)] if inside else [0] * len(self._links)
        )
