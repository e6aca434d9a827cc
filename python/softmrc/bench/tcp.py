"""TCP and MPTCP by iperf3 as peers."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from softmrc.bench.bench import Bench
from softmrc.bench.meter import Meter
from softmrc.bench.pairs import Sample
from softmrc.bench.proc import Program
from softmrc.bench.settings import BenchError
from softmrc.bench.site import Site
from softmrc.netns import Namespace

__all__ = ["missing_iperf3", "missing_mptcp", "prepare_mptcp", "tcp_both_ways", "tcp_stream"]

_PORT = 5333
_PATIENCE = 20.0
_MPTCP = ("mptcpize", "run")


def missing_iperf3() -> str | None:
    """Return what is missing for TCP runs."""
    return None if shutil.which("iperf3") else "needs iperf3"


def missing_mptcp() -> str | None:
    """Return what is missing for MPTCP runs."""
    if why := missing_iperf3():
        return why
    if not shutil.which("mptcpize"):
        return "needs mptcpize"
    shown = subprocess.run(["ip", "mptcp", "limits", "show"], capture_output=True, check=False)
    return None if shown.returncode == 0 else "needs MPTCP in the kernel"


def prepare_mptcp(site: Site) -> None:
    """Announce the further planes of host b to MPTCP clients; once a site."""
    if site.a is None or site.b is None:
        raise BenchError("MPTCP is measured in namespaces only")
    for host in (site.a, site.b):
        host.run("ip", "mptcp", "limits", "set", "subflow", "8", "add_addr_accepted", "8")
    _announce(site.b, site.b_planes[1:])


def _announce(host: Namespace, planes: tuple[str, ...]) -> None:
    host.run("ip", "mptcp", "endpoint", "flush")
    for i, plane in enumerate(planes, 2):
        host.run("ip", "mptcp", "endpoint", "add", plane, "dev", f"b{i}", "signal")


def _received(report: dict[str, Any], name: str) -> dict[str, Any]:
    if "error" in report:
        raise BenchError(f"{name}: {report['error']}")
    found: dict[str, Any] = report["end"]["sum_received"]
    return found


def _ends(
    bench: Bench,
    site: Site,
    stack: ExitStack,
    to_b: bool,
    port: int,
    seconds: float,
    more: tuple[str, ...],
    mptcp: bool,
) -> tuple[Program, Program]:
    wrap = _MPTCP if mptcp else ()
    host = site.b_planes[0] if to_b else site.a_planes[0]
    far, near = (bench.start_b, bench.start_a) if to_b else (bench.start_a, bench.start_b)
    server = stack.enter_context(far(site, [*wrap, "iperf3", "-s", "-1", "-p", str(port)]))
    server.await_listening(port)
    client = [*wrap, "iperf3", "-c", host, "-p", str(port), "-t", f"{max(1, round(seconds))}", "-J", *more]
    return server, stack.enter_context(near(site, client))


def tcp_stream(
    bench: Bench,
    site: Site,
    *,
    seconds: float | None = None,
    mptcp: bool = False,
    streams: int = 1,
    during: Callable[[Meter], None] | None = None,
) -> tuple[Sample, Meter]:
    """One connection; Gbit/s of payload as received.

    Args:
        bench: where, and how long by default.
        site: its hosts.
        seconds: length of the run, at least 1.
        mptcp: over all planes.
        streams: connections side by side.
        during: called once it runs, for what is to happen meanwhile.
    """
    length = seconds or bench.settings.seconds
    with ExitStack() as stack:
        more = ("-P", str(streams)) if streams > 1 else ()
        server, client = _ends(bench, site, stack, True, _PORT, length, more, mptcp)
        with Meter(server.pid) as meter:
            if during is not None:
                during(meter)
            report = client.json(length + _PATIENCE, last_line=False)
    got = _received(report, "iperf3")
    cpu = report["end"]["cpu_utilization_percent"]
    figures = {
        "retransmits": report["end"]["sum_sent"].get("retransmits", 0),
        "cpu_sender_percent": round(cpu["host_total"], 1),
        "cpu_receiver_percent": round(cpu["remote_total"], 1),
    }
    return Sample(round(got["bits_per_second"] / 1e9, 4), figures), meter


def tcp_both_ways(bench: Bench, site: Site) -> Sample:
    """Two connections in opposite directions at once; Gbit/s together."""
    length = bench.settings.seconds
    with ExitStack() as stack:
        clients = [
            _ends(bench, site, stack, to_b, _PORT + i, length, (), mptcp=False)[1]
            for i, to_b in enumerate((True, False))
        ]
        ways = [
            _received(c.json(length + _PATIENCE, last_line=False), "iperf3")["bits_per_second"] / 1e9
            for c in clients
        ]
    return Sample(round(sum(ways), 4), {"to_b": round(ways[0], 4), "to_a": round(ways[1], 4)})
