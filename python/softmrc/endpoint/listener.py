"""Waits for peers over TCP, and hands their connections out.

Decides how much a stranger may cost: 5 seconds, 64 KiB a message, 64 at a time; the oldest unproven one makes
room.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING

from softmrc.device import end_block
from softmrc.endpoint.connection import Connection
from softmrc.endpoint.exchange import TcpExchange
from softmrc.endpoint.handshake import BUSY, Handshake
from softmrc.endpoint.inbox import Inbox
from softmrc.endpoint.offer import encode
from softmrc.endpoint.region import Exposed
from softmrc.endpoint.setup import HANDSHAKE_SECONDS, establish
from softmrc.endpoint.steering import meeting_point
from softmrc.errors import MrcError, PeerError, UsageError

if TYPE_CHECKING:
    from softmrc.endpoint.endpoint import Endpoint

__all__ = ["MAX_HANDSHAKES", "Listener", "bind_sockets"]

MAX_HANDSHAKES = 64
_EVICT_AFTER = 1.0
_log = logging.getLogger("softmrc")
_SAY_SECONDS, _SAY_MOST = 60.0, 5


class _Guest:
    def __init__(self, exchange: TcpExchange, shake: Handshake, task: asyncio.Task[None] | None) -> None:
        self.exchange, self.shake, self.task = exchange, shake, task
        self.since = time.monotonic()


class Listener:
    """Accepts connections for an endpoint: `async for conn in listener`, or `listener.accept(timeout)`."""

    def __init__(
        self,
        ep: Endpoint,
        sockets: list[socket.socket],
        *,
        expose: Exposed,
        token: bytes | None,
        backlog: int,
    ) -> None:
        """Use `Endpoint.listen`."""
        self._ep = ep
        self._sockets = sockets
        self._expose, self._token, self._backlog = expose, token, backlog
        self._ready: Inbox[Connection] = Inbox()
        self._servers: list[asyncio.Server] = []
        self._guests: dict[int, _Guest] = {}
        self._refused: deque[tuple[str, str]] = deque(maxlen=64)
        self._said_since, self._said, self._unsaid = float("-inf"), 0, 0
        self._closed = False
        self._port = int(sockets[0].getsockname()[1])
        self._addresses = tuple(str(s.getsockname()[0]) for s in sockets)

    @property
    def port(self) -> int:
        """TCP port it listens on."""
        return self._port

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses it listens on."""
        return self._addresses

    @property
    def refused(self) -> tuple[tuple[str, str], ...]:
        """The newest refused peers (at most 64): address and reason."""
        return tuple(self._refused)

    def accept(self, timeout: float | None = None) -> Connection:
        """Block until a peer has connected.

        Raises:
            TimeoutError: none came in time.
            UsageError: the listener is closed.
        """
        return self._ready.get(timeout)

    async def accept_async(self) -> Connection:
        """Wait for a peer without blocking the loop.

        Raises:
            UsageError: the listener is closed.
        """
        return await self._ready.get_async()

    def close(self) -> None:
        """Stop listening; connections already handed out stay, those nobody took are closed. Idempotent."""
        if self._closed or self._ep.hub.forked():
            return
        self._closed = True
        self._ready.end(UsageError("the listener is closed"))
        self._ep.hub.run(self._stop())
        for conn in self._ready.drain():
            conn.abort()
        self._expose.release()
        self._ep.hub.listeners.discard(self)

    def __aiter__(self) -> AsyncIterator[Connection]:
        """Iterate over connections until the listener is closed."""
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[Connection]:
        while True:
            try:
                conn = await self._ready.get_async()
            except UsageError:
                return
            yield conn

    # --- endpoint's loop ------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        for sock in self._sockets:
            self._servers.append(await asyncio.start_server(self._welcome, sock=sock, backlog=self._backlog))

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        tasks = [g.task for g in self._guests.values() if g.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        exchange = TcpExchange(reader, writer)
        if len(self._guests) >= MAX_HANDSHAKES and not self._evict():
            writer.write(_framed_busy())
            await exchange.close()
            return
        shake = Handshake(exchange, initiator=False, software=self._ep.software, token=self._token)
        guest = _Guest(exchange, shake, asyncio.current_task())
        self._guests[id(guest)] = guest
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                conn = await establish(self._ep, exchange, shake, initiator=False, expose=self._expose)
            if self._closed:
                conn.abort()
            else:
                self._ready.put(conn)
            await exchange.close()
        except TimeoutError:
            self._note(exchange, f"set-up took more than {HANDSHAKE_SECONDS:g} s")
            exchange.abort()
        except (PeerError, MrcError) as error:
            self._note(exchange, str(error))
            await exchange.close()
        except asyncio.CancelledError:
            exchange.abort()
        finally:
            self._guests.pop(id(guest), None)

    def _evict(self) -> bool:
        oldest = min(
            (g for g in self._guests.values() if not g.shake.proven), key=lambda g: g.since, default=None
        )
        if oldest is None or oldest.task is None or time.monotonic() - oldest.since < _EVICT_AFTER:
            return False
        self._note(oldest.exchange, "made room for others before it had proven itself")
        oldest.task.cancel()
        return True

    def _note(self, exchange: TcpExchange, reason: str) -> None:
        reason = reason.removeprefix(f"{exchange.peer}: ")  # errors of the exchange name it already
        self._refused.append((exchange.peer, reason))
        self._say_refused(exchange.peer, reason)

    def _say_refused(self, peer: str, reason: str) -> None:
        """Warn, a few times a minute at most: strangers must not be able to fill a log."""
        now = time.monotonic()
        if now - self._said_since >= _SAY_SECONDS:
            if self._unsaid:
                _log.warning("%s: refused %d more in the meantime", self._ep.name, self._unsaid)
            self._said_since, self._said, self._unsaid = now, 0, 0
        if self._said >= _SAY_MOST:
            self._unsaid += 1
            return
        self._said += 1
        _log.warning("%s: refused %s: %s", self._ep.name, peer, reason)

    def __enter__(self) -> Listener:
        """Enter: nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close."""
        end_block(self.close, error)

    async def __aenter__(self) -> Listener:
        """Enter: nothing to do."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close."""
        await asyncio.to_thread(end_block, self.close, error)


def _framed_busy() -> bytes:
    body = encode(
        {"type": "error", "code": BUSY, "message": "too many connections are being set up; try again"}
    )
    return len(body).to_bytes(4, "big") + body


def bind_sockets(hosts: list[str], port: int) -> list[socket.socket]:
    """Bind every host at one port; in a fabric of user-space switches, where its hosts meet."""
    out: list[socket.socket] = []
    try:
        for host in dict.fromkeys(meeting_point(h) for h in hosts):
            info = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
            sock = socket.socket(info[0], socket.SOCK_STREAM)
            out.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if info[0] == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            address = list(info[4])
            address[1] = port
            sock.bind(tuple(address))
            port = sock.getsockname()[1]
    except BaseException:
        for sock in out:
            sock.close()
        raise
    return out
