"""A page in the terminal that is drawn over itself, and lines where there is no terminal.

Decides how often it is drawn; leaves what is on it to its users.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live

__all__ = ["LivePage"]

_INTERVAL_S = 0.1


class LivePage:
    """The page of one command; a context manager."""

    def __init__(self, console: Console) -> None:
        """Prepare; nothing is drawn before the first `draw`."""
        self._console = console
        self._live = (
            Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        )
        self._next = 0.0
        self._said = 0

    def __enter__(self) -> Self:
        """Take the terminal."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Take the page away."""
        if self._live is not None:
            self._live.stop()

    @property
    def drawn(self) -> bool:
        """True on a terminal; False: lines take the place of the page."""
        return self._live is not None

    def due(self) -> bool:
        """Return whether it is time for another page or line: ten times a second."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + _INTERVAL_S
        return True

    def draw(self, page: RenderableType) -> None:
        """Draw a page; nothing where there is no terminal."""
        if self._live is not None:
            self._live.update(page, refresh=True)

    def say(self, line: str) -> None:
        """Print a line; nothing on a terminal."""
        if self._live is None:
            self._console.print(line, highlight=False, markup=False)

    def forget(self) -> None:
        """Begin another story for `say_new`."""
        self._said = 0

    def say_new(self, lines: Sequence[str]) -> None:
        """Print those lines of a growing story that were not printed yet."""
        for line in lines[self._said :]:
            self.say(line)
        self._said = max(self._said, len(lines))
