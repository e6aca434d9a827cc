"""The live view in the terminal: planes with goodput bars, EVs as dots, retransmissions, events."""

from __future__ import annotations

import time

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from softmrc.demo import metrics
from softmrc.demo.plan import RATE_BPS
from softmrc.demo.run import Run
from softmrc.live import LivePage

__all__ = ["View"]

_BAR = 24
_DOTS = {"g": ("●", "green"), "s": ("●", "yellow"), "a": ("●", "red"), "d": ("○", "bright_black")}
_EVENTS = 8
_WINDOW_NS = 300_000_000


class View(LivePage):
    """Shows a run; plain lines when the output is no terminal."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._title = ""

    def begin(self, title: str) -> None:
        """Start to show another run."""
        self._title = title
        self.forget()
        self.say(title)

    def update(self, run: Run) -> None:
        """Show what is known; at most ten times a second."""
        if not self.due():
            return
        if self.drawn:
            self.draw(self._page(run))
        else:
            self.say_new(
                [f"  {(at - run.start_ns) / 1e9:5.2f} s  {what}" for at, what in self._happened(run)]
            )

    def _happened(self, run: Run) -> list[tuple[int, str]]:
        now = time.monotonic_ns()
        return sorted(e for e in run.events if e[0] <= now)

    def _page(self, run: Run) -> Group:
        end = run.placed[-1][0] if run.placed else 0
        table = Table(box=None, pad_edge=False)
        for name in ("plane", "address", "goodput", "", "paths"):
            table.add_column(name, no_wrap=True)
        states = run.states[-1][1] if run.states else ""
        for plane in range(1, run.planes + 1):
            rate = metrics.rate(run.plane_rx.get(plane, []), end - _WINDOW_NS, end) * 8
            dots = Text()
            for (owner, _), state in zip(run.paths, states, strict=False):
                if owner == plane:
                    dots.append(*_DOTS.get(state, ("?", "magenta")))
            full = min(_BAR, round(_BAR * rate / RATE_BPS))
            bar = Text("█" * full, "cyan") + Text("·" * (_BAR - full), "bright_black")
            address = (run.plan.pinned_addresses() if run.pinned else run.plan.addresses)[plane - 1]
            table.add_row(str(run.shown(plane)), address, bar, f"{rate / 1e6:4.0f} Mbit/s", dots)
        total = metrics.rate(run.placed, end - _WINDOW_NS, end) * 8 / 1e6
        seconds = max(0.0, (time.monotonic_ns() - run.start_ns) / 1e9)
        rtx = int(run.rtx[-1][1]) if run.rtx else 0
        head = Text(f"{self._title}\n", "bold")
        head.append(
            f"{seconds:5.1f} of {run.plan.times.end:.0f} s   goodput {total:4.0f} Mbit/s   ", "default"
        )
        head.append(
            f"retransmissions {rtx}   window {run.cwnd // 1000} kB   round trip {run.srtt_us / 1000:.1f} ms",
            "default",
        )
        events = Text()
        for at, what in self._happened(run)[-_EVENTS:]:
            events.append(f"{(at - run.start_ns) / 1e9:6.2f} s  {what}\n")
        return Group(head, Text(), table, Text(), events)
