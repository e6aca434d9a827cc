"""Which ranks have ended: their process is gone, or they left in good order. Each end is told once.

Decides when an end counts: a closed watch connection means "gone" unless goodbye was said before, and what the rank had
sent until then is handed out first. Who sees a process end tells all, since nobody watches everybody. Runs on the
endpoint's thread.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from softmrc.endpoint.hub import Hub

if TYPE_CHECKING:
    from softmrc.collectives.peers import Peers

__all__ = ["GONE", "LEFT", "Obituary"]

GONE, LEFT = "gone", "left"
_CHANNEL = b"D"
_SETTLE_SECONDS, _GOODBYE_SECONDS = 0.03, 1.0


class Obituary:
    """What one rank knows of the ends of others."""

    def __init__(self, hub: Hub, rank: int, on_end: Callable[[int, str], object]) -> None:
        """Start with all alive.

        Args:
            hub: of the endpoint.
            rank: of this end.
            on_end: told once a rank: which, and GONE or LEFT.
        """
        self._hub, self._rank, self._on_end = hub, rank, on_end
        self._ended: dict[int, tuple[str, float]] = {}
        self._peers: Peers | None = None

    def begin(self, peers: Peers) -> None:
        """Tell others from now on, and listen to them."""
        self._peers = peers
        peers.on(_CHANNEL, self._on_message)

    def known(self) -> dict[int, tuple[str, float]]:
        """Return, by rank, how it ended and how many seconds ago. Any thread."""
        now = time.monotonic()
        return {r: (how, now - at) for r, (how, at) in list(self._ended.items())}

    def any(self, ranks: Iterable[int]) -> bool:
        """Return True when one of these has ended. Any thread; cheap while none has."""
        return bool(self._ended) and any(r in self._ended for r in ranks)

    def on_closed(self, rank: int, said_goodbye: bool) -> None:
        """The watch connection of a rank was closed, or said goodbye."""
        if said_goodbye:
            # Its letters may still be on their way; its own farewell comes behind them.
            self._hub.call_later(_GOODBYE_SECONDS, lambda: self._note(rank, LEFT, 0.0))
            return
        self._hub.call_later(_SETTLE_SECONDS, lambda: self._note(rank, GONE, _SETTLE_SECONDS))
        if self._peers is not None and rank not in self._ended:
            others = [r for r in self._peers.all() if r != rank and r not in self._ended]
            self._peers.tell(others, _CHANNEL, json.dumps([rank, 0.0]).encode())

    def on_leave(self, rank: int) -> None:
        """A rank said farewell, behind everything it had to send."""
        self._note(rank, LEFT, 0.0)

    def _on_message(self, _: int, data: bytes) -> None:
        try:
            rank, ago = json.loads(data)
            rank, ago = int(rank), max(0.0, float(ago))
        except (ValueError, TypeError):
            return
        if rank != self._rank:
            self._hub.call_later(_SETTLE_SECONDS, lambda: self._note(rank, GONE, ago + _SETTLE_SECONDS))

    def _note(self, rank: int, how: str, ago: float) -> None:
        if rank not in self._ended:
            self._ended[rank] = (how, time.monotonic() - ago)
            self._on_end(rank, how)
