"""The channel that carries connection set-up: TCP by default, anything with these three methods instead."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from typing import Protocol, runtime_checkable

from softmrc.errors import PeerError
from softmrc.text import host_port

__all__ = ["MAX_MESSAGE", "Exchange", "TcpExchange"]

MAX_MESSAGE = 64 * 1024
_HEADER = struct.Struct(">I")


@runtime_checkable
class Exchange(Protocol):
    """An ordered pipe of small messages to one peer, used only while a connection is being made."""

    async def send(self, message: bytes) -> None:
        """Send one message of at most 64 KiB."""

    async def recv(self) -> bytes:
        """Receive the next message; raise `PeerError` when the peer is gone."""

    async def close(self) -> None:
        """Close the pipe. Idempotent."""


class TcpExchange:
    """Messages over TCP, each behind its length in four bytes, most significant first."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take over a connected stream."""
        self._reader = reader
        self._writer = writer
        name = writer.get_extra_info("peername")
        self.peer = host_port(name[0], name[1]) if name else "unknown"
        self.stage = "set-up"
        """What is going on, as errors name it."""

    async def send(self, message: bytes) -> None:
        """Send one message of at most 64 KiB."""
        if len(message) > MAX_MESSAGE:
            raise ValueError(f"a set-up message has at most {MAX_MESSAGE} bytes")
        try:
            self._writer.write(_HEADER.pack(len(message)) + message)
            await self._writer.drain()
        except OSError as error:
            raise PeerError(f"{self.peer}: the connection broke during {self.stage}: {error}") from None

    async def recv(self) -> bytes:
        """Receive the next message.

        Raises:
            PeerError: the peer closed, or announced more than 64 KiB.
        """
        try:
            (length,) = _HEADER.unpack(await self._reader.readexactly(_HEADER.size))
            if length > MAX_MESSAGE:
                raise PeerError(
                    f"{self.peer}: announced a set-up message of {length} bytes; it does not speak softmrc"
                )
            return await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, OSError):
            raise PeerError(f"{self.peer}: closed the connection during {self.stage}") from None

    async def close(self) -> None:
        """Close the stream. Idempotent."""
        self._writer.close()
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            await asyncio.wait_for(self._writer.wait_closed(), 1.0)

    def abort(self) -> None:
        """Close at once, without sending what is left."""
        self._writer.transport.abort()
