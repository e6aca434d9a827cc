"""Checks every path: does what is sent along it arrive, and does it pass exactly the switches that it names.

Which packet passed which switch is read from the switches' counters, many paths at a time: each packet of a round has
its own power of two of bytes more than the shortest, so the bytes that a switch has counted tell the set of packets.

What looks wrong is tried again. Paths along which nothing came need no counters to be heard, so they are tried
together; the others, whose sums may have been spoilt, at last one in each plane at a time: no packet passes switches of
two planes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from softmrc.lab.counters import Count
from softmrc.lab.probe_wire import HOP_LIMIT, Arrival, Way, Wire
from softmrc.srv6 import Path

if TYPE_CHECKING:
    from softmrc.lab.lab import Lab

__all__ = ["Check", "Failure", "Probed", "probe"]

_SHORTEST = 64
_IP_UDP = 48
_TRIES = 3
_UNHEARD_AT_ONCE = 128  # in a plane: some 15 kB, which queues and socket buffers take
_PATIENCE_TRIPS = 4  # a packet that takes so many times the slowest trip of late is waited for later, not now
_PATIENCE_LEAST_S = 0.2  # more than a busy machine keeps a process from running


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


class _Carrier(Protocol):
    """What sends and receives; see `softmrc.lab.probe_wire.Wire`."""

    def send(self, number: int, way: Way, size: int) -> str | None: ...

    def receive(self, expected: set[int], wait_s: float) -> list[Arrival]: ...


@dataclass(frozen=True)
class _Wrong:
    """Why a path is not as it should be, and whether anything came along it."""

    why: str
    heard: bool = True


def _silent(_: str) -> None:
    pass


def probe(lab: Lab, *, wait_s: float = 1.0, step: Callable[[str], None] = _silent) -> Probed:
    """Check all paths of a lab.

    Args:
        lab: the lab; other traffic on it disturbs the counters, and the paths it shares are told as such.
        wait_s: how long a probe may take, seconds; a path fails only if it had so long.
        step: told how far the check is, in words.

    Raises:
        MrcError: a host's port is in use, or the system refused to tell the counters.
    """
    began = time.monotonic()
    with Wire(lab) as wire:
        result = Check(lab, wire, wait_s).run(step)
    result.seconds = time.monotonic() - began
    return result


class Check:
    """The course of a check: a sweep over all paths, then further tries of those that look wrong."""

    def __init__(self, lab: Lab, wire: _Carrier, wait_s: float) -> None:
        """Take what carries the packets, and how long one may take, seconds."""
        self._lab, self._wire, self._wait = lab, wire, wait_s
        self._at_once = (lab.spec.mtu - _IP_UDP - _SHORTEST).bit_length() - 1
        self._result = Probed()
        self._sent: list[Way] = []
        self._slowest_s: float | None = None

    @property
    def patience_s(self) -> float:
        """How long a round waits for what may still be tried again: by the trips of the last round with any."""
        if self._slowest_s is None:
            return self._wait
        return min(self._wait, max(_PATIENCE_LEAST_S, _PATIENCE_TRIPS * self._slowest_s))

    def run(self, step: Callable[[str], None] = _silent) -> Probed:
        """Check all paths; `step` is told how far it is.

        Raises:
            MrcError: the system refused to tell the counters.
        """
        pairs = [(a, b) for a in self._lab.hosts for b in self._lab.hosts if a != b]
        found = ((a, b, p) for a, b in pairs for p in self._lab.paths(a, b))
        ways = [Way(n, a, b, p) for n, (a, b, p) in enumerate(found)]
        wrong: dict[Way, _Wrong] = {}
        done = 0
        for batch in _batches(ways, self._at_once):
            wrong |= self._round(batch, self.patience_s)
            done += len(batch)
            step(f"{done} of {len(ways)} paths")
        unheard = self._unheard([way for way in wrong if not wrong[way].heard], step)
        failed = unheard | self._suspects([way for way in wrong if way not in unheard], step)
        self._result.paths_total = len(ways)
        self._result.paths_ok = len(ways) - len(failed)
        self._result.failures = [
            Failure(way.src, way.dst, way.path, failed[way].why) for way in ways if way in failed
        ]
        return self._result

    def _unheard(self, ways: list[Way], step: Callable[[str], None]) -> dict[Way, _Wrong]:
        """Try paths along which nothing came again, many at once; returns those along which still nothing comes."""
        left: dict[Way, _Wrong] = {}
        for attempt in range(1, _TRIES + 1):
            left = {}
            for batch in _batches(ways, _UNHEARD_AT_ONCE):
                step(f"paths along which nothing arrived: {len(ways)}; try {attempt} of {_TRIES}")
                wait = self._wait if attempt == _TRIES else self.patience_s
                bad, arrived = self._exchange(dict.fromkeys(batch, _SHORTEST), wait)
                # A late packet of an earlier try is an answer, too.
                answered = {self._sent[a.number] for a in arrived}
                left |= {way: what for way, what in bad.items() if way not in answered}
            ways = list(left)
        return left

    def _suspects(self, ways: list[Way], step: Callable[[str], None]) -> dict[Way, _Wrong]:
        """Try paths again whose packets come, with their counters; returns those that are not as they should be."""
        left: dict[Way, _Wrong] = {}
        for attempt in range(_TRIES + 1):
            left, done = {}, 0
            for batch in _batches(ways, 1 if attempt else self._at_once):
                left |= self._round(batch, self._wait if attempt == _TRIES else self.patience_s)
                done += len(batch)
                step(f"{done} of {len(ways)} paths again")
            ways = list(left)
        return left

    def _round(self, batch: list[Way], wait_s: float) -> dict[Way, _Wrong]:
        """Send one packet along each path; returns those that are not as they should be, and why."""
        place: dict[int, int] = {}
        bits = {}
        for way in batch:
            bits[way] = place.get(way.path.plane, 0)
            place[way.path.plane] = bits[way] + 1
        before = self._lab.counters()
        wrong, arrived = self._exchange({way: _SHORTEST + (1 << bit) for way, bit in bits.items()}, wait_s)
        hops = {self._sent[a.number]: HOP_LIMIT - a.hop_limit for a in arrived}
        for way in batch:
            if way not in wrong and hops[way] != len(way.path.switches):
                wrong[way] = _Wrong(f"passed {hops[way]} switches, not {len(way.path.switches)}")
        after = self._lab.counters()
        for name, count in after.items():
            self._judge(name, count - before[name], bits, wrong)
        return wrong

    def _exchange(self, sizes: dict[Way, int], wait_s: float) -> tuple[dict[Way, _Wrong], list[Arrival]]:
        """Send packets of these sizes; returns the paths of those that did not come, and all that came to its place.

        Among what came may be packets of earlier exchanges.
        """
        wrong: dict[Way, _Wrong] = {}
        numbers: dict[int, Way] = {}
        for way, size in sizes.items():
            number = len(self._sent)
            self._sent.append(way)
            why = self._wire.send(number, way, size)
            if why is None:
                numbers[number] = way
                self._result.sent += 1
            else:
                wrong[way] = _Wrong(why, heard=False)
        arrived = [a for a in self._wire.receive(set(numbers), wait_s) if _in_place(a, self._sent[a.number])]
        if arrived:
            self._slowest_s = max(a.trip_s for a in arrived)
        here = {a.number for a in arrived}
        for number, way in numbers.items():
            if number not in here:
                self._result.lost += 1
                wrong[way] = _Wrong("nothing arrives", heard=False)
        return wrong, arrived

    def _judge(self, name: str, count: Count, bits: dict[Way, int], wrong: dict[Way, _Wrong]) -> None:
        """Compare what a switch has counted with the paths that name it."""
        plane = name.partition(".")[0]
        mine = {w: b for w, b in bits.items() if f"p{w.path.plane}" == plane}
        passed = count.bytes - count.packets * (_IP_UDP + _SHORTEST)
        clear = passed >= 0 and passed.bit_count() == count.packets and passed >> self._at_once + 1 == 0
        for way, bit in mine.items():
            should = name in way.switches()
            if not clear and way not in wrong:
                wrong[way] = _Wrong(
                    f"{name} counted {count.packets} packets and {count.bytes} bytes: other traffic"
                )
            elif clear and bool(passed >> bit & 1) != should and way not in wrong:
                wrong[way] = _Wrong(f"{'did not pass' if should else 'passed'} {name}")


def _in_place(arrival: Arrival, way: Way) -> bool:
    return (arrival.host, arrival.plane) == (way.dst, way.path.plane)


def _batches(ways: Iterable[Way], at_once: int) -> Iterator[list[Way]]:
    """Split paths so that none has more than `at_once` in a plane."""
    planes: dict[int, list[Way]] = {}
    for way in ways:
        planes.setdefault(way.path.plane, []).append(way)
    most = max((len(p) for p in planes.values()), default=0)
    for first in range(0, most, at_once):
        yield [way for some in planes.values() for way in some[first : first + at_once]]
