"""Rows about latency and about what a host has to give: idle CPU, many queue pairs, busy cores."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from softmrc.bench.bench import Bench
from softmrc.bench.ours import Load, run_perf
from softmrc.bench.pairs import Sample
from softmrc.bench.proc import Program, python_module
from softmrc.bench.settings import BenchError
from softmrc.bench.site import Site
from softmrc.bench.table import Outcome, Row
from softmrc.bench.yard import bare_pings

__all__ = ["HOST_ROWS"]

_IDLE_PORT = 18700
_IDLE_QPS = 100
_AWAKE = 0.9  # share of busy time from which on an end has not slept
_TICKS = os.sysconf("SC_CLK_TCK")


def latency(spin: bool, p99_limit: float | None, bench: Bench) -> Outcome:
    """Median round trip of an 8-byte write, as a multiple of a bare datagram's."""
    site = bench.sites.path(9000)
    load = Load(op="lat", size=8, spin_us=1_000_000 if spin else 0)

    def ours() -> Sample:
        run = run_perf(bench, site, load)
        figures = run.row["lat_us"]
        busy = round(run.meter.busy_cores(*run.meter.steady(site.links)), 3)
        return Sample(
            float(figures["p50"]), {**{f"{k}_us": v for k, v in figures.items()}, "busy_cores": busy}
        )

    pairs = bench.pairs(ours, lambda: bare_pings(bench, site, spin=spin))
    tail = round(pairs.median_of(lambda p: p.ours.more["p99_us"] / p.peer.more["p99_us"]), 4)
    also = {}
    if p99_limit is not None:
        also[f"99th percentile at most {p99_limit:g} times"] = tail <= p99_limit
    if not spin:
        # Ends that poll in secret would win; those that sleep leave the cores idle between datagrams.
        busy = pairs.median_of(lambda p: float(p.ours.more["busy_cores"]))
        also["the ends sleep while they wait"] = busy <= _AWAKE * bench.place.cores
    return Outcome(
        value=round(pairs.ratio, 4),
        peer={
            "name": f"bare UDP ping-pong of 64 bytes, {'spinning' if spin else 'blocking'}",
            "unit": "us", "median": pairs.peer, "ours": pairs.ours,
        },
        detail={"site": site.label, "p99_ratio": tail, **pairs.to_json()},
        also=also,
    )  # fmt: skip


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def idle_cpu(bench: Bench) -> Outcome:
    """Cores that an end takes while 100 connected queue pairs have nothing to do."""
    site = bench.sites.path(9000)
    length = bench.settings.length(10, 2)
    serve = python_module("softmrc.bench._idle", "serve", site.b_planes[0], str(_IDLE_PORT), str(_IDLE_QPS))
    dial = python_module(
        "softmrc.bench._idle", "dial", site.a_planes[0], site.b_planes[0], str(_IDLE_PORT), str(_IDLE_QPS)
    )
    with bench.start_b(site, serve) as server:
        server.await_line("listening")
        with bench.start_a(site, dial) as client:
            client.await_line("connected", 120)
            server.await_line("connected", 30)
            time.sleep(1)
            begin, before = time.monotonic(), [_cpu_seconds(p) for p in (client.pid, server.pid)]
            time.sleep(length)
            after, took = [_cpu_seconds(p) for p in (client.pid, server.pid)], time.monotonic() - begin
    cores = [round((b - a) / took, 5) for a, b in zip(before, after, strict=True)]
    return Outcome(
        value=max(cores),
        detail={
            "site": site.label,
            "qps": _IDLE_QPS,
            "seconds": took,
            "client_cores": cores[0],
            "server_cores": cores[1],
        },
    )


def qp_scale(bench: Bench) -> Outcome:
    """Goodput of 1,000 queue pairs, as a share of one's."""
    site = bench.sites.path(9000)
    many = Load(size=64 << 10, qps=1000, depth=2, region=64 << 20)
    one = Load(size=64 << 10, qps=1, depth=64, region=64 << 20)

    def ours() -> Sample:
        run = run_perf(bench, site, many)
        return Sample(run.gbps, {"jain": float(run.row["jain"]), **run.extras()})

    pairs = bench.pairs(ours, lambda: run_perf(bench, site, one).sample())
    jain = pairs.median_of(lambda p: p.ours.more["jain"])
    return Outcome(
        value=round(pairs.ratio, 4),
        peer={"name": "one queue pair", "unit": "Gbit/s", "median": pairs.peer, "ours": pairs.ours},
        detail={"site": site.label, "jain": jain, **pairs.to_json()},
        also={"Jain's index at least 0.95": jain >= 0.95},
    )


def _busy_loops(bench: Bench, site: Site, stack: ExitStack) -> None:
    for cpu in sorted({bench.place.a, bench.place.b}):
        loop = python_module("softmrc.bench._idle", "burn")
        stack.enter_context(Program(None, loop, cpu if bench.place.can_pin else None))


def busy_host(bench: Bench) -> Outcome:
    """Paths taken for bad and queue pairs lost on a clean fabric whose cores also run busy loops."""
    site = bench.sites.path(9000)
    length = bench.settings.length(60, 5)
    with ExitStack() as stack:
        _busy_loops(bench, site, stack)
        run = run_perf(bench, site, Load(size=256 << 10, depth=16, region=4 << 20, seconds=length))
    demoted, errors = int(run.row["assumed_bad"]), int(run.row["qp_errors"])
    if run.gbps <= 0:
        raise BenchError("nothing was moved on the busy host")
    return Outcome(
        value=demoted + errors,
        detail={
            "site": site.label, "seconds": length, "demoted": demoted, "qp_errors": errors, "gbps": run.gbps,
            **run.extras(),
        },
    )  # fmt: skip


HOST_ROWS = (
    Row(
        name="latency_sleep", about="8-byte write, both asleep / bare ping-pong", target=1.5, at_most=True,
        loopback=True, run=partial(latency, False, 2.5),
    ),
    Row(
        name="latency_spin", about="8-byte write, both spinning / bare ping-pong", target=1.3, at_most=True,
        loopback=True, needs=("cores",), run=partial(latency, True, None),
    ),
    Row(
        name="idle_cpu", about=f"cores of an end with {_IDLE_QPS} idle connections", target=0.02, at_most=True,
        loopback=True, run=idle_cpu,
    ),
    Row(name="qp_scale", about="goodput of 1000 queue pairs / one", target=0.85, loopback=True, run=qp_scale),
    Row(
        name="busy_host", about="false alarms while all cores are busy", target=0, at_most=True, loopback=True,
        run=busy_host,
    ),
)  # fmt: skip
