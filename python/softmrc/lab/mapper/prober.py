"""Sends probes from the hosts of a lab through its own forwarding plane, and tells the locator what became of them.

Decides sockets, patience and the class of probes; which go is the schedule's. One process has the sockets of all
hosts; probes go in the control class, so that full queues do not look like loss. Over sockets of the kernel, probes of
a port go and come in bursts, a system call each: tens of thousands a second take a part of a core.
"""

from __future__ import annotations

import secrets
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING

from softmrc.errors import UsageError
from softmrc.lab.mapper.burst import Burst
from softmrc.lab.mapper.deny import deny
from softmrc.lab.mapper.locator import Change, Finding, Locator, window
from softmrc.lab.mapper.outcomes import Outcome
from softmrc.lab.mapper.routes import make_routes
from softmrc.lab.mapper.schedule import Schedule
from softmrc.lab.queue_spec import Dscps
from softmrc.lab.queues import lab_rtt
from softmrc.srv6 import Denylist

if TYPE_CHECKING:
    from softmrc.lab.lab import Lab
    from softmrc.lab.soft_port import SoftSocket

__all__ = ["RATE", "Prober"]

PORT = 40794
RATE = 800.0
"""Probes a second of the steady turn, in the whole lab."""
_RATES = (10.0, 100_000.0)
_HEADER = struct.Struct("!QI")
_BYTES = 64
_PATIENCE = 0.005
_LATE = 2.0
_TICK, _TICK_PROBES = 0.004, 64
"""Probes go in small groups, and their answers are looked for with the next, which take microseconds: seconds between
groups, or as many as take this many probes where that is less, but never less than half of it."""


@dataclass(slots=True)
class _Probe:
    number: int
    route: int
    sent: float
    due: float
    answered: bool = False
    given_up: Outcome | None = field(default=None)


