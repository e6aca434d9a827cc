"""A connection to every other rank, and what goes over it besides data: small messages on named channels.

Decides who connects to whom (of ranks i < j, i when their sum is odd, else j, so that each connects to about half of
the others), in which order (each begins behind itself, so that they do not all knock at rank 0) and how often it is
tried again (B65). Runs on the endpoint's thread.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from softmrc.collectives.roster import Door
from softmrc.endpoint import Connection, Endpoint, Listener, Notification, Transfer
from softmrc.errors import MrcError, PeerError, UsageError

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["Peers", "dials", "order"]

_AT_ONCE = 8
_TRY_SECONDS = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_HELLO = b"H"


def dials(a: int, b: int) -> bool:
    """Return True when rank `a` connects to rank `b`, False when it waits for it."""
    return (a < b) == bool((a + b) % 2)


def order(rank: int, size: int) -> list[int]:
    """Return the others in the order in which a rank connects to them: each begins behind itself."""
    return [(rank + step) % size for step in range(1, size)]


class Peers:
    """The connections of one rank."""

    def __init__(
        self,
        ep: Endpoint,
        listener: Listener,
        rank: int,
        doors: Sequence[Door],
        token: bytes,
        on_end: Callable[[int, BaseException], object],
    ) -> None:
        """Prepare; `connect` begins to accept, so that handlers are there before anybody speaks.

        Args:
            ep: whose planes are used.
            listener: of this rank.
            rank: of this end.
            doors: where all ranks are met.
            token: shared by the ranks.
            on_end: told, on the endpoint's thread, that a peer's connection ended and why.
        """
        self._ep, self._listener, self._rank = ep, listener, rank
        self._doors, self._token, self._on_end = doors, token, on_end
        self._conns: dict[int, Connection] = {}
        self._guests: set[Connection] = set()
        self._handlers: dict[bytes, Callable[[int, bytes], object]] = {}
        self._note_handler: Callable[[int, Notification], object] = lambda rank, note: None
        self._arrived: asyncio.Event | None = None
        self._why: dict[int, str] = {}
        self._stopped = False
        self._accepting: Future[None] | None = None

    def on(self, channel: bytes, handler: Callable[[int, bytes], object]) -> None:
        """Have messages of a channel (one byte) given to a function: rank and bytes. Endpoint's thread."""
        self._handlers[channel] = handler

    def on_notification(self, handler: Callable[[int, Notification], object]) -> None:
        """Have immediates given to a function: rank and notification. Endpoint's thread."""
        self._note_handler = handler

    def connect(self, timeout: float, gone: Callable[[int], str | None]) -> None:
        """Connect to everybody; returns when all connections are there.

        Args:
            timeout: seconds.
            gone: asked now and then whether a rank is gone; its text ends the wait.

        Raises:
            PeerError: ranks did not connect in time, or one is gone.
        """
        self._accepting = self._ep.hub.submit(self._accept())
        self._ep.hub.run(self._connect_all(time.monotonic() + timeout, timeout, gone))

    def conn(self, rank: int) -> Connection:
        """Return the connection to a rank.

        Raises:
            UsageError: there is none.
        """
        conn = self._conns.get(rank)
        if conn is None:
            raise UsageError(f"no connection to rank {rank}: ranks are 0 to {len(self._doors) - 1}")
        return conn

    def all(self) -> dict[int, Connection]:
        """Return the connections by rank."""
        return dict(self._conns)

    def send(self, rank: int, channel: bytes, data: bytes) -> Transfer:
        """Send a message on a channel; done once the peer's engine has it.

        Raises:
            PeerError: the connection is closed or lost.
        """
        return self.conn(rank).send_message(channel + data)

    def tell(self, ranks: Sequence[int], channel: bytes, data: bytes) -> dict[int, Transfer]:
        """Send the same to several; those that are lost are left out. Returns what is on its way, by rank."""
        out = {}
        for rank in ranks:
            try:
                out[rank] = self.send(rank, channel, data)
            except MrcError:
                continue
        return out

    def stop(self) -> None:
        """Accept nobody any more, and report no end of a connection."""
        self._stopped = True
        if self._accepting is not None:
            self._accepting.cancel()

    # --- endpoint's thread ----------------------------------------------------------------------------------

    async def _accept(self) -> None:
        while True:
            try:
                conn = await self._listener.accept_async()
            except UsageError:
                return
            self._guests.add(conn)
            self._serve(conn, None)

    def _serve(self, conn: Connection, rank: int | None) -> None:
        whose: list[int] = [] if rank is None else [rank]

        def message(data: bytes) -> None:
            channel = data[:1]
            if whose:
                handler = self._handlers.get(channel)
                if handler is not None:
                    handler(whose[0], data[1:])
            elif channel == _HELLO and (who := self._introduced(data[1:])) is not None:
                whose.append(who)
                self._keep(who, conn)

        def note(notification: Notification) -> None:
            if whose:
                self._note_handler(whose[0], notification)

        def ended(error: BaseException) -> None:
            self._guests.discard(conn)
            if whose and not self._stopped and self._conns.get(whose[0]) is conn:
                self._on_end(whose[0], error)

        conn.serve(message, note, ended)

    def _introduced(self, data: bytes) -> int | None:
        text = data.decode("ascii", "replace")
        rank = int(text) if text.isdecimal() and len(text) < 10 else -1
        return (
            rank if 0 <= rank < len(self._doors) and rank != self._rank and dials(rank, self._rank) else None
        )

    def _keep(self, rank: int, conn: Connection) -> None:
        self._guests.discard(conn)
        self._conns[rank] = conn  # a second one takes the place of one that its dialler gave up
        if self._arrived is not None:
            self._arrived.set()

    async def _connect_all(self, end: float, timeout: float, gone: Callable[[int], str | None]) -> None:
        others = order(self._rank, len(self._doors))
        gate = asyncio.Semaphore(_AT_ONCE)
        self._arrived = asyncio.Event()
        tasks = [
            asyncio.ensure_future(self._reach(rank, gate, end)) for rank in others if dials(self._rank, rank)
        ]
        try:
            while missing := [r for r in others if r not in self._conns]:
                if text := next((t for t in map(gone, missing) if t), None):
                    raise PeerError(text)
                if time.monotonic() >= end:
                    raise PeerError(self._unreached(missing, timeout))
                self._arrived.clear()
                pause = min(0.2, max(0.0, end - time.monotonic()))
                done = asyncio.ensure_future(self._arrived.wait())
                await asyncio.wait([done], timeout=pause)
                done.cancel()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _reach(self, rank: int, gate: asyncio.Semaphore, end: float) -> None:
        door, pause = self._doors[rank], _FIRST_PAUSE
        while rank not in self._conns:
            left = end - time.monotonic()
            try:
                async with gate:
                    conn = await self._ep.connect(
                        door.addresses,
                        door.port,
                        token=self._token,
                        timeout=max(0.05, min(_TRY_SECONDS, left)),
                    )
            except PeerError as error:
                self._why[rank] = str(error)
                if time.monotonic() + pause >= end:
                    return
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            self._serve(conn, rank)
            conn.send_message(_HELLO + b"%d" % self._rank)
            self._keep(rank, conn)

    def _unreached(self, missing: Sequence[int], timeout: float) -> str:
        who = ", ".join(f"{r} ({self._doors[r].name})" for r in missing[:8])
        why = next((self._why[r] for r in missing if r in self._why), "")
        return (
            f"rank {self._rank} has no connection to rank{'s' * (len(missing) > 1)} {who} after {timeout:g} s"
            f"{': ' + why if why else '; it waited for them to connect'}"
        )
