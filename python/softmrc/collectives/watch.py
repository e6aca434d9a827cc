"""Notices at once that the process of a rank is gone: plain TCP connections that carry nothing.

When a process ends, however it ends, its kernel closes them. When a network fails nothing is closed, since nothing is
sent: a network failure is no failure of a peer. Each rank keeps connections to those at distances of powers of two,
which is everybody for up to seven ranks; who notices an end tells all (`mesh.py`). Decides nothing but "gone" and "left
in good order". Runs on the endpoint's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import os
import random
import socket
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from softmrc.collectives.roster import Door
from softmrc.endpoint import Endpoint
from softmrc.endpoint.listener import bind_sockets
from softmrc.errors import PeerError

__all__ = ["Watch", "watched"]

_BYE = b"B"
_LINE = 256
_GREETING_SECONDS = 5.0
_watches: weakref.WeakSet[Watch] = weakref.WeakSet()


def watched(rank: int, size: int) -> list[int]:
    """Return the ranks that `rank` shares a connection with."""
    out = set()
    step = 1
    while step < size:
        out |= {(rank + step) % size, (rank - step) % size}
        step *= 2
    return sorted(out - {rank})


class Watch:
    """The connections of one rank."""

    def __init__(
        self,
        ep: Endpoint,
        hosts: Sequence[str],
        rank: int,
        size: int,
        token: bytes,
        ended: Callable[[int, bool], object],
    ) -> None:
        """Listen.

        Args:
            ep: whose thread is used.
            hosts: addresses to listen on.
            rank: of this end.
            size: number of ranks.
            token: shared by the ranks.
            ended: told once a rank, on the endpoint's thread: rank, and whether it had said that it leaves.
        """
        self._ep, self._rank, self._size, self._token, self._ended = ep, rank, size, token, ended
        self._pid = os.getpid()
        self._listening = bind_sockets(list(dict.fromkeys(hosts)), 0)
        self.port = int(self._listening[0].getsockname()[1])
        self._links: dict[int, socket.socket] = {}
        self._loose: set[socket.socket] = set()
        self._over: set[int] = set()
        self._left: set[int] = set()
        for sock in self._listening:
            sock.setblocking(False)
            sock.listen(4096)
        self._tasks: list[Future[None]] = [ep.hub.submit(self._accept(s)) for s in self._listening]
        _watches.add(self)

    def connect(self, doors: Sequence[Door], timeout: float) -> None:
        """Reach those that are to be watched; returns when all are.

        Raises:
            PeerError: some did not answer in time.
        """
        self._ep.hub.run(self._connect_all(doors, time.monotonic() + timeout, timeout))

    def leave(self) -> None:
        """Tell the others that this end leaves in good order. Any thread; never blocks."""
        for sock in list(self._links.values()):
            with contextlib.suppress(OSError):
                sock.send(_BYE)

    def close(self) -> None:
        """Close everything; without `leave` before, the others take this process for gone."""
        self._ep.hub.run(self._stop())

    def forget_in_child(self) -> None:
        """Close the copies that a forked child has, so that the end of the parent still shows."""
        for sock in (*self._listening, *self._links.values(), *self._loose):
            sock.close()  # the loop's poll set is the parent's, too, and is left alone

    # --- endpoint's thread ----------------------------------------------------------------------------------

    async def _stop(self) -> None:
        loop = asyncio.get_running_loop()
        for task in self._tasks:
            task.cancel()
        for sock in (*self._links.values(), *self._loose, *self._listening):
            loop.remove_reader(sock)
            sock.close()
        self._links.clear()
        self._loose.clear()
        _watches.discard(self)

    def _mac(self, sender: int, receiver: int, what: str) -> str:
        return hmac.new(
            self._token, f"softmrc watch {what} {sender} {receiver}".encode(), hashlib.sha256
        ).hexdigest()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        greetings: set[asyncio.Task[None]] = set()
        while True:
            try:
                sock, _ = await loop.sock_accept(listening)
            except OSError:  # out of descriptors, or a caller that has hung up
                await asyncio.sleep(0.05)
                continue
            sock.setblocking(False)
            self._loose.add(sock)
            task = asyncio.ensure_future(self._greet(sock))
            greetings.add(task)
            task.add_done_callback(greetings.discard)

    async def _greet(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_GREETING_SECONDS):
                words = (await _line(sock)).split()
                rank = int(words[0]) if words and words[0].isdecimal() else -1
                if len(words) != 2 or not 0 <= rank < self._size or rank == self._rank:
                    raise OSError("no rank of this mesh")
                if not _same(words[1], self._mac(rank, self._rank, "hello")):
                    raise OSError("wrong token")
            await loop.sock_sendall(sock, f"{self._mac(self._rank, rank, 'welcome')}\n".encode())
            # Only the dialler may still give up, so that no end sees a close that means nothing.
            await _line(sock)
        except (OSError, TimeoutError):
            self._loose.discard(sock)
            sock.close()
            return
        self._keep(rank, sock)

    def _keep(self, rank: int, sock: socket.socket) -> None:
        self._loose.discard(sock)
        loop = asyncio.get_running_loop()
        old = self._links.pop(rank, None)
        if old is not None:  # its dialler gave it up
            loop.remove_reader(old)
            old.close()
        self._links[rank] = sock
        loop.add_reader(sock, self._on_readable, rank, sock)

    def _on_readable(self, rank: int, sock: socket.socket) -> None:
        try:
            data = sock.recv(16)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if data:
            if _BYE in data:
                self._left.add(rank)
                self._tell(rank)
            return
        asyncio.get_running_loop().remove_reader(sock)
        sock.close()
        if self._links.get(rank) is sock:
            del self._links[rank]
        self._tell(rank)

    def _tell(self, rank: int) -> None:
        if rank not in self._over:
            self._over.add(rank)
            self._ended(rank, rank in self._left)

    async def _connect_all(self, doors: Sequence[Door], end: float, timeout: float) -> None:
        wanted = watched(self._rank, self._size)
        tasks = [asyncio.ensure_future(self._reach(r, doors[r], end)) for r in wanted if self._rank < r]
        try:
            while missing := [r for r in wanted if r not in self._links and r not in self._over]:
                if time.monotonic() >= end:
                    who = ", ".join(f"{r} ({doors[r].name})" for r in missing[:8])
                    raise PeerError(
                        f"rank {self._rank} does not reach rank {who} over TCP within {timeout:g} s"
                    )
                await asyncio.sleep(0.005)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _reach(self, rank: int, door: Door, end: float) -> None:
        pause = 0.02
        while time.monotonic() < end:
            for address in door.addresses:
                try:
                    sock = await self._call(rank, address, door.watch_port)
                except (OSError, TimeoutError):
                    continue
                self._keep(rank, sock)
                return
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(2 * pause, 1.0)

    async def _call(self, rank: int, address: str, port: int) -> socket.socket:
        loop = asyncio.get_running_loop()
        family, kind, proto, _, where = (await loop.getaddrinfo(address, port, type=socket.SOCK_STREAM))[0]
        sock = socket.socket(family, kind, proto)
        self._loose.add(sock)
        try:
            sock.setblocking(False)
            async with asyncio.timeout(_GREETING_SECONDS):
                await loop.sock_connect(sock, where)
                await loop.sock_sendall(
                    sock, f"{self._rank} {self._mac(self._rank, rank, 'hello')}\n".encode()
                )
                answer = (await _line(sock)).strip()
            if not _same(answer, self._mac(rank, self._rank, "welcome")):
                raise OSError("somebody else answers there")
            sock.send(b"kept\n")
        except BaseException:
            self._loose.discard(sock)
            sock.close()
            raise
        return sock


def _same(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode(), right.encode())


async def _line(sock: socket.socket) -> str:
    """Receive one short line, byte by byte: what follows it is not ours to take."""
    loop = asyncio.get_running_loop()
    out = bytearray()
    while not out.endswith(b"\n"):
        piece = await loop.sock_recv(sock, 1)
        if not piece or len(out) >= _LINE:
            raise OSError("no greeting")
        out += piece
    return out.decode("ascii", "replace")


def _forget_all() -> None:
    for watch in list(_watches):
        watch.forget_in_child()


os.register_at_fork(after_in_child=_forget_all)
