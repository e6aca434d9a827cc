"""One transfer between two hosts of a lab, by softmrc, TCP or MPTCP, while something may happen to the fabric.

Decides how each is started, when it counts as running, and where its figures come from; leaves what they mean to
course.py. iperf3 stands for TCP and MPTCP, as anybody would run it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softmrc.bench.meter import Meter
from softmrc.bench.proc import Program
from softmrc.bench.tcp import missing_iperf3, missing_mptcp
from softmrc.errors import MrcError
from softmrc.lab.course import Bins, Course
from softmrc.lab.soft import SoftLab
from softmrc.srv6 import FABRIC_ENV

if TYPE_CHECKING:
    from softmrc.lab.lab import Lab

__all__ = ["KINDS", "Transfer", "missing", "run_transfer"]

KINDS = ("softmrc", "softmrc-notrim", "tcp", "mptcp")
"""softmrc over uSID lists with and without trimming; one TCP connection over the first plane; MPTCP over all."""
_PORT = 18700
_BIN_MS = 20
_PATIENCE = 20.0
_DATA_BYTES = 20_000
"""More in one bin than what the set-up of a connection takes."""
_RUNNING_BYTES = 200_000
"""So much at the receiver's ports: it runs."""
During = Callable[[float], None]
"""Told when the transfer began to run (CLOCK_MONOTONIC seconds); what it does happens meanwhile."""


@dataclass(frozen=True)
class Transfer:
    """What is sent.

    Attributes:
        source, sink: hosts.
        seconds: how long.
        options: further options of `softmrc perf`'s client.
    """

    source: str
    sink: str
    seconds: float
    options: tuple[str, ...] = ("-s", "256k", "-t", "16")


def missing(lab: Lab, kind: str) -> str | None:
    """Return why a kind of transfer cannot be made in a lab; None: it can."""
    if kind.startswith("softmrc"):
        trims = bool(lab.fabric().trimming)
        return "switches of this lab do not trim" if kind == "softmrc" and not trims else None
    if not lab.has_namespaces:
        return "needs namespaces: a user-space fabric carries softmrc alone"
    if kind == "mptcp":
        return missing_mptcp()
    return missing_iperf3()


def run_transfer(lab: Lab, kind: str, transfer: Transfer, during: During | None = None) -> Course:
    """Run a transfer to its end.

    Args:
        lab: where.
        kind: one of `KINDS`.
        transfer: what.
        during: called on this thread once it runs.

    Raises:
        MrcError: a program failed; the text names the kind.
    """
    try:
        if kind.startswith("softmrc"):
            return _softmrc(lab, transfer, during, trimming=kind == "softmrc")
        with _mptcp(lab, transfer) if kind == "mptcp" else contextlib.nullcontext():
            return _iperf(lab, transfer, during, mptcp=kind == "mptcp")
    except MrcError as error:
        raise MrcError(f"{kind} from {transfer.source} to {transfer.sink}: {error}") from None


def _program(lab: Lab, node: str, *command: str, **env: str) -> Program:
    told = [f"{k}={v}" for k, v in (lab.environment(node) | env).items()]
    return Program(None, lab.command(node, "env", *told, *command))


def _ports(lab: Lab) -> list[str]:
    return [f"p{p}" for p in range(1, lab.spec.planes + 1)]


def _watched(lab: Lab, sink: str, meter: Meter, during: During | None, client: Program) -> None:
    """Wait until bytes arrive, then let things happen."""
    deadline = time.monotonic() + _PATIENCE
    begun = meter.span[0]
    soft = lab if isinstance(lab, SoftLab) else None
    first = soft.received(sink) if soft is not None else 0

    def arrived() -> float:
        if soft is not None:
            return soft.received(sink) - first
        return sum(meter.arrived(p, begun, math.inf) for p in _ports(lab))

    while arrived() < _RUNNING_BYTES:
        if time.monotonic() > deadline or not client.running:
            return  # its own report says why
        time.sleep(0.02)
    if during is not None:
        during(time.monotonic())


def _wire(lab: Lab, meter: Meter, begin: float, end: float) -> Bins | None:
    if not lab.has_namespaces:
        return None
    width = _BIN_MS / 1e3
    counts = meter.bins(_ports(lab), begin, end, width)
    return Bins(begin, width, tuple(c * width for c in counts))


# --- softmrc ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _fabric(lab: Lab, trimming: bool) -> Iterator[dict[str, str]]:
    """Give out the variable that names the lab's fabric file, or one that says nothing trims."""
    known = lab.fabric()
    if known.trimming == trimming:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="softmrc-") as folder:
        file = Path(folder) / "fabric.json"
        dataclasses.replace(known, trimming=trimming).write(file)
        yield {FABRIC_ENV: str(file)}


