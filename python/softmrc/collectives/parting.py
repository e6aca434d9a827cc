"""In which order ranks leave what rank 0 serves for all, so that all can meet again at the same place at once.

Whoever comes back to a place that is about to end finds it, and is lost with it. So rank 0 says when the old one has
ended, and the others wait a while for that before they go. Who cannot wait says so, and rank 0 learns that somebody
may be back already: then it must keep the place. What the place is, and how it ends, is the caller's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from softmrc.collectives.peers import Peers

__all__ = ["Parting"]

_CHANNEL = b"E"
_GOING, _KEPT, _ENDED = b"going", b"kept", b"ended"
_LOOK_SECONDS = 0.02
_ANSWER_SECONDS = 0.3


class Parting:
    """Both sides of it."""

    def __init__(self, peers: Peers, rank: int, ended: Callable[[], Iterable[int]]) -> None:
        """Begin to listen.

        Args:
            peers: of this rank.
            rank: of this end.
            ended: returns a container of ranks that have ended.
        """
        self._peers, self._rank, self._gone = peers, rank, ended
        self._changed = threading.Condition()
        self._begun = self._over = self._early = False
        peers.on(_CHANNEL, self._on_message)

    def begin(self) -> bool:
        """On rank 0: nobody is told any more that the place is kept. True: somebody was, and may be back."""
        with self._changed:
            self._begun = True
            return self._early

    def finish(self) -> None:
        """On rank 0: the old place has ended, or is kept."""
        with self._changed:
            self._over = True
        self._peers.tell(list(self._peers.all()), _CHANNEL, _ENDED)

    def wait(self, patience: float) -> None:
        """On the others: wait until rank 0's place has ended, or rank 0 itself has; then tell it that this end goes.

        Args:
            patience: seconds; afterwards rank 0 is told, and has a moment to answer.
        """
        if self._wait(patience):
            return
        self._peers.tell([0], _CHANNEL, _GOING)
        self._wait(_ANSWER_SECONDS)

    def _wait(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        with self._changed:
            while not self._over and 0 not in set(self._gone()):
                left = end - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, _LOOK_SECONDS))
        return True

    # --- endpoint's thread ----------------------------------------------------------------------------------

    def _on_message(self, rank: int, data: bytes) -> None:
        if data == _GOING and self._rank == 0:
            with self._changed:
                self._early = self._early or not self._begun
                answer = _ENDED if self._over else b"" if self._begun else _KEPT
            if answer:
                self._peers.tell([rank], _CHANNEL, answer)
        elif data in (_KEPT, _ENDED) and rank == 0:
            with self._changed:
                self._over = True
                self._changed.notify_all()
