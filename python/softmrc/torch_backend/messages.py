"""A send or receive as a part of a work: how long it may take, and what happens when it takes longer.

Decides when a message counts as failed; leaves the message itself, and who is to blame, to `softmrc.collectives`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from softmrc.collectives import Group, Letter

__all__ = ["Message"]


class Message:
    """One letter with a deadline."""

    def __init__(self, group: Group, letter: Letter, waits: Sequence[int], timeout: float) -> None:
        """Follow a letter.

        Args:
            group: that it belongs to.
            letter: on its way.
            waits: the ranks, in the group, that have to act for it to be done.
            timeout: seconds from now until it counts as failed.
        """
        self._group = group
        self._letter = letter
        self._waits = waits
        self._since = time.monotonic()
        self._timeout = timeout

    @property
    def source(self) -> int | None:
        """Rank in the group that it comes from, or goes to; None while any rank may still be it."""
        return self._letter.source

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until done.

        Args:
            timeout: seconds; None: what is left of its own. When they run out it has failed, and so has the group.

        Raises:
            PeerError: the other rank is gone, or has not done its part in time.
        """
        end = self._since + self._timeout
        if timeout is not None:
            end = min(end, time.monotonic() + timeout)
        if not self._letter.wait(max(0.0, end - time.monotonic())):
            waited = time.monotonic() - self._since
            what = self._letter.what
            raise self._group.mesh.verdict(self._group.number, what, list(self._waits), None, waited)
        error = self._letter.exception()
        if error is not None:
            raise error
        return True

    def done(self) -> bool:
        """Tell whether it has ended, well or not."""
        return self._letter.done()

    def exception(self) -> BaseException | None:
        """Return why it failed; None while it runs, and when it arrived."""
        return self._letter.exception()

    def add_done_callback(self, function: Callable[[object], object]) -> None:
        """Call `function(letter)` when it is done, from another thread, or at once."""
        self._letter.add_done_callback(function)
