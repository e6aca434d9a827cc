"""The end that is asked: one client after another, each with sockets and memory of its own.

Strangers cost little: 5 seconds, 64 KiB a message, 32 at a time, and no memory before they have proven the token.
The one that has said nothing for longest makes room for the next. A client that falls silent is given up.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from softmrc.endpoint.exchange import TcpExchange
from softmrc.endpoint.handshake import BUSY, Handshake
from softmrc.endpoint.listener import bind_sockets
from softmrc.errors import MrcError, PeerError, UsageError, VerbsError
from softmrc.perf.agree import consent
from softmrc.perf.client import SOFTWARE
from softmrc.perf.counters import Counters
from softmrc.perf.ends import Ends
from softmrc.perf.local import Local
from softmrc.perf.offer import PerfOffer, icrc_agreed, read_toward
from softmrc.perf.plan import Plan, Row
from softmrc.perf.result import bins_for_peer
from softmrc.perf.talk import Talk
from softmrc.perf.usage import Usage

__all__ = ["Server"]

_HANDSHAKE_SECONDS = 5.0
_MAX_GUESTS = 32
_TURN = 0.02
_SILENCE = 30.0
_ELSEWHERE = "another measurement is running"
_CROWD = "too many connections are being set up; try again"
Tell = Callable[[str, dict[str, Any]], None]
"""Told what happens: "listening", "start", "row", "end", "refused", and its details."""


@dataclass(eq=False)
class _Guest:
    """A connection that has not proven itself yet."""

    exchange: TcpExchange
    shake: Handshake
    task: asyncio.Task[None]
    evicted: bool = False


class Server:
    """Listens on the addresses of its planes."""

    def __init__(
        self,
        local: Local,
        port: int,
        *,
        token: bytes | None = None,
        once: bool = False,
        tell: Tell | None = None,
    ) -> None:
        """Prepare.

        Args:
            local: what this end decides for itself.
            port: TCP port; 0: a free one.
            token: shared secret.
            once: end after one client.
            tell: called with what happens.
        """
        self._local, self._token, self._once = local, token, once
        self._tell: Tell = tell or (lambda what, details: None)
        self._wanted_port = port
        self._tasks: set[asyncio.Task[None]] = set()
        self._guests: list[_Guest] = []
        self._busy = False
        self._ended: asyncio.Future[None] | None = None

    async def run(self) -> None:
        """Serve until cancelled; with `once`, until the first client has left.

        Raises:
            UsageError: a plane is no address of this host.
            VerbsError: the port is taken.
        """
        self._ended = asyncio.get_running_loop().create_future()
        sockets = self._bind()
        servers = [await asyncio.start_server(self._welcome, sock=sock) for sock in sockets]
        try:
            port = sockets[0].getsockname()[1]
            self._tell("listening", {"port": port, "planes": list(self._local.planes)})
            await self._ended
        finally:
            for server in servers:
                server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _bind(self) -> list[socket.socket]:
        """Listen on the planes; without any, on every address of the host."""
        hosts = list(dict.fromkeys(self._local.planes))
        port = self._wanted_port
        try:
            if hosts:
                return bind_sockets(hosts, port)
            try:
                return bind_sockets(["::", "0.0.0.0"], port)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise
                return bind_sockets(["0.0.0.0"], port)  # a host without IPv6
        except OSError as error:
            where = ", ".join(hosts) or "every address"
            if error.errno == errno.EADDRNOTAVAIL:
                raise UsageError(
                    f"--planes {where}: not all are addresses of this host (see `ip addr`)"
                ) from None
            raise VerbsError(error.errno or 5, f"listen on {where} port {port}: {error.strerror}") from None

    def _taken(self) -> bool:
        return self._busy

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        exchange = TcpExchange(reader, writer)
        task = asyncio.current_task()
        assert task is not None
        shake = Handshake(exchange, initiator=False, software=SOFTWARE, token=self._token)
        guest = _Guest(exchange, shake, task)
        self._make_room()
        self._tasks.add(task)
        self._guests.append(guest)
        try:
            async with asyncio.timeout(_HANDSHAKE_SECONDS):
                if self._taken():
                    await exchange.recv()  # its hello: closing with something unread would lose our answer
                    await shake.tell_error(BUSY, _ELSEWHERE)
                    return
                await shake.open()
            self._leave(guest)
            if self._taken():  # since then
                await shake.tell_error(BUSY, _ELSEWHERE)
                return
            self._busy = True
            try:
                await self._serve(exchange, shake, str(writer.get_extra_info("sockname")[0]))
            finally:
                self._busy = False
        except asyncio.CancelledError:
            if not guest.evicted:
                raise
            task.uncancel()
            await shake.tell_error(BUSY, _CROWD)
            self._tell(
                "refused", {"peer": exchange.peer, "why": "made room for others before it had proven itself"}
            )
        except TimeoutError:
            self._tell("refused", {"peer": exchange.peer, "why": "set-up took too long"})
        except MrcError as error:
            self._tell("refused", {"peer": exchange.peer, "why": _why(exchange, error)})
        finally:
            self._leave(guest)
            self._tasks.discard(task)
            await exchange.close()

    def _make_room(self) -> None:
        """Let the guest go that has said nothing for longest, if there are as many as there may be."""
        if len(self._guests) >= _MAX_GUESTS:
            # They stand in the order they came in; those that said hello come after all that did not.
            oldest = min(self._guests, key=lambda guest: guest.shake.peer is not None)
            oldest.evicted = True
            self._leave(oldest)
            oldest.task.cancel()

    def _leave(self, guest: _Guest) -> None:
        if guest in self._guests:
            self._guests.remove(guest)

    async def _serve(self, exchange: TcpExchange, shake: Handshake, reached: str) -> None:
        talk = Talk(shake)
        visit = _Visit(talk, self._local, reached)
        began = False
        try:
            await visit.agree()
            began, exchange.stage = True, "the measurement"
            self._tell("start", {"peer": exchange.peer, **visit.plan.to_json(), **visit.icrc()})
            while (report := await visit.next_row()) is not None:
                self._tell("row", {"peer": exchange.peer, **report})
            self._tell("end", {"peer": exchange.peer, "why": None})
        except (MrcError, OSError) as error:
            await talk.refuse(str(error))
            self._tell("end" if began else "refused", {"peer": exchange.peer, "why": _why(exchange, error)})
        finally:
            visit.close()
            await talk.close()
            if began and self._once and self._ended is not None and not self._ended.done():
                self._ended.set_result(None)


def _why(exchange: TcpExchange, error: Exception) -> str:
    """Return what went wrong without the peer's address, which is told beside it."""
    return str(error).removeprefix(f"{exchange.peer}: ")