def _softmrc(lab: Lab, transfer: Transfer, during: During | None, *, trimming: bool) -> Course:
    perf = [sys.executable, "-m", "softmrc.cli.app", "perf", "--port", str(_PORT), "--json"]
    bins = ["--bin-ms", str(_BIN_MS)]
    with ExitStack() as stack:
        env = stack.enter_context(_fabric(lab, trimming))
        server = stack.enter_context(_program(lab, transfer.sink, *perf, *bins, "--once", **env))
        server.await_listening(_PORT)
        words = [*perf, transfer.sink, "-D", f"{transfer.seconds:g}", *transfer.options]
        client = stack.enter_context(_program(lab, transfer.source, *words, **env))
        with Meter(server.pid) as meter:
            _watched(lab, transfer.sink, meter, during, client)
            # Status 1 says that queue pairs were lost; the figures say how many.
            report = client.json(transfer.seconds + 2 * _PATIENCE, accept=(0, 1))
    found = report["bins"]
    goodput = Bins(found["start_ns"] / 1e9, found["width_ms"] / 1e3, tuple(found["bytes"]))
    return Course(
        goodput,
        _wire(lab, meter, goodput.start, goodput.end),
        resent_bytes=report["rtx"] * report["pmtu"],
        more={
            **{
                k: report[k]
                for k in ("rtx", "qp_errors", "assumed_bad", "not_good", "local_rx_drops", "pmtu")
            },
            "ecn": sum(ev["ecn"] for ev in report["per_ev"]),
            "trimmed": sum(ev["trimmed"] for ev in report["per_ev"]),
            "lost": sum(ev["lost"] for ev in report["per_ev"]),
            "cpu_s_per_gb": report["cpu_s_per_gb"],
        },
    )


# --- TCP and MPTCP ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _mptcp(lab: Lab, transfer: Transfer) -> Iterator[None]:
    """Let the sink announce its further planes; as it was afterwards."""
    hosts = (transfer.source, transfer.sink)
    before = {h: lab.run(h, "ip", "mptcp", "limits", "show").split() for h in hosts}
    there = {h: _endpoints(lab, h) for h in hosts}
    try:
        for host in hosts:
            lab.run(host, "ip", "mptcp", "limits", "set", "subflow", "8", "add_addr_accepted", "8")
        for plane, address in enumerate(lab.addresses(transfer.sink)[1:], 2):
            lab.run(transfer.sink, "ip", "mptcp", "endpoint", "add", address, "dev", f"p{plane}", "signal")
        yield
    finally:
        for host, words in before.items():
            # The kernel makes some of its own (implicit ones) for subflows.
            for number in _endpoints(lab, host) - there[host]:
                lab.run(host, "ip", "mptcp", "endpoint", "delete", "id", number)
            limits = dict(zip(words[::2], words[1::2], strict=False))
            lab.run(
                host, "ip", "mptcp", "limits", "set", "subflow", limits.get("subflows", "2"),
                "add_addr_accepted", limits.get("add_addr_accepted", "0"),
            )  # fmt: skip


def _endpoints(lab: Lab, host: str) -> set[str]:
    """Return the numbers of a host's MPTCP endpoints."""
    rows = [line.split() for line in lab.run(host, "ip", "mptcp", "endpoint", "show").splitlines()]
    return {row[row.index("id") + 1] for row in rows if "id" in row}


def _retransmitted(lab: Lab, host: str) -> int:
    """Return the TCP segments a host has sent again, of all subflows."""
    rows = [line.split() for line in lab.run(host, "cat", "/proc/net/snmp").splitlines()]
    names, values = (row for row in rows if row[0] == "Tcp:")
    return int(values[names.index("RetransSegs")])


def _iperf(lab: Lab, transfer: Transfer, during: During | None, *, mptcp: bool) -> Course:
    wrap = ("mptcpize", "run") if mptcp else ()
    common = [*wrap, "iperf3", "-p", str(_PORT), "-J", "-i", "0.1"]
    address = lab.addresses(transfer.sink)[0]
    before = _retransmitted(lab, transfer.source)
    with ExitStack() as stack:
        server = stack.enter_context(_program(lab, transfer.sink, *common, "-s", "-1"))
        server.await_listening(_PORT)
        words = [*common, "-c", address, "-t", f"{max(1, round(transfer.seconds))}"]
        client = stack.enter_context(_program(lab, transfer.source, *words))
        with Meter(server.pid) as meter:
            _watched(lab, transfer.sink, meter, during, client)
            report = client.json(transfer.seconds + 2 * _PATIENCE, last_line=False, accept=(0, 1))
            far = server.json(_PATIENCE, last_line=False, accept=(0, 1))
    if "error" in report:
        raise MrcError(f"iperf3: {report['error']}")
    resent = _retransmitted(lab, transfer.source) - before
    mss = int(report["start"].get("tcp_mss_default") or report["start"].get("tcp_mss") or 1448)
    return Course(
        goodput := _interval_bins(far, _arrival(meter, lab)),
        _wire(lab, meter, goodput.start, goodput.end),
        resent_bytes=resent * mss,
        more={"retransmitted_segments": resent, "mss": mss, "subflows": lab.spec.planes if mptcp else 1},
    )


def _arrival(meter: Meter, lab: Lab) -> float:
    """Return when data began to arrive: iperf3 does not tell on a clock that others share."""
    width = _BIN_MS / 1e3
    rates = meter.bins(_ports(lab), *meter.span, width)
    first = next((i for i, rate in enumerate(rates) if rate * width >= _DATA_BYTES), 0)
    return meter.span[0] + first * width


def _interval_bins(report: dict[str, Any], begun: float) -> Bins:
    found = [interval["sum"] for interval in report["intervals"]]
    if not found:
        raise MrcError("iperf3 reported no intervals")
    width = 0.1
    counts = [0.0] * math.ceil(found[-1]["end"] / width)
    for one in found:
        counts[min(int(one["start"] / width + 0.5), len(counts) - 1)] += one["bytes"]
    return Bins(begun, width, tuple(counts))
