"""Finds the peer.

Resolves names, tries addresses side by side with a head start for the first, retries a busy one, and retries
with smaller packets where full ones vanish.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from softmrc.endpoint.connection import Connection
from softmrc.endpoint.exchange import TcpExchange
from softmrc.endpoint.handshake import BUSY, Handshake, Refused
from softmrc.endpoint.knobs import MAX_PMTU
from softmrc.endpoint.proof import PathMtuError, smaller
from softmrc.endpoint.region import Exposed
from softmrc.endpoint.setup import establish
from softmrc.errors import PeerError, UsageError

if TYPE_CHECKING:
    from softmrc.endpoint.endpoint import Endpoint

__all__ = ["dial"]

_HEAD_START = 0.25
_log = logging.getLogger("softmrc.paths")


async def dial(
    ep: Endpoint,
    addresses: Sequence[str],
    port: int,
    *,
    expose: Exposed,
    token: bytes | None,
    timeout: float,
) -> Connection:
    """Connect over TCP.

    Raises:
        PeerError: nobody answered in time, or the peer refused.
    """
    if not addresses:
        raise UsageError("connect needs an address")
    if not 0 < port < 65536:
        raise UsageError(f"port is 1 to 65535, not {port}")
    try:
        async with asyncio.timeout(timeout):
            delay, limit = 0.05, MAX_PMTU
            while True:
                exchange = TcpExchange(*await _first(addresses, port))
                try:
                    shake = Handshake(exchange, initiator=True, software=ep.software, token=token)
                    return await establish(
                        ep, exchange, shake, initiator=True, expose=expose, pmtu_limit=limit
                    )
                except PathMtuError as error:
                    limit = _next_size(ep, error)
                    continue
                except Refused as refusal:
                    if refusal.code != BUSY:
                        raise
                finally:
                    await exchange.close()
                await asyncio.sleep(delay * random.uniform(0.5, 1.5))
                delay = min(delay * 2, 1.0)
    except TimeoutError:
        raise PeerError(f"no connection to {', '.join(addresses)} port {port} within {timeout:g} s") from None


def _next_size(ep: Endpoint, error: PathMtuError) -> int:
    size = smaller(error.pmtu)
    if size is None:
        raise error
    _log.warning("%s: %s; trying %d bytes", ep.name, error, size)
    return size


async def _first(addresses: Sequence[str], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    targets = await _resolve(addresses, port)
    failures: list[str] = []
    pending: set[asyncio.Task[tuple[asyncio.StreamReader, asyncio.StreamWriter]]] = set()
    names: dict[asyncio.Task[tuple[asyncio.StreamReader, asyncio.StreamWriter]], str] = {}
    queue = list(targets)
    try:
        while queue or pending:
            if queue:
                host = queue.pop(0)
                task = asyncio.ensure_future(asyncio.open_connection(host, port))
                names[task] = host
                pending.add(task)
            done, pending = await asyncio.wait(
                pending, timeout=_HEAD_START if queue else None, return_when=asyncio.FIRST_COMPLETED
            )
            winner = None
            for task in done:
                if task.exception() is None and winner is None:
                    winner = task.result()
                elif task.exception() is None:
                    task.result()[1].close()
                else:
                    failures.append(f"{names[task]}: {task.exception()}")
            if winner is not None:
                return winner
    finally:
        for task in pending:
            task.cancel()
            task.add_done_callback(_discard)
    raise PeerError(f"nobody listens on port {port}: {'; '.join(failures)}")


def _discard(task: asyncio.Task[tuple[asyncio.StreamReader, asyncio.StreamWriter]]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result()[1].close()


async def _resolve(addresses: Sequence[str], port: int) -> list[str]:
    loop = asyncio.get_running_loop()
    hosts: list[str] = []
    failures: list[str] = []
    for address in addresses:
        name = address.strip().removeprefix("[").removesuffix("]")
        try:
            infos = await loop.getaddrinfo(name, port, type=socket.SOCK_STREAM)
        except OSError as error:
            failures.append(f"{name}: {error}")
            continue
        for info in infos:
            host = str(info[4][0])
            # getaddrinfo keeps the scope of a link-local address in a number of its own.
            if info[0] == socket.AF_INET6 and len(info[4]) == 4 and info[4][3] and "%" not in host:
                host = f"{host}%{info[4][3]}"
            if host not in hosts:
                hosts.append(host)
    if not hosts:
        raise PeerError(f"no address found: {'; '.join(failures)}")
    return hosts
