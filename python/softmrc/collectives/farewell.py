"""How a rank leaves in good order: it says so, and stays until the others need nothing of it any more.

An acknowledgement may be lost: a rank that closed right after its last collective could not repeat it, and the other
end would take it for lost. So it asks, and each of the others answers when it has nothing under way with it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from softmrc.collectives.peers import Peers
from softmrc.endpoint.hub import Hub

__all__ = ["Farewell"]

_CHANNEL = b"M"
_LEAVE, _DONE = b"leave", b"done"
_LOOK_SECONDS = 0.01


class Farewell:
    """Both sides of it."""

    def __init__(
        self,
        hub: Hub,
        peers: Peers,
        on_leave: Callable[[int], object],
        needs: Callable[[int], bool],
    ) -> None:
        """Begin to answer.

        Args:
            hub: of the endpoint.
            peers: of this rank.
            on_leave: told, on the endpoint's thread, that a rank leaves; all it had sent has been handed out before.
            needs: asked whether a rank is still needed, on the endpoint's thread.
        """
        self._hub, self._peers, self._on_leave, self._needs = hub, peers, on_leave, needs
        self._done: set[int] = set()
        self._changed = threading.Condition()
        peers.on(_CHANNEL, self._on_message)

    def leave(self, ranks: list[int], patience: float, ended: Callable[[], Iterable[int]]) -> list[int]:
        """Say goodbye and wait until the others are done.

        Args:
            ranks: the others.
            patience: seconds.
            ended: returns a container of ranks that have ended meanwhile.

        Returns:
            Ranks that did not answer in time: stopped, cut off, or their Python is busy.
        """
        told = self._peers.tell(ranks, _CHANNEL, _LEAVE)
        end = time.monotonic() + patience
        with self._changed:
            while time.monotonic() < end:
                over = self._done | set(ended())
                if all(r in over or (t.done() and t.exception() is not None) for r, t in told.items()):
                    break
                self._changed.wait(_LOOK_SECONDS * 2)
        gone = set(ended())
        return [r for r in ranks if r not in self._done and r not in gone]

    # --- endpoint's thread ----------------------------------------------------------------------------------

    def _on_message(self, rank: int, data: bytes) -> None:
        if data == _LEAVE:
            self._on_leave(rank)
            self._answer(rank)
        elif data == _DONE:
            with self._changed:
                self._done.add(rank)
                self._changed.notify_all()

    def _answer(self, rank: int) -> None:
        if self._needs(rank):
            self._hub.call_later(_LOOK_SECONDS, lambda: self._answer(rank))
        else:
            self._peers.tell([rank], _CHANNEL, _DONE)