class Prober:
    """Probes of a lab; a context manager. `run` yields what changes."""

    def __init__(self, lab: Lab, rate: float = RATE) -> None:
        """Prepare.

        Args:
            lab: in the kernel or in user space.
            rate: probes a second of the steady turn, 10 to 100000. Suspects get as many again at most.

        Raises:
            UsageError: rate out of range.
        """
        if not _RATES[0] <= rate <= _RATES[1]:
            raise UsageError(f"rate is {_RATES[0]:g} to {_RATES[1]:g} probes a second, not {rate:g}")
        self._lab, self._rate = lab, rate
        self._run_id = secrets.randbits(64)
        self._routes = make_routes(lab.spec.shape, lab.links)
        self._locator = Locator(lab.links, self._routes, window(rate))
        self._tick = min(_TICK, max(_TICK / 2, _TICK_PROBES / rate))
        self._wait = _PATIENCE + lab_rtt(lab.spec) + 12e-9 * lab.spec.delay_ns
        self._sockets: dict[tuple[str, int], socket.socket | SoftSocket] = {}
        self._burst = Burst([(r.address, PORT) for r in self._routes], self._run_id.to_bytes(8, "big"))
        self._fast: list[int] = []
        self._waiting: deque[_Probe] = deque()
        self._known: dict[int, _Probe] = {}
        self._old: deque[_Probe] = deque()
        self.sent = self.lost = 0

    def __enter__(self) -> Prober:
        """Open the sockets.

        Raises:
            MrcError: the port is in use: another prober is at work in this lab.
        """
        self._stack = ExitStack()
        try:
            self._select = self._stack.enter_context(selectors.DefaultSelector())
            for route in self._routes:
                for host in (route.src, route.dst):
                    if (host, route.plane) not in self._sockets:
                        self._open(host, route.plane)
        except BaseException:
            self._stack.close()
            raise
        self._schedule = Schedule(self._routes, self._rate, time.monotonic())
        return self

    def _open(self, host: str, plane: int) -> None:
        self._sockets[host, plane] = self._stack.enter_context(self._lab.socket(host, plane, PORT))
        at = self._sockets[host, plane]
        at.setblocking(False)
        at.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, Dscps().control << 2)
        if isinstance(at, socket.socket):
            self._fast.append(at.fileno())
        else:
            self._select.register(at, selectors.EVENT_READ)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close them."""
        self._stack.close()

    @property
    def findings(self) -> list[Finding]:
        """What is bad now, the worst first."""
        return self._locator.findings

    @property
    def silent(self) -> bool:
        """Whether nothing comes back at all: then nothing can be named."""
        return self._locator.silent

    def denylist(self) -> Denylist:
        """Return what endpoints should keep off now: all that is bad, but never the last way between two hosts."""
        return deny(self.findings, self._routes)

    @property
    def suspects(self) -> list[str]:
        """Names of elements that may be bad; not sure yet."""
        known = {f.name for f in self.findings}
        names = dict.fromkeys(c.candidate.element.name for c in self._locator.suspects)
        return [n for n in names if n not in known]

    def run(self, seconds: float | None = None) -> Iterator[Change | None]:
        """Probe; yield each change as it is noticed, and None between, many times a second.

        Args:
            seconds: for how long; None: until the caller stops asking.
        """
        end = None if seconds is None else time.monotonic() + seconds
        while (now := time.monotonic()) < (end or now + 1):
            self._send(self._schedule.take(now))
            time.sleep(max(0.0, now + self._tick - time.monotonic()))
            now = time.monotonic()
            self._collect()
            self._give_up(now)
            for change in self._locator.look(now):
                self._follow(change)
                yield change
            yield None

    def _follow(self, change: Change) -> None:
        finding = change.finding
        if change.what == "found":
            self._schedule.settle()
            self._schedule.watch(finding.name, [number for number, _, _ in finding.candidate.felt])
        elif change.what == "cleared":
            self._schedule.watch(finding.name, None)

    def _send(self, numbers: Sequence[int]) -> None:
        ports: dict[tuple[str, int], list[_Probe]] = {}
        now = time.monotonic()
        for number in numbers:
            route = self._routes[number]
            probe = _Probe(self.sent & 0xFFFFFFFF, number, now, now + self._wait)
            self.sent += 1
            ports.setdefault((route.src, route.plane), []).append(probe)
        for port, probes in ports.items():
            at = self._sockets[port]
            if isinstance(at, socket.socket):
                refused = set(self._burst.send(at.fileno(), [(p.route, p.number) for p in probes]))
            else:
                refused = self._send_each(at, probes)
            for probe in probes:
                if probe.number not in refused:
                    self._known[probe.number] = probe
                    self._waiting.append(probe)

    def _send_each(self, at: SoftSocket, probes: Sequence[_Probe]) -> set[int]:
        """Send probes on a socket of the user-space switch; returns the numbers of those it had no room for."""
        refused = set()
        for probe in probes:
            data = _HEADER.pack(self._run_id, probe.number).ljust(_BYTES, b"\0")
            try:
                at.sendto(data, (self._routes[probe.route].address, PORT))
            except BlockingIOError:
                refused.add(probe.number)
            except OSError:
                pass  # no way out of the host: its port is down, and this probe will not come back
        return refused

    def _collect(self) -> None:
        """Take what has arrived."""
        for fd in self._fast:
            for number in self._burst.receive(fd):
                self._answered(number)
        if self._select.get_map():
            for key, _ in self._select.select(0):
                self._drain(key.fileobj)  # type: ignore[arg-type]

    def _drain(self, at: SoftSocket) -> None:
        while True:
            try:
                data = at.recvmsg(256, 0)[0]
            except OSError:
                return
            if len(data) >= _HEADER.size:
                run, number = _HEADER.unpack_from(data)
                if run == self._run_id:
                    self._answered(number)

    def _answered(self, number: int) -> None:
        probe = self._known.get(number)
        if probe is None or probe.answered:
            return
        probe.answered = True
        if probe.given_up is not None:
            self._locator.revoke(probe.given_up)
            self.lost -= 1
        else:
            self._locator.add(probe.route, probe.sent, False)

    def _give_up(self, now: float) -> None:
        """Whatever had time enough to arrive, and was looked for, is lost."""
        while self._waiting and self._waiting[0].due <= now:
            probe = self._waiting.popleft()
            self._old.append(probe)
            if not probe.answered:
                self.lost += 1
                if not self._locator.explained(probe.route):
                    self._schedule.on_loss(probe.route, now)
                probe.given_up = self._locator.add(probe.route, probe.sent, True)
        while self._old and self._old[0].sent < now - _LATE:
            self._known.pop(self._old.popleft().number, None)
