"""A write on its way: awaitable, pollable, waitable."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

__all__ = ["Transfer"]


class Transfer:
    """One `Connection.write`. Done once the peer has placed and acknowledged all its bytes."""

    @property
    def length(self) -> int:
        """Bytes of the write."""
        raise NotImplementedError

    def done(self) -> bool:
        """Return True once it succeeded or failed."""
        raise NotImplementedError

    def wait(self, timeout: float | None = None) -> bool:
        """Block until done.

        Args:
            timeout: seconds; None: as long as it takes.

        Returns:
            True when done, False when the time ran out.
        """
        raise NotImplementedError

    def result(self, timeout: float | None = None) -> int:
        """Block until done and return the number of bytes written.

        Raises:
            TimeoutError: not done in time.
            CompletionError: the peer refused the access.
            PeerError: the peer is gone; the message names it, its planes and when it was heard last.
        """
        raise NotImplementedError

    def exception(self) -> BaseException | None:
        """Return why it failed, None while it runs or when it succeeded."""
        raise NotImplementedError

    def add_done_callback(self, callback: Callable[[Transfer], object]) -> None:
        """Call `callback(transfer)` once done: at once if it is, else from the endpoint's thread."""
        raise NotImplementedError

    def __await__(self) -> Generator[Any, None, int]:
        """Await completion; same value and errors as `result`. Cancelling the wait does not stop the transfer."""
        raise NotImplementedError
