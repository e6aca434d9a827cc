"""Built-in impairments of the UDP driver: what goes wrong on a path, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from softmrc.errors import UsageError

__all__ = ["Rule"]

_DIRECTIONS = {"tx": 1, "rx": 2, "both": 3}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One impairment.

    Shares are 0.0 to 1.0, times seconds; `start` and `stop` are `time.monotonic()` values.
    """

    plane: int = 0
    """1-based local plane; 0: every plane."""
    ev: int | None = None
    """Wire tag of one path; None: every path. Below 2^16 it is compared with the source port only."""
    direction: Literal["tx", "rx", "both"] = "both"
    start: float = 0.0
    stop: float | None = None
    """None: for ever."""
    down: bool = False
    """Everything is lost."""
    drop: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    corrupt: float = 0.0
    trim: float = 0.0
    mark_ce: float = 0.0
    delay: float = 0.0
    jitter: float = 0.0
    """Uniform from 0 to this, keeps no order."""
    reorder_delay: float = 0.0
    """How late reordered packets come."""
    rate_bps: int = 0
    """A link of this rate behind a queue; 0: no limit."""
    queue_bytes: int = 0
    ecn_bytes: int = 0
    """Mark packets while the queue is longer; 0: never."""
    trim_on_overflow: bool = False
    control_too: bool = True
    """False: only data packets."""

    def to_core(self) -> dict[str, object]:
        """Return the rule as the compiled core reads it.

        Raises:
            UsageError: a share, time or direction is out of range.
        """
        out: dict[str, object] = {
            "port": self.plane,
            "dir": _DIRECTIONS.get(self.direction, 0),
            "down": self.down,
        }
        if out["dir"] == 0:
            raise UsageError(f"direction is 'tx', 'rx' or 'both', not {self.direction!r}")
        if self.ev is not None:
            out["ev"] = self.ev
        out["from_ns"] = int(self.start * 1e9)
        if self.stop is not None:
            out["until_ns"] = int(self.stop * 1e9)
        shares = {
            "drop": "drop",
            "duplicate": "dup",
            "reorder": "reorder",
            "corrupt": "corrupt",
            "trim": "trim",
            "mark_ce": "ce",
        }
        for name, core in shares.items():
            share = getattr(self, name)
            if not 0 <= share <= 1:
                raise UsageError(f"{name} is a share from 0 to 1, not {share!r}")
            out[f"{core}_ppm"] = round(share * 1e6)
        for name in ("delay", "jitter", "reorder_delay"):
            seconds = getattr(self, name)
            if not 0 <= seconds <= 3600:
                raise UsageError(f"{name} is 0 to 3600 s, not {seconds!r}")
            out[f"{name}_ns"] = int(seconds * 1e9)
        for name in ("rate_bps", "queue_bytes", "ecn_bytes", "trim_on_overflow", "control_too"):
            out[name] = getattr(self, name)
        return out
