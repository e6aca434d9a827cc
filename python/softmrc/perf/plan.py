"""What is measured: the plan of a session, and the rows it consists of. Ranges hold for both ends.

The peer's wishes are checked as strictly as one's own: the same ranges, and memory that is bounded in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from softmrc.errors import PeerError, UsageError

__all__ = ["BIN_MS", "MAX_REGION", "OPS", "SWEEP", "Plan", "Row", "flag", "integer", "region_for"]

OPS = ("write", "write_imm", "lat", "idle")
SWEEP = tuple(2**n for n in range(1, 24))
"""Sizes of a sweep, bytes: 2 to 8 Mi, as `ib_write_bw -a` runs them."""
MAX_REGION = 1 << 30
"""Bytes of memory an end sets aside, for sending and again for receiving."""
BIN_MS = 100
"""Width of the bins in which arrivals are counted."""
_MAX_SIZE = MAX_REGION
_MAX_QPS = 2048
_MAX_DEPTH = 8192
_MAX_IN_FLIGHT = 1 << 18
_MAX_BYTES_IN_FLIGHT = 64 << 20
_MAX_SECONDS = 86400
_HOT = 64 << 20
_MAX_EV_RUN = 4096


def integer(data: Mapping[str, Any], name: str, low: int, high: int) -> int:
    """Return a number the peer sent.

    Raises:
        PeerError: it is none, or outside of `low` to `high`.
    """
    value = data.get(name)
    if type(value) is not int or not low <= value <= high:
        raise PeerError(f"the peer asks for something impossible: {name} must be {low} to {high}")
    return value


def flag(data: Mapping[str, Any], name: str) -> bool:
    """Return a yes or no the peer sent.

    Raises:
        PeerError: it is none.
    """
    value = data.get(name)
    if type(value) is not bool:
        raise PeerError(f"the peer asks for something impossible: {name} must be true or false")
    return value


def region_for(size: int, qps: int, wanted: int | None) -> int:
    """Return how much memory to set aside.

    Args:
        size: largest message, bytes.
        qps: queue pairs.
        wanted: bytes; None: a message for each queue pair, 64 MiB at most, so that memory stays in the caches.
    """
    if wanted is not None:
        return max(wanted, size)
    return max(min(size * qps, _HOT), size, 4096)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What holds for all rows of a session."""

    op: str = "write"
    """"write", "write_imm", "lat" (ping-pong), or "idle" (connected, nothing sent)."""
    qps: int = 1
    depth: int = 128
    """Messages in flight on each queue pair."""
    both: bool = False
    """The other end sends, too."""
    size: int = 65536
    """Largest message, bytes."""
    region: int = 65536
    """Memory that messages walk through, bytes, at each end."""
    ev_run: int = 0
    """Packets on one EV before the next, 0 to 4096; 0: automatic."""

    def __post_init__(self) -> None:
        """Refuse what cannot be.

        Raises:
            UsageError: out of range, or too much in all.
        """
        if self.op not in OPS:
            raise UsageError(f"--op is one of {', '.join(OPS)}, not {self.op!r}")
        for option, value, low, high, unit in (
            ("--qps", self.qps, 1, _MAX_QPS, "queue pairs"),
            ("--tx-depth", self.depth, 1, _MAX_DEPTH, "messages in flight on each queue pair"),
            ("--size", self.size, 1, _MAX_SIZE, "bytes"),
            ("--region-size", self.region, 1, MAX_REGION, "bytes"),
            ("--ev-run", self.ev_run, 0, _MAX_EV_RUN, "packets"),
        ):
            if not low <= value <= high:
                raise UsageError(f"{option} is {low} to {high} {unit}, not {value}")
        if self.region < self.size:
            raise UsageError(f"the region of {self.region} bytes is smaller than a message of {self.size}")
        if self.qps * self.depth > _MAX_IN_FLIGHT:
            raise UsageError(
                f"{self.qps} queue pairs with {self.depth} messages in flight are more than {_MAX_IN_FLIGHT} in all"
            )
        if self.op == "lat" and (self.qps != 1 or self.both):
            raise UsageError("latency is measured on one queue pair, and goes both ways by itself")
        if self.op == "idle" and self.both:
            raise UsageError("where nothing is sent, there is no second direction")

    def depth_for(self, size: int) -> int:
        """Return how many messages of a size are in flight on each queue pair.

        More than 64 MiB in all serve no path, and at the end of a row they are waited for. One queue pair needs a
        second message while the first is acknowledged; several fill each other's pauses.
        """
        least = 2 if self.qps == 1 else 1
        return min(self.depth, max(_MAX_BYTES_IN_FLIGHT // (size * self.qps), least))

    def to_json(self) -> dict[str, Any]:
        """Return it for the peer."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> Plan:
        """Read what a peer asks for.

        Raises:
            PeerError: malformed, or beyond what this end gives.
        """
        if not isinstance(data, Mapping) or not isinstance(data.get("op"), str):
            raise PeerError("the peer's plan is malformed")
        try:
            return cls(
                op=data["op"][:32],
                qps=integer(data, "qps", 1, _MAX_QPS),
                depth=integer(data, "depth", 1, _MAX_DEPTH),
                both=flag(data, "both"),
                size=integer(data, "size", 1, _MAX_SIZE),
                region=integer(data, "region", 1, MAX_REGION),
                ev_run=integer(data, "ev_run", 0, _MAX_EV_RUN),
            )
        except UsageError as error:
            raise PeerError(f"the peer asks for something impossible: {error}") from None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measurement."""

    size: int
    iters: int = 0
    """Messages on each queue pair, or round trips; 0: as many as the duration allows."""
    duration: float = 0.0
    """Seconds; 0: until all iterations are done."""
    region: int = 0
    """Bytes of memory walked through; 0: all of the plan's."""

    def __post_init__(self) -> None:
        """Refuse what cannot be.

        Raises:
            UsageError: out of range, or without end.
        """
        if not 1 <= self.size <= _MAX_SIZE:
            raise UsageError(f"--size is 1 to {_MAX_SIZE} bytes, not {self.size}")
        if not 0 <= self.iters < 1 << 40:
            raise UsageError(f"--iters is 1 to {(1 << 40) - 1} messages, not {self.iters}")
        if not 0 <= self.duration <= _MAX_SECONDS:
            raise UsageError(
                f"--duration is above 0 and at most {_MAX_SECONDS} seconds, not {self.duration:g}"
            )
        if not 0 <= self.region <= MAX_REGION:
            raise UsageError(f"--region-size is 0 to {MAX_REGION} bytes, not {self.region}")
        if self.iters == 0 and self.duration == 0:
            raise UsageError("a measurement needs iterations or a duration (--iters, --duration)")

    @property
    def duration_ns(self) -> int:
        """Nanoseconds."""
        return int(self.duration * 1e9)

    def to_json(self) -> dict[str, Any]:
        """Return it for the peer."""
        return {
            "size": self.size,
            "iters": self.iters,
            "duration_us": int(self.duration * 1e6),
            "region": self.region,
        }

    @classmethod
    def from_json(cls, data: Any, plan: Plan) -> Row:
        """Read what a peer asks for.

        Raises:
            PeerError: malformed, or beyond its own plan.
        """
        if not isinstance(data, Mapping):
            raise PeerError("the peer's measurement is malformed")
        try:
            return cls(
                size=integer(data, "size", 1, plan.size),
                iters=integer(data, "iters", 0, (1 << 40) - 1),
                duration=integer(data, "duration_us", 0, _MAX_SECONDS * 1_000_000) / 1e6,
                region=integer(data, "region", 0, plan.region),
            )
        except UsageError as error:
            raise PeerError(f"the peer asks for something impossible: {error}") from None
