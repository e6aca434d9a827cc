"""Rows over one path: goodput against TCP and against bare sockets, spraying, CPU."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from softmrc.bench.bench import Bench
from softmrc.bench.meter import Meter
from softmrc.bench.ours import HOT_BYTES, Load, bulk, run_perf
from softmrc.bench.pairs import Pairs, Sample
from softmrc.bench.settings import BenchError
from softmrc.bench.site import Site
from softmrc.bench.table import Outcome, Row
from softmrc.bench.tcp import tcp_both_ways, tcp_stream
from softmrc.bench.yard import BULK, bare_both_ways, bare_stream
from softmrc.netns import Fabric

__all__ = ["PATH_ROWS"]

_COLD = 256 << 20
_SPRAY_PAYLOAD = 4096
_SPRAY_DATAGRAM = 4160  # with the headers that ours has
_TCP = "iperf3, one TCP stream"
_TCP_NEEDS = ("iperf3",)


def _ratio(site: Site, pairs: Pairs, peer: str, unit: str = "Gbit/s") -> Outcome:
    return Outcome(
        value=round(pairs.ratio, 4),
        peer={"name": peer, "unit": unit, "median": pairs.peer, "ours": pairs.ours},
        detail={"site": site.label, **pairs.to_json()},
    )


def _tcp(bench: Bench, site: Site) -> Sample:
    return tcp_stream(bench, site)[0]


def one_path(mtu: int, bench: Bench) -> Outcome:
    """Goodput over one path, as a multiple of TCP's."""
    site = bench.sites.path(mtu)
    pairs = bench.pairs(lambda: run_perf(bench, site, bulk()).sample(), lambda: _tcp(bench, site))
    return _ratio(site, pairs, _TCP)


def both_ways(bench: Bench) -> Outcome:
    """Two ends writing to each other at once, as a multiple of two TCP streams."""
    site = bench.sites.path(9000)
    load = replace(bulk(), both=True)
    pairs = bench.pairs(lambda: run_perf(bench, site, load).sample(), lambda: tcp_both_ways(bench, site))
    outcome = _ratio(site, pairs, "iperf3, a TCP stream each way")
    bare = bare_both_ways(bench, site, mtu=9000)
    return replace(outcome, detail={**outcome.detail, "bare_sockets_gbps": bare.value})


def raw_share(cold_bytes: int, bench: Bench) -> Outcome:
    """Goodput as a share of a bare sender and receiver's; both walk through as much memory at each end."""
    site = bench.sites.path(9000)
    payload, segments = BULK[9000]
    walked = cold_bytes or HOT_BYTES
    bare = partial(bare_stream, bench, site, payload=payload, segments=segments, window=8, cold_bytes=walked)
    pairs = bench.pairs(lambda: run_perf(bench, site, bulk(cold_bytes=cold_bytes)).sample(), bare)
    peer = (
        f"bare UDP_SEGMENT and UDP_GRO, {segments} x {payload} B, window of 8 runs, through {walked >> 20} MB"
    )
    return _ratio(site, pairs, peer)


def raw_io_uring(bench: Bench) -> Outcome:
    """Goodput of bare sockets behind io_uring, as a multiple of the same with system calls."""
    site = bench.sites.path(9000)
    payload, segments = BULK[9000]
    bare = partial(bare_stream, bench, site, payload=payload, segments=segments, window=8)
    pairs = bench.pairs(lambda: bare(io_uring=True), bare)
    outcome = _ratio(site, pairs, f"bare UDP_SEGMENT and UDP_GRO by system calls, {segments} x {payload} B")
    uncopied = bare(io_uring=True, zero_copy=True)
    return replace(outcome, detail={**outcome.detail, "io_uring_zero_copy_gbps": uncopied.value})


def raw_af_packet(bench: Bench) -> Outcome:
    """Goodput of a bare sender of frames through AF_PACKET, as a multiple of one of datagrams."""
    site = bench.sites.path(9000)
    payload, segments = BULK[9000]
    bare = partial(
        bare_stream, bench, site, payload=payload, segments=segments, window=8, cold_bytes=HOT_BYTES
    )
    pairs = bench.pairs(lambda: bare(af_packet=True), bare)
    return _ratio(site, pairs, f"bare UDP_SEGMENT and UDP_GRO, {segments} x {payload} B, window of 8 runs")


