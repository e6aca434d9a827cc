"""Where ranks meet before they have connections: a few small values under names.

Decides what a store must offer, and has two of its own for programs without torch: one inside a process, one over
TCP. What is put there is `roster.py`'s.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
import time
from typing import Protocol

from softmrc.endpoint.worker import Worker
from softmrc.errors import PeerError, UsageError

__all__ = ["LocalStore", "Store", "TcpStore"]

_REQUEST = struct.Struct("!cdII")  # operation, seconds to wait, bytes of key and of value
_REPLY = struct.Struct("!?I")
_MAX_KEY, _MAX_VALUE = 4096, 64 << 20


class Store(Protocol):
    """What a mesh needs; every method may be called from any thread."""

    def set(self, key: str, value: bytes) -> None:
        """Put a value there, in place of an older one."""

    def get(self, key: str, timeout: float) -> bytes:
        """Return a value, waiting for it for at most `timeout` seconds; TimeoutError after that."""


class LocalStore:
    """A store for ranks that are threads of one process."""

    def __init__(self) -> None:
        """Start empty."""
        self._values: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._waited_for: dict[str, threading.Event] = {}

    def set(self, key: str, value: bytes) -> None:
        """Put a value there, and wake those who wait for it."""
        with self._lock:
            self._values[key] = bytes(value)
            come = self._waited_for.pop(key, None)
        if come is not None:
            come.set()

    def get(self, key: str, timeout: float) -> bytes:
        """Return a value; TimeoutError when it does not come."""
        with self._lock:
            if key in self._values:
                return self._values[key]
            come = self._waited_for.setdefault(key, threading.Event())
        if not come.wait(timeout):
            raise TimeoutError(f"the store has no {key!r} after {timeout:g} s")
        return self._values[key]


class TcpStore:
    """A store over TCP: one process serves, all of them are clients. No secret; for a network one trusts."""

    def __init__(self, host: str, port: int, *, serve: bool = False, timeout: float = 60.0) -> None:
        """Serve if asked to, and connect.

        Args:
            host: where the serving process listens.
            port: its TCP port; with `serve` 0 lets the kernel pick one (`port` tells).
            serve: True in exactly one process.
            timeout: seconds to wait for the serving process.

        Raises:
            PeerError: nobody serves there in time.
            UsageError: port 0 without `serve`.
        """
        if not serve and not 0 < port < 65536:
            raise UsageError(f"port is 1 to 65535, not {port}")
        self._server = _Server(host, port) if serve else None
        self.port = self._server.port if self._server is not None else port
        self._lock = threading.Lock()
        self._socket = _reach(host, self.port, timeout)

    def set(self, key: str, value: bytes) -> None:
        """Put a value there; PeerError when the serving process is gone."""
        self._ask(b"S", key, bytes(value), 0.0)

    def get(self, key: str, timeout: float) -> bytes:
        """Return a value; TimeoutError when it does not come, PeerError when the serving process is gone."""
        found, value = self._ask(b"G", key, b"", timeout)
        if not found:
            raise TimeoutError(f"the store has no {key!r} after {timeout:g} s")
        return value

    def close(self) -> None:
        """Disconnect, and stop serving. Idempotent."""
        self._socket.close()
        if self._server is not None:
            self._server.close()

    def _ask(self, what: bytes, key: str, value: bytes, timeout: float) -> tuple[bool, bytes]:
        name = key.encode()
        if len(name) > _MAX_KEY or len(value) > _MAX_VALUE:
            raise UsageError(f"store: a key has at most {_MAX_KEY} bytes, a value {_MAX_VALUE}")
        with self._lock:
            try:
                self._socket.sendall(_REQUEST.pack(what, timeout, len(name), len(value)) + name + value)
                found, size = _REPLY.unpack(_receive(self._socket, _REPLY.size))
                return found, _receive(self._socket, size)
            except OSError as error:
                raise PeerError(f"the process that serves the store is gone: {error}") from None


def _reach(host: str, port: int, timeout: float) -> socket.socket:
    end = time.monotonic() + timeout
    while True:
        try:
            sock = socket.create_connection((host, port), max(0.1, end - time.monotonic()))
        except OSError as error:
            if time.monotonic() >= end:
                raise PeerError(
                    f"no store at {host} port {port} within {timeout:g} s: {error}; is rank 0 running?"
                ) from None
            time.sleep(random.uniform(0.02, 0.1))
            continue
        sock.settimeout(None)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock


def _receive(sock: socket.socket, size: int) -> bytes:
    out = bytearray()
    while len(out) < size:
        piece = sock.recv(size - len(out))
        if not piece:
            raise ConnectionResetError("closed")
        out += piece
    return bytes(out)


class _Server:
    """The values and those who wait for them, on a thread of its own."""

    def __init__(self, host: str, port: int) -> None:
        self._values: dict[str, bytes] = {}
        self._worker = Worker("store")
        self._waited_for: dict[str, asyncio.Event] = {}
        self.port = self._worker.run(self._start(host, port))

    async def _start(self, host: str, port: int) -> int:
        self._listening = await asyncio.start_server(
            self._serve, host, port, backlog=4096, reuse_address=True
        )
        return int(self._listening.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                what, timeout, key_size, size = _REQUEST.unpack(await reader.readexactly(_REQUEST.size))
                if key_size > _MAX_KEY or size > _MAX_VALUE:
                    return
                key = (await reader.readexactly(key_size)).decode(errors="replace")
                value = await reader.readexactly(size)
                found, answer = await (self._set(key, value) if what == b"S" else self._get(key, timeout))
                writer.write(_REPLY.pack(found, len(answer)) + answer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            return  # the client is gone, or the server is closed
        finally:
            writer.close()

    async def _set(self, key: str, value: bytes) -> tuple[bool, bytes]:
        self._values[key] = value
        if (come := self._waited_for.pop(key, None)) is not None:
            come.set()
        return True, b""

    async def _get(self, key: str, timeout: float) -> tuple[bool, bytes]:
        if key not in self._values:
            try:
                async with asyncio.timeout(timeout):
                    await self._waited_for.setdefault(key, asyncio.Event()).wait()
            except TimeoutError:
                return False, b""
        return True, self._values[key]

    def close(self) -> None:
        self._worker.call_soon(self._listening.close)
        self._worker.stop()
