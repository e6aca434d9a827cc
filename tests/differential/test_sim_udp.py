"""One story twice: over loopback UDP by the real stack, and in the simulator.

Two hosts, four planes with four paths each, behind links of one rate and delay. From the start one path of plane 2
loses a third of its packets; in the middle plane 1 goes dark in silence. Both tellings agree on the paths that were
taken out of use, on why packets were sent again, and on the goodput after the cut over the goodput before it.

What moves is counted in bytes, not by the clock: the planes that nothing happens to are the clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest

from softmrc import Endpoint
from softmrc.endpoint import Plane
from softmrc.endpoint.knobs import KnobArgs
from softmrc.sim.builder import Builder
from softmrc.sim.config import Fault, Graph, GraphLink, GraphSwitch, Mrc, Queues
from softmrc.sim.run import simulate
from softmrc.verbs import Rule

PLANES, EVS = 4, 4
RATE_BPS, DELAY_NS, MTU = 40_000_000, 4_000_000, 1024
QUEUE, MARK = 512 << 10, 80 << 10
DARK, LOSSY, CLEAN = 1, 2, (3, 4)
LOSS = 0.3
SETTLED, CUT, AFTER, END = 2 << 20, 5 << 20, 8 << 20, 13 << 20
"""Bytes received: measured from, dark from, measured again from, and to."""
REORDER_NS, TIMER_NS = 20_000_000, 200_000_000
"""Patience of loss detection: longer than what a busy host makes a process wait."""
LIMIT_S, POLL_S = 40.0, 0.002
ASSUMED_BAD = 2
"""State of an EV in the simulator's events."""
KINDS = ("trimmed", "inferred", "probe", "timeout")


@dataclass
class Told:
    """What one telling found."""

    out: set[tuple[int, int]]
    """Paths ever ASSUMED_BAD: plane, and number inside it from 0."""
    rtx: dict[str, int]
    """Packets sent again, by cause."""
    before: dict[int, float]
    after: dict[int, float]
    """Bytes of each plane in the two measured parts."""
    stalled_s: float = 0.0
    """Longest time that the host kept this process waiting."""

    def share(self, part: dict[int, float]) -> float:
        """All planes over one that nothing happens to."""
        return sum(part.values()) / (sum(part[p] for p in CLEAN) / len(CLEAN))

    @property
    def goodput_ratio(self) -> float:
        """After the cut over before it."""
        return self.share(self.after) / self.share(self.before)

    @property
    def main_cause(self) -> str:
        return max(self.rtx, key=lambda k: self.rtx[k])


def parted(totals: list[tuple[int, dict[int, float]]]) -> tuple[dict[int, float], dict[int, float]]:
    """Bytes of each plane from SETTLED to CUT and from AFTER to END, from (total, bytes by plane) in order."""

    def at(mark: int) -> dict[int, float]:
        return next(planes for total, planes in totals if total >= mark)

    def between(low: int, high: int) -> dict[int, float]:
        first, last = at(low), at(high)
        return {p: last[p] - first[p] for p in first}

    return between(SETTLED, CUT), between(AFTER, END)


