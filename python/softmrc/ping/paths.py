"""What was measured on one path, and what that makes of several."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Path", "Summary"]

KEPT = 10_000
"""Round trips kept for the percentile, the newest of each path; the other figures cover all."""


@dataclass
class Path:
    """One entropy value (EV) of one plane."""

    plane: int
    """1-based number of the local plane."""
    ev: int
    """32-bit wire tag."""
    name: str = ""
    """The switches it passes, where the fabric is known."""
    sent: int = 0
    answered: int = 0
    best_ns: int = 0
    """Shortest round trip; 0 before the first answer."""
    total_ns: int = 0
    recent_ns: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))

    def add(self, rtt_ns: int) -> None:
        """Note an answer."""
        self.best_ns = rtt_ns if self.answered == 0 else min(self.best_ns, rtt_ns)
        self.answered += 1
        self.total_ns += rtt_ns
        self.recent_ns.append(rtt_ns)

    @property
    def dead(self) -> bool:
        """Probed, and never answered."""
        return self.sent > 0 and self.answered == 0

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        named = {"path": self.name} if self.name else {}
        return {
            "plane": self.plane,
            "ev": self.ev,
            **named,
            "dead": self.dead,
            **Summary.of([self]).as_dict(),
        }


@dataclass(frozen=True)
class Summary:
    """Figures over some paths. Times are nanoseconds, None before the first answer."""

    paths: int
    dead: int
    sent: int
    answered: int
    min_ns: int | None
    avg_ns: int | None
    p99_ns: int | None

    @classmethod
    def of(cls, paths: Iterable[Path]) -> Summary:
        """Add paths up."""
        chosen = list(paths)
        heard = [p for p in chosen if p.answered]
        answered = sum(p.answered for p in heard)
        return cls(
            paths=len(chosen),
            dead=sum(p.dead for p in chosen),
            sent=sum(p.sent for p in chosen),
            answered=answered,
            min_ns=min((p.best_ns for p in heard), default=None),
            avg_ns=sum(p.total_ns for p in heard) // answered if answered else None,
            p99_ns=_p99(sorted(rtt for p in heard for rtt in p.recent_ns)),
        )

    @property
    def loss(self) -> float:
        """Part of the probes without an answer, 0 to 1."""
        return 1 - self.answered / self.sent if self.sent else 0.0

    def as_dict(self) -> dict[str, Any]:
        """JSON form; round trips in microseconds."""
        times = {"min": self.min_ns, "avg": self.avg_ns, "p99": self.p99_ns}
        return {
            "sent": self.sent,
            "answered": self.answered,
            "loss": round(self.loss, 6),
            "rtt_us": {name: None if ns is None else ns / 1000 for name, ns in times.items()},
        }


def _p99(ordered: Sequence[int]) -> int | None:
    """Return the smallest value that at least 99 % of the values do not exceed."""
    return ordered[-(-99 * len(ordered) // 100) - 1] if ordered else None
