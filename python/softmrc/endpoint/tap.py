"""Hands what arrives on a connection to functions instead of queues, on the endpoint's thread.

Decides the order: as it arrived, messages before the end. Meant for programs with very many connections, where one
waiting thread for each would be too much; the functions must not block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from softmrc.endpoint.inbox import Inbox

if TYPE_CHECKING:
    from softmrc.endpoint.hub import Hub

__all__ = ["Tap"]

T = TypeVar("T")


class Tap(Inbox[T]):
    """An inbox that is emptied at once."""

    def __init__(
        self,
        hub: Hub,
        given: Callable[[T], object],
        taken: Callable[[T], object],
        ended: Callable[[BaseException], object] | None = None,
    ) -> None:
        """Make one.

        Args:
            hub: whose thread calls the functions, with no lock held.
            given: called with each item.
            taken: called after it, so that the peer may send more.
            ended: called with the reason once no more will come; after all items.
        """
        super().__init__()
        self._hub = hub
        self._given, self._on_end = given, ended
        self._free = taken

    def put(self, item: T) -> None:
        """Give the item away, from the endpoint's thread."""
        self._hub.call_soon(lambda: self._pass_on(item))

    def _pass_on(self, item: T) -> None:
        try:
            self._given(item)
        finally:
            self._free(item)

    def end(self, error: BaseException) -> None:
        """Tell that no more will come; the first call counts."""
        first = not self.ended
        super().end(error)
        if first and self._on_end is not None:
            ended = self._on_end
            self._hub.call_soon(lambda: ended(error))

    def take_over(self, old: Inbox[T]) -> None:
        """Give away what another inbox holds, and end as it did."""
        for item in old.drain():
            self.put(item)
        if (why := old.why_ended) is not None:
            self.end(why)