def simulated() -> Told:
    """Tell it in the simulator: one bottleneck a plane in front of each host, paths without limits between them."""
    switches, links = [], []
    for p in range(1, PLANES + 1):
        switches += [GraphSwitch(0, p, 0), GraphSwitch(0, p, 1), *(GraphSwitch(1, p, k) for k in range(EVS))]
        links += [GraphLink(f"h{h}", f"p{p}.t0-{h}", RATE_BPS / 1e9, None, DELAY_NS // 4) for h in (0, 1)]
        links += [
            GraphLink(f"p{p}.t0-{h}", f"p{p}.t1-{k}", 10.0, None, DELAY_NS // 4)
            for h in (0, 1)
            for k in range(EVS)
        ]
    b = Builder()
    b.sends([0], [1], END + (4 << 20))
    w = b.build(2)
    mrc = Mrc(
        evs=PLANES * EVS, backups=0, mtu=MTU, trimming=False, tail_timer_ns=TIMER_NS, reorder_min_ns=REORDER_NS,
        probe_backoff_cap_ns=100_000_000,
    )  # fmt: skip
    queues = Queues(
        data_bytes=QUEUE, ecn_min=MARK, ecn_max=MARK, ecn_last_hop=True, trim_bytes=0, trim_last_hop=0
    )
    lossy = Fault(0, "link_loss", f"p{LOSSY}.t0-0.t1-1", LOSS, "up")
    graph = Graph(2, switches, links, PLANES)
    # Where in time the byte of the cut is, is seen in a run without the cut.
    free = simulate(graph, w, mrc, queues=queues, faults=[lossy], sample_ns=1_000_000)
    row = int(np.argmax(free.series["plane_bytes"].cumsum(axis=0).sum(axis=1) >= CUT))
    dark = Fault(int(free.series["time_ns"][row]), "switch_down", f"p{DARK}.t0-0")
    o = simulate(graph, w, mrc, queues=queues, faults=[lossy, dark], sample_ns=1_000_000, check=True)
    assert o.stopped == "done"
    assert o.totals["violations"] == 0
    planes = o.series["plane_bytes"].cumsum(axis=0)
    rows = [(int(r.sum()), {p: float(r[p - 1]) for p in range(1, PLANES + 1)}) for r in planes]
    bad = {
        (int(plane), int(tag & 0xFFFFFF) % EVS)
        for host, plane, tag, state in zip(
            *(o.ev_events[n] for n in ("host", "plane", "tag", "state")), strict=True
        )
        if host == 0 and state == ASSUMED_BAD
    }
    return Told(bad, {k: o.totals[f"rtx_{k}"] for k in KINDS}, *parted(rows))


def planes_of(first: int) -> list[Plane]:
    return [
        Plane(address=f"127.0.{first}.{p}", evs=EVS, bits_per_second=RATE_BPS) for p in range(1, PLANES + 1)
    ]


def link_rules() -> list[Rule]:
    return [
        Rule(
            plane=p,
            direction="tx",
            delay=DELAY_NS / 1e9,
            rate_bps=RATE_BPS,
            queue_bytes=QUEUE,
            ecn_bytes=MARK,
        )
        for p in range(1, PLANES + 1)
    ]


@contextmanager
def ends() -> Iterator[tuple[Endpoint, Endpoint]]:
    """Two endpoints behind links; no trimming, one packet a turn, as the simulator has it."""
    knobs: KnobArgs = {
        "pmtu": MTU,
        "linger": 1.0,
        "ev_run": 1,
        "base_rtt": 2 * DELAY_NS / 1e9,
        "delay_mark": 0.0,
        "reorder_min_time": REORDER_NS / 1e9,
        "min_ack_timeout": TIMER_NS / 1e9,
    }
    with Endpoint(*planes_of(41), seed=1, **knobs) as a, Endpoint(*planes_of(42), seed=2, **knobs) as b:
        a.impair(link_rules())
        b.impair(link_rules())
        yield a, b


def over_udp(a: Endpoint, b: Endpoint) -> Told:
    """Tell it over sockets, with the impairments of the driver."""
    size = END + (4 << 20)
    listener = b.listen(0, expose=bytearray(size))
    conn = a.connect_sync(f"127.0.42.{CLEAN[0]}", listener.port)
    server = listener.accept(20)
    paths = conn.stats().paths
    number = {(p.plane, p.ev): sum(q.plane == p.plane and q.ev < p.ev for q in paths) for p in paths}
    lossy = next(ev for (plane, ev), k in number.items() if (plane, k) == (LOSSY, 1))
    a.impair(Rule(plane=LOSSY, ev=lossy, direction="tx", drop=LOSS))
    region = conn.register(bytearray(size), writable=False)
    transfer = conn.write(region, conn.remote_window_sync(20))
    planes = range(1, PLANES + 1)
    rows: list[tuple[int, dict[int, float]]] = []
    bad: set[tuple[int, int]] = set()
    dark, stalled, looked = False, 0.0, time.monotonic()
    limit = looked + LIMIT_S
    while not transfer.wait(POLL_S):
        stalled, looked = max(stalled, time.monotonic() - looked - POLL_S), time.monotonic()
        assert looked < limit, f"{rows[-1:]} after {LIMIT_S} s"
        now = b.stats().plane_rx_bytes
        rows.append((server.stats().counters["rx.bytes_placed"], {p: float(now.get(p, 0)) for p in planes}))
        if not dark and rows[-1][0] >= CUT:
            a.impair(Rule(plane=DARK, down=True))
            dark = True
        for e in a.events():
            if e["kind"] == "ev_state" and e["state"] == "assumed_bad":
                bad.add((e["port"], number[(e["port"], e["ev"])]))
    assert transfer.result(0) == size
    counters = conn.stats().counters
    region.release()
    conn.close()
    return Told(bad, {k: counters[f"tx.rtx_{k}"] for k in KINDS}, *parted(rows), stalled)


def over_udp_undisturbed(expected: set[tuple[int, int]]) -> Told:
    """Tell it again when other paths were blamed while the host held the process back: up to five times."""
    for _ in range(5):
        with ends() as (a, b):
            told = over_udp(a, b)
        if told.out == expected or told.stalled_s < REORDER_NS / 2e9:
            break
    return told


@pytest.fixture(scope="module")
def virtual() -> Told:
    """The simulator's telling; it is the same every time."""
    return simulated()


@pytest.mark.timeout(240)
def test_both_tell_the_same_story(virtual: Told) -> None:
    everything = {(DARK, k) for k in range(EVS)} | {(LOSSY, 1)}
    assert virtual.out == everything
    real = over_udp_undisturbed(everything)
    assert real.out == everything
    assert virtual.main_cause == real.main_cause == "inferred"
    for told in (virtual, real):
        assert told.rtx["trimmed"] == 0
        # What was on the way at the cut, and the lossy path's share until it is out; then nothing but probes.
        assert 20 < told.rtx["inferred"] < 400
    assert virtual.goodput_ratio == pytest.approx((PLANES - 1) / PLANES, rel=0.05)
    assert real.goodput_ratio == pytest.approx(virtual.goodput_ratio, rel=0.1)


@pytest.mark.timeout(240)
def test_both_share_the_planes_in_the_same_way(virtual: Told) -> None:
    real = over_udp_undisturbed(virtual.out)
    for part in ("before", "after"):
        mine, theirs = getattr(virtual, part), getattr(real, part)
        for plane in range(1, PLANES + 1):
            one, other = mine[plane] / sum(mine.values()), theirs[plane] / sum(theirs.values())
            assert one == pytest.approx(other, abs=0.03), f"share of plane {plane} {part} the cut"
