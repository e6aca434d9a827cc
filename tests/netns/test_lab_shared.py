"""A plane shared with traffic that knows one path only: B63 with TCP, over a lab with endpoints in its hosts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from socket import AF_INET6, SOCK_STREAM, SOL_SOCKET, socket
from threading import Event, Thread

import pytest
from tests.netns.test_lab_paths import Across, total

from softmrc.lab import Lab
from softmrc.netns.enter import entered

RATE, PLANES = 50_000_000, 4
SO_MAX_PACING_RATE = 47  # <asm-generic/socket.h>; not among Python's names


@pytest.fixture(scope="module")
def four(lab_maker: Callable[..., Lab]) -> Lab:
    """Four planes of 50 Mbit/s, two T0s, four T1s, four hosts."""
    return lab_maker(planes=PLANES, t0=2, t1=4, hosts=4, rate_bps=RATE, switch="kernel")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


class Flow:
    """TCP from h1 to h3 in plane 1, paced."""

    def __init__(self, lab: Lab, stack: ExitStack, rate_bps: int) -> None:
        self.bytes = 0
        address = lab.addresses("h3")[0]
        with entered(lab.namespace("h3")):
            door = stack.enter_context(socket(AF_INET6, SOCK_STREAM))
            door.bind((address, 0))
            door.listen()
        with entered(lab.namespace("h1")):
            self._out = stack.enter_context(socket(AF_INET6, SOCK_STREAM))
        self._out.setsockopt(SOL_SOCKET, SO_MAX_PACING_RATE, rate_bps // 8)
        self._out.connect(door.getsockname())
        self._in = stack.enter_context(door.accept()[0])
        self._stop = Event()
        threads = [Thread(target=self._send), Thread(target=self._receive)]
        for thread in threads:
            thread.start()
        for thread in threads:
            stack.callback(thread.join)
        stack.callback(self._stop.set)

    def _send(self) -> None:
        while not self._stop.is_set():
            self._out.sendall(bytes(20000))
        self._out.close()

    def _receive(self) -> None:
        while data := self._in.recv(1 << 16):
            self.bytes += len(data)

    def rate(self, seconds: float) -> float:
        before, began = self.bytes, time.monotonic()
        time.sleep(seconds)
        return 8 * (self.bytes - before) / (time.monotonic() - began)


def test_a_tcp_flow_on_one_plane_slows_that_plane_alone_and_keeps_its_rate(
    four: Lab, stack: ExitStack
) -> None:
    """B63: it takes half of plane 1 towards the same host; who sprays takes the rest of it, and the other planes."""
    flow = Flow(four, stack, RATE // 2)
    time.sleep(0.5)
    alone = flow.rate(1.0)
    assert alone > 0.8 * RATE / 2
    across = Across(four, stack)
    across.stream()
    time.sleep(1.0)
    before = flow.bytes
    began = time.monotonic()
    during = across.rates(3.0)
    beside = 8 * (flow.bytes - before) / (time.monotonic() - began)
    of = {plane: statistics.median(b[plane] for b in during) for plane in during[0]}
    assert total(during) > 0.9 * RATE * (PLANES - 0.5)
    assert min(rate for plane, rate in of.items() if plane != "1") > 0.85 * RATE
    assert 0.3 * RATE < of["1"] < 0.75 * RATE
    assert beside > 0.5 * alone
