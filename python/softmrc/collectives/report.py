"""What a mesh has ridden through, for people and programs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Incident", "Report"]


@dataclass(frozen=True, kw_only=True)
class Incident:
    """Something that failed for a while."""

    kind: str
    """"plane" (its link was down), "paths" (some of a plane were lost) or "outage" (nothing got through to a rank)."""
    began: float
    """Seconds since 1970."""
    seconds: float | None
    """How long it lasted; None: it goes on."""
    plane: int
    """Local plane, 1-based; 0: all."""
    ranks: tuple[int, ...]
    """Peers that it concerned, by rank."""
    paths: int
    """Paths (entropy values) that were lost at the same time at most, of all peers together."""
    reasons: tuple[str, ...]
    """What told: names as in the event log."""
    where: tuple[str, ...]
    """Paths through the fabric, where it is known; at most eight."""

    def text(self) -> str:
        """Return one line."""
        clock = time.strftime("%H:%M:%S", time.localtime(self.began)) + f".{int(self.began % 1 * 1000):03d}"
        lasted = "goes on" if self.seconds is None else f"{self.seconds:.3f} s"
        peers = f"rank{'s' * (len(self.ranks) > 1)} {', '.join(map(str, self.ranks[:8]))}"
        peers += " …" if len(self.ranks) > 8 else ""
        if self.kind == "outage":
            return f"{clock}  nothing got through to {peers}: {lasted}"
        lost = f"{self.paths} path{'s' * (self.paths != 1)} to {peers}" if self.ranks else ""
        what = "link down" if self.kind == "plane" else "paths lost"
        told = f" ({', '.join(self.reasons)})" if self.reasons else ""
        through = f" through {', '.join(self.where[:3])}" if self.where else ""
        return f"{clock}  plane {self.plane}: {what}{', ' + lost if lost else ''}{through}{told}: {lasted}"


@dataclass(frozen=True, kw_only=True)
class Report:
    """A mesh since it was made."""

    rank: int
    size: int
    planes: tuple[str, ...]
    """Addresses of the local planes."""
    seconds: float
    """Age of the mesh."""
    incidents: tuple[Incident, ...]
    """Oldest first; the newest 1000."""
    bytes_sent: int
    """Bytes that left on all planes, headers included."""
    bytes_local: int
    """Payload that came from ranks of this host through memory, past the planes."""
    bytes_resent: int
    """Payload sent again, counted by full packets: at most this."""
    packets_resent: int
    seconds_lost: float
    """Time during which nothing got through to some rank, whether by the network or because it was stopped."""
    collectives: int
    """Calls of collectives of this rank, of all groups."""
    failed: tuple[str, ...]
    """Verdicts of groups that broke."""

    def to_json(self) -> dict[str, Any]:
        """Return it as an object for JSON."""
        return asdict(self)

    def json(self) -> str:
        """Return it as JSON text."""
        return json.dumps(self.to_json())

    def text(self) -> str:
        """Return it in words, a line an incident."""
        head = (
            f"rank {self.rank} of {self.size}, {len(self.planes)} planes, {self.seconds:.0f} s, {self.collectives} "
            f"collectives: {_count(len(self.incidents), 'incident')}, {_bytes(self.bytes_resent)} sent again of "
            f"{_bytes(self.bytes_sent)}, {self.seconds_lost:.3f} s in which nothing got through to some rank"
        )
        if self.bytes_local:
            head += f"; {_bytes(self.bytes_local)} more came from ranks of this host through memory"
        return "\n".join(
            [head, *("  " + i.text() for i in self.incidents), *("  failed: " + f for f in self.failed)]
        )

    def __str__(self) -> str:
        """Return `text()`."""
        return self.text()


def merged(spans: Sequence[tuple[float, float]]) -> float:
    """Return the length of the union of spans of time."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def _bytes(n: int) -> str:
    size, unit = float(n), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.3g} {unit}"