def per_packet_spray(bench: Bench) -> Outcome:
    """Goodput with another EV for every packet, as a share of a bare sendmmsg sender's."""
    site = bench.sites.path(9000)
    load = replace(bulk(), mtu=_SPRAY_PAYLOAD, ev_run=1)

    def bare() -> Sample:
        return bare_stream(bench, site, payload=_SPRAY_DATAGRAM, batch=32, receive_batch=32, labels=True)

    pairs = bench.pairs(lambda: run_perf(bench, site, load).sample(), bare)
    return _ratio(site, pairs, f"bare sendmmsg of 32 x {_SPRAY_DATAGRAM} B, a flow label each")


def _cpu_per_gb(gbps: float, meter: Meter, site: Site) -> Sample:
    begin, end = meter.steady(site.links)
    if end - begin < 0.1 or gbps <= 0:
        raise BenchError("the run was too short for its CPU time")
    cores = meter.busy_cores(begin, end)
    return Sample(round(cores / (gbps / 8), 4), {"busy_cores": round(cores, 3), "gbps": gbps})


def cpu_per_gb(bench: Bench) -> Outcome:
    """Busy time of the whole machine per GB delivered, as a multiple of TCP's."""
    site = bench.sites.path(9000)

    def ours() -> Sample:
        run = run_perf(bench, site, bulk())
        return _cpu_per_gb(run.gbps, run.meter, site)

    def tcp() -> Sample:
        sample, meter = tcp_stream(bench, site)
        return _cpu_per_gb(sample.value, meter, site)

    return _ratio(site, bench.pairs(ours, tcp), _TCP, "CPU seconds per GB")


def small_writes(bench: Bench) -> Outcome:
    """Writes of 64 bytes a second, as a multiple of datagrams sent with one call each."""
    site = bench.sites.path(9000)
    load = Load(size=64, depth=64, region=1 << 20)

    def ours() -> Sample:
        run = run_perf(bench, site, load)
        return Sample(float(run.row["msg_rate_mps"]), run.extras())

    def bare() -> Sample:
        sample = bare_stream(bench, site, payload=64, receive_batch=1)
        return Sample(float(sample.more["mpps"]))

    return _ratio(site, bench.pairs(ours, bare), "one 64-byte datagram a call", "million/s")


def srv6_3hops(bench: Bench) -> Outcome:
    """Goodput over three uSID switches, another EV for every run, as a multiple of TCP's over the same."""
    site = bench.sites.chain(3, 9000)
    fabric = site.fabric
    if fabric is None:
        raise BenchError("SRv6 is measured in namespaces only")
    lists = replace(site, a_planes=("fc00:0:a001::",), b_planes=("fc00:0:b001::",))
    pairs = bench.pairs(
        lambda: run_perf(bench, lists, _srv6_load(fabric)).sample(), lambda: _tcp(bench, site)
    )
    return _ratio(site, pairs, f"{_TCP} over the same switches")


def _srv6_load(fabric: Fabric) -> Load:
    # The addresses lie on the loopback device, whose MTU says nothing about the path.
    return replace(bulk(), mtu=8896, via=(fabric.usid_list("b"), fabric.usid_list("a")))


def _row(
    name: str, about: str, target: float | None, run: Any, needs: tuple[str, ...] = (), **more: Any
) -> Row:
    return Row(name=name, about=about, target=target, run=run, needs=needs, **more)


PATH_ROWS = (
    _row("one_path_9000", "goodput / TCP, a path of MTU 9000", 1.3, partial(one_path, 9000), _TCP_NEEDS, loopback=True),
    _row("one_path_1500", "goodput / TCP, a path of MTU 1500", 1.1, partial(one_path, 1500), ("netns", "iperf3")),
    _row("both_ways", "goodput both ways / TCP both ways", 1.5, both_ways, ("iperf3",), loopback=True),
    _row("raw_share_hot", "goodput / bare sockets, warm memory", 0.8, partial(raw_share, 0), loopback=True),
    _row("raw_share_cold", "goodput / bare sockets, cold memory", 0.75, partial(raw_share, _COLD), loopback=True),
    _row("raw_io_uring", "bare sockets by io_uring / by calls", None, raw_io_uring, ("io_uring",), loopback=True),
    _row("raw_af_packet", "bare frames (AF_PACKET) / datagrams", None, raw_af_packet, ("netns", "af_packet")),
    _row("srv6_3hops", "goodput / TCP over 3 uSID switches", 1.25, srv6_3hops, ("netns", "iperf3", "srv6")),
    _row("per_packet_spray", "goodput with an EV a packet / bare sendmmsg", 0.85, per_packet_spray, loopback=True),
    _row("small_writes", "64-byte writes / datagrams of one call each", 3.0, small_writes, loopback=True),
    _row("cpu_per_gb", "CPU per GB / TCP's", 1.3, cpu_per_gb, ("iperf3",), loopback=True, at_most=True),
)  # fmt: skip
