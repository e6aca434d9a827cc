"""The live view in the terminal: loss and step time of the run that goes on, and what fails."""

from __future__ import annotations

import statistics
import time

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from softmrc.live import LivePage
from softmrc.train_demo.demo import Watcher
from softmrc.train_demo.run import Run

__all__ = ["View"]

_SPARKS = "▁▂▃▄▅▆▇█"
_WIDE = 60
_EVENTS = 6


class View(LivePage, Watcher):
    """Shows one run after the other; plain lines when the output is no terminal."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._title = ""
        self._done: list[tuple[str, Run]] = []

    def begin(self, title: str) -> None:
        """Start to show another run."""
        self._title = title
        self.forget()
        self.say(title)
        self.draw(Text(f"{title}: starting"))

    def end(self, run: Run) -> None:
        """Keep what a finished run came to, on top of the next."""
        self._done.append((self._title, run))
        self.say(f"  {_summary(run)}")

    def update(self, run: Run) -> None:
        """Show what is known; at most ten times a second."""
        if not self.due():
            return
        now = time.monotonic()
        if self.drawn:
            self.draw(self._page(run, now))
        else:
            self.say_new([f"  {i.at:6.2f} s  {i}" for i in run.incidents if run.began + i.at <= now])

    def _page(self, run: Run, now: float) -> Group:
        table = Table(box=None, pad_edge=False, show_header=False)
        for title, done in self._done:
            table.add_row(Text(title, "bright_black"), Text(_summary(done), "bright_black"))
        head = Text(f"{self._title}\n", "bold")
        head.append(f"{max(0.0, now - run.began):5.1f} s   step {len(run.steps)} of {run.wanted}", "default")
        if run.steps:
            head.append(f"   loss {run.steps[-1].loss:.4f}   step time {_spark(run)}", "default")
        events = Text()
        for incident in [i for i in run.incidents if run.began + i.at <= now][-_EVENTS:]:
            over = run.began + incident.until <= now
            events.append(f"{incident.at:6.2f} s  {incident}\n", "bright_black" if over else "red")
        for error in run.errors[:2]:
            events.append(f"{error}\n", "bold red")
        return Group(table, head, Text(), events)


def _spark(run: Run) -> str:
    times = [s.ended - s.began for s in run.steps[-_WIDE:]]
    top = max(times)
    bars = "".join(_SPARKS[min(7, int(8 * t / top))] if top else _SPARKS[0] for t in times)
    return f"{bars} {times[-1] * 1e3:.0f} ms"


def _summary(run: Run) -> str:
    if not run.steps:
        return f"no step: {'; '.join(run.errors[:1])}"
    times = [s.ended - s.began for s in run.steps]
    words = (
        f"{len(run.steps)} of {run.wanted} steps in {run.steps[-1].ended:.1f} s, median "
        f"{statistics.median(times) * 1e3:.0f} ms, slowest {max(times) * 1e3:.0f} ms, loss {run.steps[-1].loss:.6f}"
    )
    return f"{words}; {run.errors[0]}" if run.errors else words
