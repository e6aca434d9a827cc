"""Datagrams in bursts, over the loopback device: each arrives with its number, whatever is not ours is passed over."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from softmrc.lab.mapper.burst import Burst

HEAD = b"ours-ours"


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    with (
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as one,
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as other,
    ):
        for each in (one, other):
            try:
                each.bind(("::1", 0))
            except OSError:
                pytest.skip("no IPv6 on the loopback device")
        yield one, other


def _all(burst: Burst, at: socket.socket, count: int) -> list[int]:
    found: list[int] = []
    end = time.monotonic() + 10
    while len(found) < count and time.monotonic() < end:
        found += burst.receive(at.fileno())
    return found


def test_each_goes_to_its_address_with_its_number(sockets: tuple[socket.socket, socket.socket]) -> None:
    one, other = sockets
    burst = Burst([one.getsockname()[:2], other.getsockname()[:2]], HEAD)
    probes = [(n % 2, 1000 + n) for n in range(150)]
    assert burst.send(one.fileno(), probes) == []
    assert sorted(_all(burst, one, 75)) == [1000 + n for n in range(0, 150, 2)]
    assert sorted(_all(burst, other, 75)) == [1000 + n for n in range(1, 150, 2)]
    assert burst.receive(one.fileno()) == []


def test_what_is_not_ours_is_passed_over(sockets: tuple[socket.socket, socket.socket]) -> None:
    one, other = sockets
    burst = Burst([other.getsockname()[:2]], HEAD)
    for data in (b"", HEAD, b"theirs-theirs-theirs", HEAD + b"abc"):
        one.sendto(data, other.getsockname())
    burst.send(one.fileno(), [(0, 7)])
    one.sendto(HEAD + b"\0\0\0\x08" + bytes(500), other.getsockname())
    assert _all(burst, other, 2) == [7, 8]


def test_an_address_without_a_way_hinders_no_other(sockets: tuple[socket.socket, socket.socket]) -> None:
    one, other = sockets
    burst = Burst([other.getsockname()[:2], ("fc00:dead::1", 9)], HEAD)
    assert burst.send(one.fileno(), [(0, 1), (1, 2), (1, 3), (0, 4)]) == []
    assert _all(burst, other, 2) == [1, 4]


def test_a_closed_socket_is_told() -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as gone:
        number = gone.detach()
    socket.close(number)
    with pytest.raises(OSError, match="Bad file descriptor"):
        Burst([], HEAD).receive(number)
