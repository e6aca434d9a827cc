"""Checks every path: does what is sent along it arrive, and does it pass exactly the switches that it names.

Which packet passed which switch is read from the switches' counters, many paths at a time: each packet of a round has
its own power of two of bytes more than the shortest, so the bytes that a switch has counted tell the set of packets.
"""

from __future__ import annotations

import itertools
import secrets
import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from softmrc.lab.counters import Count
from softmrc.srv6 import Path

if TYPE_CHECKING:
    from softmrc.lab.lab import Lab

__all__ = ["Failure", "Probed", "probe"]

PORT = 40793
_HEADER = struct.Struct("!QI")
_SHORTEST = 64
_IP_UDP = 48
_TRIES = 3
_HOP_LIMIT = 64


@dataclass(frozen=True)
class Failure:
    """A path that is not as it should be."""

    src: str
    dst: str
    path: Path
    why: str

    @property
    def words(self) -> str:
        """The path and the reason, for people."""
        return f"{self.src} to {self.dst} by {self.path.name}: {self.why}"


@dataclass
class Probed:
    """What a check found.

    Attributes:
        paths_total, paths_ok: paths of all ordered pairs of hosts in all planes.
        failures: the others.
        sent, lost: probes, and those that did not arrive; a path is tried again.
        seconds: of the whole check.
    """

    paths_total: int = 0
    paths_ok: int = 0
    failures: list[Failure] = field(default_factory=list)
    sent: int = 0
    lost: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class _Way:
    number: int
    src: str
    dst: str
    path: Path

    def switches(self) -> set[str]:
        return {f"p{self.path.plane}.{s}" for s in self.path.switches}


def probe(
    lab: Lab, *, wait_s: float = 1.0, step: Callable[[int, int], None] = lambda done, total: None
) -> Probed:
    """Check all paths of a lab.

    Args:
        lab: the lab; other traffic on it disturbs the counters, and the paths it shares are told as such.
        wait_s: how long a probe may take.
        step: told how many paths are done, and how many there are.

    Raises:
        MrcError: a host's port is in use, or the system refused to tell the counters.
    """
    began = time.monotonic()
    with _Probe(lab, wait_s) as work:
        result = work.run(step)
    result.seconds = time.monotonic() - began
    return result


class _Probe:
    """The sockets of a check."""

    def __init__(self, lab: Lab, wait_s: float) -> None:
        self._lab, self._wait = lab, wait_s
        self._run = secrets.randbits(64)
        self._at_once = (lab.spec.mtu - _IP_UDP - _SHORTEST).bit_length() - 1
        self._result = Probed()

    def __enter__(self) -> _Probe:
        self._stack = ExitStack()
        try:
            self._select = self._stack.enter_context(selectors.DefaultSelector())
            self._sockets: dict[tuple[str, int], socket.socket] = {}
            for host in self._lab.hosts:
                for link in self._lab.links_of(host):
                    at = self._stack.enter_context(self._lab.socket(host, link.plane, PORT))
                    at.setblocking(False)
                    at.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
                    self._sockets[host, link.plane] = at
                    self._select.register(at, selectors.EVENT_READ, (host, link.plane))
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, step: Callable[[int, int], None]) -> Probed:
        pairs = [(a, b) for a in self._lab.hosts for b in self._lab.hosts if a != b]
        found = ((a, b, p) for a, b in pairs for p in self._lab.paths(a, b))
        ways = [_Way(n, a, b, p) for n, (a, b, p) in enumerate(found)]
        self._result.paths_total = len(ways)
        done = 0
        for batch in _batches(ways, self._at_once):
            wrong = self._round(batch)
            for way in batch:
                if way in wrong:
                    self._alone(way)
                else:
                    self._result.paths_ok += 1
            done += len(batch)
            step(done, len(ways))
        return self._result

    def _alone(self, way: _Way) -> None:
        """Try a path again, with nothing else under way."""
        why = ""
        for _ in range(_TRIES):
            wrong = self._round([way])
            if way not in wrong:
                self._result.paths_ok += 1
                return
            why = wrong[way]
        self._result.failures.append(Failure(way.src, way.dst, way.path, why))

    def _round(self, batch: list[_Way]) -> dict[_Way, str]:
        """Send one packet along each path; returns those that are not as they should be, and why."""
        place: dict[int, int] = {}
        bits = {}
        for way in batch:
            bits[way] = place.get(way.path.plane, 0)
            place[way.path.plane] = bits[way] + 1
        before = self._lab.counters()
        wrong = {
            way: why for way in batch if (why := self._send(way, _SHORTEST + (1 << bits[way]))) is not None
        }
        arrived = self._receive({way.number: way for way in batch if way not in wrong})
        for way in batch:
            if way in wrong:
                continue
            if way.number not in arrived:
                self._result.lost += 1
                wrong[way] = "nothing arrives"
            elif arrived[way.number] != _HOP_LIMIT - len(way.path.switches):
                wrong[way] = (
                    f"passed {_HOP_LIMIT - arrived[way.number]} switches, not {len(way.path.switches)}"
                )
        after = self._lab.counters()
        for name, count in after.items():
            self._judge(name, count - before[name], bits, wrong)
        return wrong

    def _judge(self, name: str, count: Count, bits: dict[_Way, int], wrong: dict[_Way, str]) -> None:
        """Compare what a switch has counted with the paths that name it."""
        plane = name.partition(".")[0]
        mine = {w: b for w, b in bits.items() if f"p{w.path.plane}" == plane}
        passed = count.bytes - count.packets * (_IP_UDP + _SHORTEST)
        clear = passed >= 0 and passed.bit_count() == count.packets and passed >> self._at_once + 1 == 0
        for way, bit in mine.items():
            should = name in way.switches()
            if not clear and way not in wrong:
                wrong[way] = f"{name} counted {count.packets} packets and {count.bytes} bytes: other traffic"
            elif clear and bool(passed >> bit & 1) != should and way not in wrong:
                wrong[way] = f"{'did not pass' if should else 'passed'} {name}"

    def _send(self, way: _Way, size: int) -> str | None:
        at = self._sockets.get((way.src, way.path.plane))
        if at is None:
            return "the host has no port in this plane"
        data = _HEADER.pack(self._run, way.number).ljust(size, b"\0")
        try:
            at.sendto(data, (way.path.address, PORT))
        except OSError as error:
            return f"cannot be sent: {error.strerror}"
        self._result.sent += 1
        return None

    def _receive(self, expected: dict[int, _Way]) -> dict[int, int]:
        """Return the hop limits of the probes that arrived where they should, by number."""
        arrived: dict[int, int] = {}
        deadline = time.monotonic() + self._wait
        while len(arrived) < len(expected) and (left := deadline - time.monotonic()) > 0:
            for key, _ in self._select.select(left):
                for number, hop_limit in self._drain(key.fileobj):  # type: ignore[arg-type]
                    way = expected.get(number)
                    if way is not None and key.data == (way.dst, way.path.plane):
                        arrived[number] = hop_limit
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


def _batches(ways: list[_Way], at_once: int) -> Iterator[list[_Way]]:
    """Split paths so that none has more than `at_once` in a plane."""
    planes: dict[int, list[_Way]] = {}
    for way in ways:
        planes.setdefault(way.path.plane, []).append(way)
    most = max((len(p) for p in planes.values()), default=0)
    for first in range(0, most, at_once):
        yield [way for some in planes.values() for way in some[first : first + at_once]]
