"""The bare yardsticks as peers: both ends as processes, one figure back."""

from __future__ import annotations

import json
from typing import Any

from softmrc import _core
from softmrc.bench.bench import Bench
from softmrc.bench.pairs import Sample
from softmrc.bench.proc import python_module
from softmrc.bench.settings import BenchError
from softmrc.bench.site import Site

__all__ = ["BULK", "bare_both_ways", "bare_pings", "bare_stream", "missing_af_packet", "missing_io_uring"]

_PORT = 7300
_PATIENCE = 20.0
_LARGEST_RUN = 65_487
_SEGMENTS = 128
# Datagrams as large as the engine's at the MTU: payload of a run and how many there are in one.
BULK = {9000: (4160, 15), 1500: (1408, 46)}


def missing_af_packet() -> str | None:
    """Return why this process may not make frames of its own; None: it may."""
    return _core.yard_packet_missing() or None


def missing_io_uring() -> str | None:
    """Return why there is no io_uring on this host; None: there is."""
    return _core.yard_uring_missing() or None


def _role(role: str, **config: Any) -> list[str]:
    return python_module("softmrc.bench._yard", role, json.dumps(config))


def _gbps(figures: dict[str, Any]) -> float:
    if not figures["seconds"]:
        raise BenchError("the yardstick received nothing")
    return round(float(figures["bytes"]) * 8 / float(figures["seconds"]) / 1e9, 4)


def bare_stream(
    bench: Bench,
    site: Site,
    *,
    payload: int,
    segments: int = 1,
    batch: int = 1,
    window: int = 0,
    receive_batch: int = 8,
    cold_bytes: int = 0,
    labels: bool = False,
    spin: bool = False,
    to: str | None = None,
    extra_to: tuple[str, ...] = (),
    io_uring: bool = False,
    zero_copy: bool = False,
    af_packet: bool = False,
) -> Sample:
    """One way with plain sockets; Gbit/s of payload as received.

    Args:
        bench: where and how long.
        site: its hosts.
        payload: bytes of a datagram.
        segments: datagrams of a UDP_SEGMENT run.
        batch: runs of one system call.
        window: runs in flight until they are acknowledged; 0: no limit.
        receive_batch: messages taken at once.
        cold_bytes: memory walked through at both ends.
        labels: another flow label each time.
        spin: nobody sleeps.
        to: destination; None: the first plane of host b.
        extra_to: further destinations, taken in turn.
        io_uring: rings instead of system calls, at both ends.
        zero_copy: with rings, payload is not copied where the device allows it.
        af_packet: the sender makes its frames itself; IPv6, `to` on the same link.
    """
    seconds, at = bench.settings.seconds, site.b_planes[0]
    receive = _role(
        "receive", at=["", _PORT] if to else [at, _PORT], gro=segments > 1, batch=receive_batch,
        ack_every=max(1, window * segments // 8) if window else 0, cold_bytes=cold_bytes, spin=spin, seconds=seconds,
        io_uring=io_uring,
    )  # fmt: skip
    send = _role(
        "send", to=[[host, _PORT] for host in (to or at, *extra_to)], payload=payload, segments=segments, batch=batch,
        window=window * segments, cold_bytes=cold_bytes, labels=labels, spin=spin, seconds=seconds + 0.4,
        io_uring=io_uring, zero_copy=zero_copy, af_packet=af_packet,
    )  # fmt: skip
    with bench.start_b(site, receive) as receiver:
        receiver.await_line("ready")
        with bench.start_a(site, send) as sender:
            figures = receiver.json(seconds + _PATIENCE)
            sender.output(_PATIENCE)
    gbps = _gbps(figures)
    return Sample(
        gbps, {"mpps": round(figures["datagrams"] / figures["seconds"] / 1e6, 4), "payload": payload}
    )


def bare_both_ways(bench: Bench, site: Site, *, mtu: int, window: int = 8, cold_bytes: int = 0) -> Sample:
    """Both ways in one loop an end; Gbit/s in both directions together."""
    payload, segments = BULK[mtu]
    a, b = site.a_planes[0], site.b_planes[0]
    more = {"payload": payload, "segments": segments, "window": window, "cold_bytes": cold_bytes}
    length = bench.settings.seconds
    with bench.start_b(
        site, _role("duplex", at=[b, _PORT], to=[a, _PORT + 1], seconds=length, **more)
    ) as right:
        right.await_line("ready")
        with bench.start_a(
            site, _role("duplex", at=[a, _PORT + 1], to=[b, _PORT], seconds=length, **more)
        ) as left:
            ways = [_gbps(p.json(length + _PATIENCE)) for p in (left, right)]
    return Sample(round(sum(ways), 4), {"to_a": ways[0], "to_b": ways[1]})


def bare_pings(bench: Bench, site: Site, *, spin: bool) -> Sample:
    """Round trips of a datagram of 64 bytes; the median in us."""
    length, at = bench.settings.seconds, site.b_planes[0]
    with bench.start_b(site, _role("pong", at=[at, _PORT], spin=spin, seconds=length + _PATIENCE)) as pong:
        pong.await_line("ready")
        ping = _role("ping", to=[at, _PORT], iterations=1_000_000, spin=spin, seconds=length)
        with bench.start_a(site, ping) as program:
            figures = program.json(length + _PATIENCE)
    if not figures["count"]:
        raise BenchError("the bare ping got no answer")
    return Sample(figures["p50_us"], figures)