def _planes(local: Local, toward: Sequence[str], reached: str) -> tuple[str, ...]:
    """Return the planes for a client: in the order it means them, and its choice where there is no own."""
    if not local.planes:
        plain = ipaddress.ip_address(reached.partition("%")[0])
        mapped = plain.ipv4_mapped if isinstance(plain, ipaddress.IPv6Address) else None
        return tuple(dict.fromkeys(toward)) or (str(mapped) if mapped else reached,)
    first = [p for address in toward for p in local.planes if p.partition("%")[0] == address]
    return tuple(dict.fromkeys([*first, *local.planes]))


class _Visit:
    """One client."""

    def __init__(self, talk: Talk, local: Local, reached: str) -> None:
        self._talk, self._local, self._reached = talk, local, reached
        self._opened: Ends | None = None
        self._active_at, self._activity = time.monotonic(), -1
        self._playing, self._resting, self._patience = False, True, _SILENCE
        self.plan = Plan()

    @property
    def _ends(self) -> Ends:
        assert self._opened is not None
        return self._opened

    async def agree(self) -> None:
        """Read the plan, make what it needs, answer."""
        asked = await self._talk.next("open", timeout=_HANDSHAKE_SECONDS)
        self.plan = plan = Plan.from_json(asked.get("plan"))
        theirs = PerfOffer.from_json(asked.get("offer"), plan.qps)
        local = replace(
            self._local, planes=_planes(self._local, read_toward(asked.get("toward", [])), self._reached)
        )
        ends = self._opened = Ends(local, plan, receives=plan.op != "idle", sends=plan.both)
        mine = ends.offer()
        await self._talk.send("opened", offer=mine.to_json(), imm=ends.needs_immediates)
        pairs, pmtu = await consent(self._talk, mine, theirs, _HANDSHAKE_SECONDS)
        ends.connect(theirs, pairs, pmtu)
        await self._talk.send("connected", pmtu=pmtu)

    def icrc(self) -> dict[str, Any]:
        """Return whether packets carry an iCRC, and which ends asked for none."""
        return icrc_agreed(client=self._ends.peer_icrc_off, server=not self._local.icrc)

    def _drive(self, seconds: float = _TURN) -> None:
        """Drive the transport; a client that neither speaks nor sends is gone."""
        if self._playing:
            self._ends.turn(seconds)
        else:
            self._ends.rest(seconds)
        now = time.monotonic()
        if not self._resting:
            count = self._count()
            if count != self._activity:
                self._active_at, self._activity = now, count
        if now > self._active_at + self._patience:
            raise PeerError(f"the client has been silent for {self._patience:g} s")

    def _count(self) -> int:
        ends = self._ends
        if ends.rally is not None:
            return int(ends.rally.result()["answered"])
        raw = ends.ctx.stats()
        return int(raw["data_rx"]) + int(raw["data_tx"])

    def _expect(self, *, playing: bool, resting: bool, patience: float = _SILENCE) -> None:
        self._playing, self._resting, self._patience = playing, resting, patience
        self._active_at = time.monotonic()

    async def next_row(self) -> dict[str, Any] | None:
        """Take part in one row; None: the client said goodbye."""
        talk, ends, plan = self._talk, self._ends, self.plan
        self._expect(playing=False, resting=True)
        asked = await talk.next("row", "bye", meanwhile=self._drive)
        if asked["step"] == "bye":
            return None
        row = Row.from_json(asked.get("row"), plan)
        imm = asked.get("imm") is True
        if plan.op == "lat":
            ends.clear_landing()
            ends.start(row, imm=imm or ends.needs_immediates, serve=False)
        else:
            ends.start_passive()
        before = Counters.of(ends)
        idle = plan.op == "idle"
        self._expect(playing=True, resting=idle, patience=_SILENCE + (row.duration if idle else 0))
        await talk.send("ready")
        await talk.next("go", meanwhile=lambda: self._drive(0.001))
        mark = Usage.now()
        if plan.both:
            ends.start(row, imm=imm, serve=True)
        await talk.next("done", meanwhile=self._drive)
        usage = mark.since()
        if plan.both:
            await self._drain()
        ends.stop()
        ends.turn(0.0)
        report = self._report(ends.result(), Counters.of(ends).since(before), usage)
        await talk.send("report", **report)
        return {"size": row.size, **report}

    async def _drain(self) -> None:
        """Our own messages to the client: it keeps its transport going until it has our report."""
        self._expect(playing=True, resting=False)
        while not self._ends.turn(_TURN):
            self._drive(0.0)
            if not await self._talk.quiet():
                await self._talk.next()

    def _report(self, raw: Mapping[str, Any], counters: Mapping[str, Any], usage: Usage) -> dict[str, Any]:
        pump = self._ends.pump
        names = ("rtx", "qp_errors", "assumed_bad", "not_good", "local_rx_drops")
        return {
            "bytes": raw.get("bytes", 0),
            "messages": raw.get("messages", 0),
            "ns": max(raw["to_ns"] - raw["from_ns"], 0),
            "errors": raw["errors"],
            "cpu_process_us": int(usage.process * 1e6),
            "cpu_host_us": int(usage.host * 1e6),
            "arrived": bins_for_peer(pump.arrived()) if pump is not None and self._ends.receives else None,
            **{name: counters[name] for name in names},
        }

    def close(self) -> None:
        """Give everything back."""
        if self._opened is not None:
            self._opened.close()
