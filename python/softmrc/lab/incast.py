"""Several hosts write to one at the same time, as fast as they may: what becomes of the packets that find no room.

Run on a lab of its own, once with trimming and once without. Counted are: in the switches, packets trimmed and dropped;
at the receiver, trimmed headers that arrived and NACKs; at the senders, paths that were blamed.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from softmrc.endpoint import KnobArgs
from softmrc.errors import MrcError
from softmrc.lab.lab import Lab
from softmrc.lab.ports import PortCounters
from softmrc.lab.queues import QueueReader, why_no_trimming
from softmrc.lab.spec import LabSpec

__all__ = ["Incast", "Outcome", "run_incast"]

_HEADERS = 92 + 14  # IPv6, UDP and MRC around a payload (reference 2.1), and Ethernet
_LEAST_TRIMMED = 0.99
_LEAST_GOODPUT = 0.90
_LOOK_S = 0.25


@dataclass(frozen=True, kw_only=True)
class Incast:
    """What is run.

    Attributes:
        senders: hosts that send; one more receives.
        planes: of the fabric.
        rate_bps: of every link.
        seconds: measured, after `warm` seconds in which windows find their size.
        warm: seconds.
        name: of the lab, which is made for this and removed.
        knobs: of all endpoints.
        switch: "kernel", "soft" or "auto".
    """

    senders: int = 8
    planes: int = 4
    rate_bps: int = 200_000_000
    seconds: float = 6.0
    warm: float = 1.5
    name: str = "incast"
    knobs: KnobArgs = field(default_factory=lambda: KnobArgs())
    switch: str = "auto"

    def spec(self, trimming: bool) -> LabSpec:
        """Return its lab: three T0s, not oversubscribed."""
        hosts = self.senders + 1
        each = -(-hosts // 3)
        return LabSpec(
            name=self.name, planes=self.planes, hosts=hosts, hosts_per_t0=each, t0=-(-hosts // each), t1=each,
            rate_bps=self.rate_bps, trimming=trimming, switch=self.switch,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one run.

    Attributes:
        trimming: whether the switches trim; "" or why they do not.
        goodput_bps: bytes that senders know to have arrived, by time, after the warm-up.
        bottleneck_bps: payload that the receiver's ports can take.
        trimmed, dropped: packets that found no room in a switch, from the first on.
        marked: packets marked in switches.
        headers: trimmed headers that reached the receiver.
        nacks: sent for them; a header of a packet that came in the meantime needs none.
        unsaid: SACKs and NACKs that the receiver had no room to keep until it could send them.
        repeated: packets sent again because of a NACK.
        timeouts: packets sent again because a timer ran out.
        assumed_bad: times that a path was taken for dead.
        why: reasons of these.
        receiver_drops: packets that the receiver's socket had no room for.
        seconds: measured.
        errors: of senders.
    """

    trimming: str
    goodput_bps: float
    bottleneck_bps: float
    trimmed: int
    dropped: int
    marked: int
    headers: int
    nacks: int
    unsaid: int
    repeated: int
    timeouts: int
    assumed_bad: int
    why: dict[str, int]
    receiver_drops: int
    seconds: float
    errors: list[str]

    @property
    def goodput_share(self) -> float:
        """Goodput as a share of the bottleneck."""
        return self.goodput_bps / self.bottleneck_bps

    @property
    def trimmed_share(self) -> float:
        """Share of the packets without room that became headers; NaN when there were none."""
        lost = self.trimmed + self.dropped
        return self.trimmed / lost if lost else float("nan")

    @property
    def nacked_share(self) -> float:
        """NACKs for each trimmed header that arrived; NaN when there were none."""
        return self.nacks / self.headers if self.headers else float("nan")

    def checks(self) -> dict[str, bool]:
        """Return the promises, and whether they hold."""
        return {
            "at least 99 % of packets without room become headers": self.trimmed_share >= _LEAST_TRIMMED,
            "at least 99 % of headers are answered by a NACK": self.nacked_share >= _LEAST_TRIMMED,
            "no path is assumed bad": self.assumed_bad == 0,
            "goodput is at least 90 % of the bottleneck": self.goodput_share >= _LEAST_GOODPUT,
            "no sender fails": not self.errors,
        }

    def to_json(self) -> dict[str, Any]:
        """Return the fields and shares; shares that have no meaning are null."""
        shares = {name: getattr(self, name) for name in ("goodput_share", "trimmed_share", "nacked_share")}
        return asdict(self) | {k: round(v, 4) if v == v else None for k, v in shares.items()}


