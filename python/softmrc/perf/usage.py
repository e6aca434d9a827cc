"""What a measurement costs: CPU time of this process and of the whole host, by which interrupts count, too."""

from __future__ import annotations

import hashlib
import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Usage", "host_mark"]

_TICKS = os.sysconf("SC_CLK_TCK")
# Columns of /proc/stat: user nice system idle iowait irq softirq; all but the idle ones are work.
_BUSY = (0, 1, 2, 5, 6)


def host_mark() -> str:
    """Return something that is equal for processes of one running kernel, and tells nothing about it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    except OSError:
        return ""
    return hashlib.sha256(b"softmrc perf " + boot).hexdigest()[:16]


def _host_seconds() -> float:
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        return sum(int(fields[i]) for i in _BUSY) / _TICKS
    except (OSError, IndexError, ValueError):
        return 0.0


@dataclass(frozen=True)
class Usage:
    """CPU seconds, as a mark to measure from or as what was used."""

    process: float
    host: float
    """All processes and interrupts of the host."""
    seconds: float

    @classmethod
    def now(cls) -> Usage:
        """Return the mark of this moment."""
        own = resource.getrusage(resource.RUSAGE_SELF)
        return cls(own.ru_utime + own.ru_stime, _host_seconds(), time.monotonic())

    def since(self) -> Usage:
        """Return what was used since this mark."""
        now = Usage.now()
        return Usage(now.process - self.process, now.host - self.host, now.seconds - self.seconds)
