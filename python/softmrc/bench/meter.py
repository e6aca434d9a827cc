"""What the whole machine does while programs run: busy cores, and bytes arriving on links, with the time."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from bisect import bisect_left
from itertools import pairwise
from pathlib import Path
from types import TracebackType

__all__ = ["Meter"]

_TICKS = os.sysconf("SC_CLK_TCK")


def _busy_seconds() -> float:
    # user nice system idle iowait irq softirq steal
    fields = [int(f) for f in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / _TICKS


def _received(pid: int) -> dict[str, int]:
    found = {}
    with contextlib.suppress(OSError):  # the process has ended
        for line in Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]:
            dev, _, counts = line.partition(":")
            found[dev.strip()] = int(counts.split()[0])
    return found


class Meter:
    """Looks every few milliseconds; a context manager. Times are CLOCK_MONOTONIC seconds."""

    def __init__(self, pid: int | None = None, period: float = 0.02) -> None:
        """Begin with `with`.

        Args:
            pid: process in whose network namespace arriving bytes are counted; None: they are not.
            period: seconds between looks.
        """
        self._pid, self._period = pid, period
        self._times: list[float] = []
        self._busy: list[float] = []
        self._bytes: list[dict[str, int]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bench-meter", daemon=True)

    def _look(self) -> None:
        received = _received(self._pid) if self._pid is not None else {}
        if self._pid is not None and not received:
            return
        self._busy.append(_busy_seconds())
        self._bytes.append(received)
        self._times.append(time.monotonic())

    def _run(self) -> None:
        while not self._stop.wait(self._period):
            self._look()

    def __enter__(self) -> Meter:
        """Begin."""
        self._look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """End; what was seen stays."""
        self._stop.set()
        self._thread.join()

    @property
    def span(self) -> tuple[float, float]:
        """First and last look."""
        return self._times[0], self._times[-1]

    def busy_cores(self, begin: float, end: float) -> float:
        """Return the mean number of busy cores between two times."""
        return (self._at(self._busy, end) - self._at(self._busy, begin)) / (end - begin)

    def arrived(self, dev: str, begin: float, end: float) -> float:
        """Return the bytes that arrived on a link between two times, headers included."""
        counts = [float(b.get(dev, 0)) for b in self._bytes]
        return self._at(counts, end) - self._at(counts, begin)

    def steady(self, devs: list[str], least: float = 0.25) -> tuple[float, float]:
        """Return when traffic on links began and ended: above `least` of its median rate; equal when there was none.

        The edges are cut by a tenth of the whole, so that starting and stopping stay outside.
        """
        total = [sum(b.get(d, 0) for d in devs) for b in self._bytes]
        steps = [b - a for a, b in pairwise(total)]
        busy = sorted(s for s in steps if s > 0)
        if not busy:
            return self._times[0], self._times[0]
        level = busy[len(busy) // 2] * least
        active = [i for i, s in enumerate(steps) if s >= level]
        begin, end = self._times[active[0]], self._times[active[-1] + 1]
        edge = (end - begin) / 10
        return begin + edge, end - edge

    def bins(self, devs: list[str], begin: float, end: float, width: float) -> list[float]:
        """Return bytes per second in each `width` seconds from `begin` on, up to `end`."""
        counts = [float(sum(b.get(d, 0) for d in devs)) for b in self._bytes]
        edges, at = [], begin
        while at + width <= end + 1e-9:
            edges.append((at, at + width))
            at += width
        return [(self._at(counts, b) - self._at(counts, a)) / width for a, b in edges]

    def _at(self, values: list[float], when: float) -> float:
        """Interpolate a cumulative count."""
        i = bisect_left(self._times, when)
        if i == 0:
            return values[0]
        if i == len(self._times):
            return values[-1]
        before, after = self._times[i - 1], self._times[i]
        share = (when - before) / (after - before) if after > before else 1.0
        return values[i - 1] + (values[i] - values[i - 1]) * share
