"""The channel that carries connection set-up: TCP by default, anything with these three methods instead."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

__all__ = ["Exchange"]


@runtime_checkable
class Exchange(Protocol):
    """An ordered pipe of small messages to one peer, used only while a connection is being made."""

    async def send(self, message: bytes) -> None:
        """Send one message of at most 64 KiB."""

    async def recv(self) -> bytes:
        """Receive the next message; raise `PeerError` when the peer is gone."""

    async def close(self) -> None:
        """Close the pipe. Idempotent."""
