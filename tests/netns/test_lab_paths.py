"""Field cases of fabrics: B04, B61 to B64, over uSID paths of a lab with endpoints in its hosts."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from random import Random
from socket import AF_INET6, SOCK_DGRAM, socket
from threading import Event, Thread
from typing import Any

import pytest
from tests.netns.conftest import Host

from softmrc.lab import Lab, faults
from softmrc.netns.enter import entered

RATE, PLANES = 50_000_000, 4


@pytest.fixture(scope="module")
def four(lab_maker: Callable[..., Lab]) -> Lab:
    """Four planes of 50 Mbit/s, two T0s, four T1s, four hosts."""
    return lab_maker(planes=PLANES, t0=2, t1=4, hosts=4, rate_bps=RATE, switch="kernel")


@pytest.fixture(autouse=True)
def _healed(four: Lab) -> Iterator[None]:
    yield
    faults.heal(four)


class At:
    """A host of a lab, where tests expect a namespace."""

    def __init__(self, lab: Lab, host: str) -> None:
        self.lab, self.host = lab, host

    def popen(self, *command: str, **options: Any) -> Any:
        return self.lab.popen(self.host, *command, **options)


class Across:
    """A connection from h0 to h3, through both T0s, and a stream on it."""

    def __init__(self, lab: Lab, stack: ExitStack, **knobs: Any) -> None:
        self.a, self.b = (Host(At(lab, name)) for name in ("h0", "h3"))  # type: ignore[arg-type]
        for host in (self.a, self.b):
            stack.callback(host.process.wait)
            stack.callback(host.process.kill)
        self.b.ask("open", *lab.addresses("h3"), **knobs)
        self.a.ask("open", *lab.addresses("h0"), **knobs)
        port = self.b.ask("listen", 4 << 20)
        self.conn = self.a.ask("connect", lab.addresses("h3"), port)

    def stream(self) -> int:
        return int(self.a.ask("stream", self.conn))

    def rates(self, seconds: float, width: float = 0.25) -> list[dict[str, float]]:
        """Bit/s that arrive on each plane, in bins."""
        looks = [self.b.ask("plane_rx")]
        for _ in range(round(seconds / width)):
            time.sleep(width)
            looks.append(self.b.ask("plane_rx"))
        return [
            {p: 8 * (y["bytes"][p] - x["bytes"][p]) / (y["time"] - x["time"]) for p in y["bytes"]}
            for x, y in pairwise(looks)
        ]

    def paths(self) -> list[dict[str, Any]]:
        return list(self.a.ask("paths", self.conn))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def total(bins: list[dict[str, float]]) -> float:
    return statistics.median(sum(b.values()) for b in bins)


@pytest.mark.parametrize("outage", [2.0])
def test_a_connection_waits_for_all_ports_of_a_host(four: Lab, stack: ExitStack, outage: float) -> None:
    """B61: the shared transceiver is gone; within the hold time nothing fails, and all of it is used again."""
    across = Across(four, stack)
    stream = across.stream()
    time.sleep(0.5)
    before = total(across.rates(1.0))
    faults.fail(four, "h0.nic")
    time.sleep(0.3)
    assert total(across.rates(outage - 0.3)) < 0.01 * before
    faults.heal(four)
    time.sleep(1.0)
    after = across.rates(1.5)
    assert total(after) > 0.9 * before
    assert all(rate > 0.15 * before for rate in after[-1].values())
    assert across.a.ask("moved", stream)["error"] == ""


def test_ports_gone_for_longer_than_the_hold_time_are_one_clear_error(four: Lab, stack: ExitStack) -> None:
    """B61."""
    across = Across(four, stack, hold_time=0.8)
    stream = across.stream()
    time.sleep(0.5)
    faults.fail(four, "h0.nic")
    deadline = time.monotonic() + 20
    while not (error := across.a.ask("moved", stream)["error"]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert "h3" in error or four.addresses("h3")[0] in error
    assert len(error.splitlines()) == 1


def test_a_host_link_that_loses_a_little_costs_no_more_than_itself(four: Lab, stack: ExitStack) -> None:
    """B62: 2 % loss on one port of the receiver."""
    across = Across(four, stack)
    across.stream()
    time.sleep(0.5)
    before = total(across.rates(1.0))
    faults.fail(four, "h3.p1", loss=0.02)
    time.sleep(0.3)
    during = across.rates(2.5)
    assert total(during) > 0.9 * before * (PLANES - 1) / PLANES
    # The loss is where it is: no path of another plane has lost anything to speak of.
    lost = Counter[int]()
    for path in across.paths():
        lost[path["plane"]] += path["lost"]
    assert lost[1] > 0
    assert sum(lost.values()) - lost[1] <= lost[1] / 4 + 2


def test_other_traffic_on_one_plane_slows_that_plane_alone(four: Lab, stack: ExitStack) -> None:
    """B63: a single-path flow takes half of a plane towards the same host.

    The policy is the reference's, equal turns of the planes; a port that takes nothing is passed over, so the others go
    on at their own rate, and the counters show which plane is uneven.
    """
    across = Across(four, stack)
    across.stream()
    time.sleep(0.5)
    before = across.rates(1.0)
    faults.fail(four, "h1.p1", rate=0.5, direction="up")
    with entered(four.namespace("h1")):
        out = stack.enter_context(socket(AF_INET6, SOCK_DGRAM))
    stop = Event()
    stack.callback(stop.set)
    to = (four.addresses("h3")[0], 9)

    def blow() -> None:
        while not stop.is_set():
            out.sendto(bytes(4000), to)

    thread = Thread(target=blow)
    thread.start()
    stack.callback(thread.join)
    stack.callback(stop.set)
    time.sleep(0.5)
    during = across.rates(2.0)
    assert total(during) > 0.9 * total(before) * (PLANES - 0.5) / PLANES
    of = {plane: statistics.median(b[plane] for b in during) for plane in during[0]}
    assert of["1"] < 0.7 * RATE
    assert min(rate for plane, rate in of.items() if plane != "1") > 0.85 * RATE


def test_a_cold_start_with_dead_links_costs_few_packets(four: Lab, stack: ExitStack) -> None:
    """B64: one in ten links between switches is down before anybody connects."""
    rng = Random(4)
    dead = rng.sample([link.name for link in four.links if link.kind == "fabric"], 3)
    for link in dead:
        faults.fail(four, link)
    across = Across(four, stack)
    across.stream()
    time.sleep(2.0)
    begin = sum(p["lost"] for p in across.paths())
    # What the first window puts on a dead path before it is known: some 5 packets a path, then no more.
    assert begin < 12 * len(dead)
    assert all(
        p["state"] in ("good", "skip") for p in across.paths() if p["active"] and not _over(p["path"], dead)
    )
    over = total(across.rates(1.0))
    assert over > 0.85 * PLANES * RATE
    assert sum(p["lost"] for p in across.paths()) - begin <= 3


def _over(path: str, links: list[str]) -> bool:
    """Whether a path ("p2 t0-0 t1-3 t0-1") uses one of these links (p2.t0-0.t1-3)."""
    plane, *switches = path.split()
    hops = {frozenset(pair) for pair in pairwise(switches)}
    return any(link.split(".")[0] == plane and frozenset(link.split(".")[1:]) in hops for link in links)


def test_a_t1_that_forwards_nothing_is_left_at_once(four: Lab, stack: ExitStack) -> None:
    """B04: a silent black hole in the middle, then healed."""
    across = Across(four, stack)
    across.stream()
    time.sleep(0.5)
    before = total(across.rates(1.0))
    faults.fail(four, "p1.t1-1", silent=True)
    during = across.rates(2.0)
    assert total(during) > 0.93 * before
    assert min(sum(b.values()) for b in during) > 0.5 * before
    bad = {p["path"] for p in across.paths() if p["state"] == "assumed_bad"}
    assert bad <= {"p1 t0-0 t1-1 t0-1"}
    faults.heal(four)
    deadline = time.monotonic() + 20
    while any(p["state"] == "assumed_bad" for p in across.paths()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert {p["state"] for p in across.paths()} <= {"good", "skip"}
