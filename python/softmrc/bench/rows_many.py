"""Rows over four slow paths: the sum of them, one of them gone, loss on all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from softmrc.bench.bench import Bench
from softmrc.bench.meter import Meter
from softmrc.bench.ours import Run, bulk, run_perf
from softmrc.bench.pairs import Pairs, Sample
from softmrc.bench.settings import BenchError
from softmrc.bench.site import Site
from softmrc.bench.table import Outcome, Row
from softmrc.bench.tcp import prepare_mptcp, tcp_stream
from softmrc.netns import Hole, lossy

__all__ = ["MANY_ROWS"]

_RATE = 500_000_000
_ETHERNET = 14
_HEADERS = 92  # IPv6, UDP and MRC around a payload (reference 2.1)
_MPTCP = "iperf3 under mptcpize, 4 subflows"
_BIN = 0.1
_GRACE = 0.1  # after the cut
_FULL = 0.95  # of the rate before the cut counts as full again
# Bytes per second in bins of `_BIN` that came over these links between two times.
Arrivals = Callable[[list[str], float, float], list[float]]


def _capacity_gbps(mtu: int) -> float:
    """Return the payload that four paths carry in packets of ours."""
    payload = (mtu - _HEADERS) // 64 * 64
    return 4 * _RATE * payload / (payload + _HEADERS + _ETHERNET) / 1e9


def four_paths(mtu: int, bench: Bench) -> Outcome:
    """Goodput over four paths, as a share of what they can carry."""
    site = bench.sites.four(mtu)
    prepare_mptcp(site)
    length = bench.settings.length(18, 4)
    pairs = bench.pairs(
        lambda: run_perf(bench, site, bulk(), seconds=length).sample(),
        lambda: tcp_stream(bench, site, seconds=length, mptcp=True)[0],
    )
    capacity = _capacity_gbps(mtu)
    return Outcome(
        value=round(pairs.ours / capacity, 4),
        peer={"name": _MPTCP, "unit": "Gbit/s", "median": pairs.peer, "ours": pairs.ours},
        detail={
            "site": site.label, "capacity_gbps": round(capacity, 4), "ratio_to_mptcp": round(pairs.ratio, 4),
            **pairs.to_json(),
        },
        also={"at least as fast as MPTCP": pairs.ratio >= 1.0},
    )  # fmt: skip


# --- a path goes and returns -------------------------------------------------------------------------------------


@contextmanager
def _silent(site: Site, links: list[int]) -> Iterator[None]:
    assert site.b is not None
    with ExitStack() as stack:
        for i in links:
            hole = Hole(site.b, f"b{i}")
            stack.callback(hole.clear)
            hole.set()
        yield


@contextmanager
def _down(end: str, site: Site, links: list[int]) -> Iterator[None]:
    host = site.a if end == "a" else site.b
    assert host is not None
    for i in links:
        host.down(f"{end}{i}")
    try:
        yield
    finally:
        for i in links:
            host.up(f"{end}{i}")


@dataclass
class _Course:
    """Warm-up, cut, return: when each began, for the meter's record to be read against."""

    fault: Callable[[Site, list[int]], Any]
    links: list[int]
    warm: float
    black: float
    after: float
    cut_at: float = 0.0
    back_at: float = 0.0
    events: list[float] = field(default_factory=list)

    @property
    def length(self) -> float:
        return self.warm + self.black + self.after

    def drive(self, site: Site, meter: Meter) -> None:
        _await_traffic(meter, site.links)
        time.sleep(self.warm)
        with self.fault(site, self.links):
            self.cut_at = time.monotonic()
            time.sleep(self.black)
        self.back_at = time.monotonic()

    def read(self, site: Site, arrivals: Arrivals) -> Sample:
        """Return the lowest bin during the cut as a share of what the surviving paths carried before."""
        devs = site.links
        alive = [d for i, d in enumerate(devs, 1) if i not in self.links]
        before = arrivals(devs, self.cut_at - self.warm / 2, self.cut_at)
        during = arrivals(alive, self.cut_at + _GRACE, self.back_at)
        after = arrivals(devs, self.back_at, self.back_at + self.after - 0.3)
        if not before or not during or statistics.median(before) <= 0:
            raise BenchError("nothing was moving when the path was cut")
        level = statistics.median(before)
        expected = level * len(alive) / len(devs)
        full = _first_full(after, _FULL * level)
        return Sample(
            round(min(during) / expected, 4),
            {
                "mean_share": round(statistics.mean(during) / expected, 4),
                "bins_below_0.9": sum(b < 0.9 * expected for b in during),
                "bins": len(during),
                "full_again_ms": None if full is None else round(full * _BIN * 1000),
                "before_gbps": round(level * 8 / 1e9, 4),
                "shares": [round(b / expected, 3) for b in during],
                "shares_after": [round(b / level, 3) for b in after[:10]],
            },
        )


def _on_links(meter: Meter) -> Arrivals:
    """Bytes that the kernel counted on links, headers and repeats included."""
    return lambda devs, begin, end: meter.bins(devs, begin, min(end, meter.span[1]), _BIN)


def _placed(run: Run) -> Arrivals:
    """Payload that softmrc placed at the receiver, whichever link it came by."""

    def arrivals(_: list[str], begin: float, end: float) -> list[float]:
        width, rates = run.arrivals(begin, end)
        if abs(width - _BIN) > 1e-6:
            raise BenchError(f"softmrc perf counted in bins of {width:g} s")
        return rates

    return arrivals