class _End:
    """One process of `softmrc.lab.flood`."""

    def __init__(self, lab: Lab, host: str, role: str, **asked: Any) -> None:
        self.host = host
        self._process = lab.popen(
            host,
            sys.executable,
            "-m",
            "softmrc.lab.flood",
            role,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.tell(asked)

    def tell(self, words: Any = 0) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(words) + "\n")  # type: ignore[union-attr]
            self._process.stdin.flush()  # type: ignore[union-attr]

    def hear(self) -> dict[str, Any]:
        line = self._process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise MrcError(f"the program in {self.host} has ended: {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _look(ends: list[_End]) -> list[dict[str, Any]]:
    for end in ends:
        end.tell()
    return [end.hear() for end in ends]


def run_incast(incast: Incast, trimming: bool, step: Callable[[str], None]) -> Outcome:
    """Make the lab, run, and remove it.

    Args:
        incast: what is run.
        trimming: switches trim.
        step: told what is being done.

    Raises:
        UsageError: this host can have no lab.
        MrcError: a program in a host failed.
    """
    spec = incast.spec(trimming)
    with Lab.up(spec, step=step) as lab:
        step("hosts")
        receiver = _End(lab, "h0", "receive", knobs=incast.knobs)
        port = receiver.hear()["port"]
        addresses = lab.addresses("h0")
        asked = {"knobs": incast.knobs, "addresses": addresses, "port": port}
        senders = [_End(lab, f"h{i}", "send", **asked) for i in range(1, incast.senders + 1)]
        for sender in senders:
            sender.hear()
        with contextlib.closing(QueueReader(lab)) as queues:
            before = queues.read()
            looks = [_look(senders)]
            for i, pause in enumerate(_pauses(incast)):
                time.sleep(pause)
                looks.append(_look(senders))
                step(f"{i * _LOOK_S:.0f} s of {incast.warm + incast.seconds:g}")
            final = _look([receiver])[0]
            ports = [c.since(before[n][d]) for n, both in queues.read().items() for d, c in both.items()]
        why_not = "" if lab.state.more.get("trimming") else why_no_trimming(spec)
        return _outcome(incast, why_not, looks, final, ports)


def _pauses(incast: Incast) -> Iterator[float]:
    yield from [_LOOK_S] * round((incast.warm + incast.seconds) / _LOOK_S)


def _outcome(
    incast: Incast,
    why_not: str,
    looks: list[list[dict[str, Any]]],
    receiver: dict[str, Any],
    ports: list[PortCounters],
) -> Outcome:
    began = looks[min(round(incast.warm / _LOOK_S), len(looks) - 2)]
    rates = [
        (b["bytes"] - a["bytes"]) * 8e9 / (b["at_ns"] - a["at_ns"])
        for a, b in zip(began, looks[-1], strict=True)
    ]
    last = looks[-1]
    sent = _sum([look["counters"] for look in last])
    got = receiver["counters"]
    payload = last[0]["pmtu"]
    return Outcome(
        trimming=why_not,
        goodput_bps=sum(rates),
        bottleneck_bps=incast.planes * incast.rate_bps * payload / (payload + _HEADERS),
        trimmed=sum(p.trimmed for p in ports),
        dropped=sum(p.dropped + p.overflow for p in ports),
        marked=sum(p.marked for p in ports),
        headers=got.get("rx.trimmed", 0),
        nacks=got.get("rx.nack_tx", 0),
        unsaid=got.get("rx.control_overflow", 0),
        repeated=sent.get("tx.rtx_trimmed", 0) + sent.get("tx.rtx_lasthop", 0),
        timeouts=sent.get("tx.rtx_timeout", 0),
        assumed_bad=sum(look["assumed_bad"] for look in last),
        why=_sum([look["why"] for look in last]),
        receiver_drops=receiver["rx_drops"],
        seconds=incast.seconds,
        errors=[look["error"] for look in last if look["error"]],
    )


def _sum(tables: list[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for table in tables:
        for name, value in table.items():
            total[name] = total.get(name, 0) + value
    return total
