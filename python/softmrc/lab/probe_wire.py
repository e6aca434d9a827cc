"""The packets of a check of all paths: sends them from each host's port, and says what arrived where and when.

What an arrival means is decided in `softmrc.lab.probe`.
"""

from __future__ import annotations

import itertools
import secrets
import selectors
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from softmrc.srv6 import Path

if TYPE_CHECKING:
    from softmrc.lab.lab import Lab

__all__ = ["HOP_LIMIT", "Arrival", "Way", "Wire"]

HOP_LIMIT = 64
_PORT = 40793
_HEADER = struct.Struct("!QI")


@dataclass(frozen=True)
class Way:
    """One path of an ordered pair of hosts; `number` is its place among all."""

    number: int
    src: str
    dst: str
    path: Path

    def switches(self) -> set[str]:
        """Return the names of the switches it passes."""
        return {f"p{self.path.plane}.{s}" for s in self.path.switches}


@dataclass(frozen=True)
class Arrival:
    """A packet that came.

    Attributes:
        number: that it was sent with.
        host, plane: where it came.
        hop_limit: what was left of it.
        trip_s: seconds since it was sent.
    """

    number: int
    host: str
    plane: int
    hop_limit: int
    trip_s: float


class Wire:
    """A socket at each port of each host; a context manager."""

    def __init__(self, lab: Lab) -> None:
        """Take the lab; entering the context opens the sockets."""
        self._lab = lab
        self._run = secrets.randbits(64)
        self._sent_at: dict[int, float] = {}

    def __enter__(self) -> Wire:
        """Open the sockets.

        Raises:
            MrcError: a host's port is in use.
        """
        self._stack = ExitStack()
        try:
            self._select = self._stack.enter_context(selectors.DefaultSelector())
            self._sockets: dict[tuple[str, int], socket.socket] = {}
            for host in self._lab.hosts:
                for link in self._lab.links_of(host):
                    at = self._stack.enter_context(self._lab.socket(host, link.plane, _PORT))
                    at.setblocking(False)
                    at.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
                    self._sockets[host, link.plane] = at
                    self._select.register(at, selectors.EVENT_READ, (host, link.plane))
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Close the sockets."""
        self._stack.close()

    def send(self, number: int, way: Way, size: int) -> str | None:
        """Send a packet of `size` bytes behind the UDP header; returns why not, or None."""
        at = self._sockets.get((way.src, way.path.plane))
        if at is None:
            return "the host has no port in this plane"
        data = _HEADER.pack(self._run, number).ljust(size, b"\0")
        self._sent_at[number] = time.monotonic()
        try:
            at.sendto(data, (way.path.address, _PORT))
        except OSError as error:
            return f"cannot be sent: {error.strerror}"
        return None

    def receive(self, expected: set[int], wait_s: float) -> list[Arrival]:
        """Return what arrives, late packets of before included, until all `expected` have or the time is over."""
        arrived: list[Arrival] = []
        missing = set(expected)
        deadline = time.monotonic() + wait_s
        while missing and (left := deadline - time.monotonic()) > 0:
            for key, _ in self._select.select(left):
                now, (host, plane) = time.monotonic(), key.data
                for number, hop_limit in self._drain(key.fileobj):  # type: ignore[arg-type]
                    if number in self._sent_at:
                        arrived.append(Arrival(number, host, plane, hop_limit, now - self._sent_at[number]))
                        missing.discard(number)
        return arrived

    def _drain(self, at: socket.socket) -> Iterator[tuple[int, int]]:
        for _ in itertools.count():
            try:
                data, extra, _, _ = at.recvmsg(65535, socket.CMSG_SPACE(4))
            except OSError:  # empty, or an ICMP error of an earlier probe
                return
            if len(data) < _HEADER.size:
                continue
            run, number = _HEADER.unpack_from(data)
            hops = [int.from_bytes(d[:4], "little") for _, kind, d in extra if kind == socket.IPV6_HOPLIMIT]
            if run == self._run and hops:
                yield number, hops[0]
