"""Us: a `softmrc perf` server and client, as any user would start them."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from softmrc.bench.bench import Bench
from softmrc.bench.meter import Meter
from softmrc.bench.pairs import Sample
from softmrc.bench.proc import Program, python_module
from softmrc.bench.settings import BenchError
from softmrc.bench.site import Site

__all__ = ["HOT_BYTES", "Load", "Run", "bulk", "run_perf"]

_PORT = 18600
_PATIENCE = 30.0
_MB = 1 << 20
HOT_BYTES = 4 * _MB
"""Memory that throughput rows walk through at each end when it is to stay in the caches."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What `softmrc perf` is asked for; None: its own default."""

    op: str = "write"
    size: int = _MB
    qps: int = 1
    depth: int | None = None
    seconds: float | None = None
    both: bool = False
    region: int | None = None
    mtu: int | None = None
    ev_run: int | None = None
    evs: int | None = None
    spin_us: int | None = None
    via: tuple[str, str] | None = None
    """SRv6: uSID list to host b, and to host a."""
    more: tuple[str, ...] = ()
    """Further options of the client."""

    def options(self, seconds: float) -> list[str]:
        """Return the options of the client."""
        words = ["--op", self.op, "-s", str(self.size), "-q", str(self.qps), "-D", f"{seconds:g}"]
        for name, value in (
            ("-t", self.depth), ("--region-size", self.region), ("--ev-run", self.ev_run),
        ):  # fmt: skip
            if value is not None:
                words += [name, str(value)]
        return [*words, *(["-b"] if self.both else []), *self.local_options(), *self.more]

    def local_options(self) -> list[str]:
        """Return the options that each end is given by itself."""
        words = []
        for name, value in (("-m", self.mtu), ("--evs", self.evs), ("--spin-us", self.spin_us)):
            if value is not None:
                words += [name, str(value)]
        return words


@dataclass(frozen=True)
class Run:
    """What the client reported, and what the meter saw."""

    row: dict[str, Any]
    meter: Meter

    @property
    def gbps(self) -> float:
        """Payload as delivered, Gbit/s."""
        return float(self.row["goodput_gbps"])

    def arrivals(self, begin: float, end: float) -> tuple[float, list[float]]:
        """Return bytes per second placed at the receiver: width of the bins, and those between two times."""
        bins = self.row["bins"]
        if bins["at"] != "receiver":
            raise BenchError("softmrc perf has no arrivals of the receiver")
        width, start = bins["width_ms"] / 1e3, bins["start_ns"] / 1e9
        first, last = math.ceil((begin - start) / width - 1e-6), math.floor((end - start) / width + 1e-6)
        return width, [n / width for n in bins["bytes"][max(first, 0) : max(last, 0)]]

    def sample(self) -> Sample:
        """Return goodput as a sample; the worth-keeping counters beside it."""
        return Sample(self.gbps, self.extras())

    def extras(self) -> dict[str, Any]:
        """Return counters that explain a figure."""
        keys = ("rtx", "qp_errors", "assumed_bad", "not_good", "local_rx_drops", "cpu_s_per_gb", "pmtu")
        return {k: self.row[k] for k in keys if k in self.row}


def bulk(*, cold_bytes: int = 0) -> Load:
    """Return the load of throughput rows: memory that stays in the caches, or `cold_bytes` at both ends."""
    if cold_bytes:
        return Load(size=_MB, depth=16, region=cold_bytes)
    return Load(size=256 << 10, depth=16, region=HOT_BYTES)


def _only_row(report: Any) -> dict[str, Any]:
    if not isinstance(report, dict) or "goodput_gbps" not in report:
        raise BenchError("softmrc perf reported no figures")
    return report


def run_perf(
    bench: Bench,
    site: Site,
    load: Load,
    *,
    seconds: float | None = None,
    during: Callable[[Meter], None] | None = None,
) -> Run:
    """Run one load from host a to host b.

    Args:
        bench: where, and how long by default.
        site: its hosts and planes.
        load: what to send.
        seconds: length of this run.
        during: called once the client runs, for what is to happen meanwhile.
    """
    length = seconds or load.seconds or bench.settings.seconds
    common = ["--port", str(_PORT), "--json"]
    serve = [*common, "--planes", ",".join(site.b_planes), "--once", *load.local_options()]
    if load.via is not None:
        serve += ["--via", load.via[1]]
        common += ["--via", load.via[0]]
    send = [site.b_planes[0], *common, "--planes", ",".join(site.a_planes), *load.options(length)]
    with ExitStack() as stack:
        server = stack.enter_context(bench.start_b(site, python_module("softmrc.cli.app", "perf", *serve)))
        server.await_listening(_PORT)
        sender = stack.enter_context(bench.start_a(site, python_module("softmrc.cli.app", "perf", *send)))
        with Meter(server.pid) as meter:
            if during is not None:
                during(meter)
            report = _report(sender, length)
    return Run(_only_row(report), meter)


def _report(sender: Program, length: float) -> Any:
    # Status 1 says that queue pairs were lost; the figures say how many.
    return sender.json(length + _PATIENCE, accept=(0, 1))