def _first_full(bins: list[float], level: float) -> int | None:
    """Return the first bin from which the rate stays full: itself and the mean of half a second."""
    for i, rate in enumerate(bins):
        if rate >= level and statistics.mean(bins[i : i + 5]) >= level:
            return i
    return None


def _await_traffic(meter: Meter, devs: list[str]) -> None:
    """Wait until something flows; set-up takes its time."""
    end = time.monotonic() + 15
    begin = meter.span[0]
    while time.monotonic() < end:
        now = meter.span[1]
        if sum(meter.arrived(d, begin, now) for d in devs) > 1e6:
            return
        time.sleep(0.02)
    raise BenchError("no traffic within 15 s")


def cut(fault: Callable[[Site, list[int]], Any], links: list[int], bench: Bench) -> Outcome:
    """Lowest 100 ms bin while paths are gone, as a share of what the others carry."""
    site = bench.sites.four(1500)
    prepare_mptcp(site)
    warm, black, after = (
        bench.settings.length(4, 1.5),
        bench.settings.length(5, 1.5),
        bench.settings.length(3, 1.5),
    )

    def ours() -> Sample:
        course = _Course(fault, links, warm, black, after)
        run = run_perf(
            bench, site, bulk(), seconds=course.length + 0.5, during=lambda meter: course.drive(site, meter)
        )
        return _with(course.read(site, _placed(run)), run.extras())

    def mptcp() -> Sample:
        course = _Course(fault, links, warm, black, after)
        _, meter = tcp_stream(
            bench,
            site,
            seconds=course.length + 1.5,
            mptcp=True,
            during=lambda meter: course.drive(site, meter),
        )
        return course.read(site, _on_links(meter))

    pairs = bench.pairs(ours, mptcp)
    returns = [p.ours.more["full_again_ms"] for p in pairs.pairs]
    back = statistics.median(10**6 if r is None else r for r in returns)
    return Outcome(
        value=pairs.ours,
        peer={"name": _MPTCP, "unit": "share", "median": pairs.peer, "full_again_ms": _peer_returns(pairs)},
        detail={"site": site.label, "full_again_ms": returns, **pairs.to_json()},
        also={"full rate within 500 ms after the return": back <= 500},
    )


def _with(sample: Sample, more: dict[str, Any]) -> Sample:
    return Sample(sample.value, {**sample.more, **more})


def _peer_returns(pairs: Pairs) -> list[Any]:
    return [p.peer.more["full_again_ms"] for p in pairs.pairs]


# --- loss --------------------------------------------------------------------------------------------------------


@contextmanager
def _loss(site: Site, share: float) -> Iterator[None]:
    assert site.a is not None
    assert site.b is not None
    with lossy(site.b, share, *site.links), lossy(site.a, share, *(f"a{d[1:]}" for d in site.links)):
        yield


def loss(share: float, bench: Bench) -> Outcome:
    """Goodput with random loss on all four paths, as a share of the lossless one."""
    site = bench.sites.four(9000, split=True)
    prepare_mptcp(site)

    def lossless() -> Sample:
        return run_perf(bench, site, bulk()).sample()

    def with_loss() -> Sample:
        with _loss(site, share):
            return lossless()

    def tcp(mptcp: bool) -> float:
        clean = tcp_stream(bench, site, mptcp=mptcp)[0].value
        with _loss(site, share):
            return round(tcp_stream(bench, site, mptcp=mptcp)[0].value / clean, 4)

    pairs = bench.pairs(with_loss, lossless)
    peers = {"mptcp": tcp(True), "tcp_one_path": tcp(False)}
    return Outcome(
        value=round(pairs.ratio, 4),
        peer={"name": "the same ratio of MPTCP (4 paths) and TCP (one)", "unit": "share", **peers},
        detail={
            "site": site.label,
            "loss": share,
            "gbps_lossless": pairs.peer,
            "gbps": pairs.ours,
            **pairs.to_json(),
        },
    )


def _row(name: str, about: str, target: float, run: Callable[[Bench], Outcome]) -> Row:
    return Row(name=name, about=about, target=target, run=run, needs=("netns", "iperf3", "mptcp"))


MANY_ROWS = (
    _row(
        "four_paths_9000", "goodput / capacity of 4 x 500 Mbit/s, MTU 9000", 0.97, partial(four_paths, 9000)
    ),
    _row(
        "four_paths_1500", "goodput / capacity of 4 x 500 Mbit/s, MTU 1500", 0.97, partial(four_paths, 1500)
    ),
    _row("cut_one_of_four", "worst 0.1 s / three paths, silent hole", 0.9, partial(cut, _silent, [2])),
    _row(
        "link_down_near",
        "worst 0.1 s / 3 paths, sender's link down",
        0.9,
        partial(cut, partial(_down, "a"), [2]),
    ),
    _row(
        "link_down_far",
        "worst 0.1 s / 3 paths, receiver's link down",
        0.9,
        partial(cut, partial(_down, "b"), [2]),
    ),
    _row("two_paths", "worst 0.1 s / two paths, two silent holes", 0.9, partial(cut, _silent, [2, 3])),
    _row("loss_0_1", "goodput with 0.1 % loss / without", 0.97, partial(loss, 0.001)),
    _row("loss_1", "goodput with 1 % loss / without", 0.90, partial(loss, 0.01)),
)
