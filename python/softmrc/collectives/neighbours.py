"""Which ranks share this host's memory, and their process numbers as the kernel tells them.

Decides between which pairs large messages may be copied from process to process instead of going over loopback: same
boot, network and process namespace, same user, both ends willing. The number of a process is that of the other end of
a Unix socket (SO_PEERCRED), never what a rank says of itself; who meets there proves the ranks' token. The copying is
the core's, which goes back to the network where the kernel forbids it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import hashlib
import hmac
import os
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from softmrc.collectives.choose import Card, host_identity
from softmrc.collectives.peers import dials
from softmrc.endpoint.hub import Hub

__all__ = ["LOCAL", "locality", "meet_neighbours"]

LOCAL = "SOFTMRC_LOCAL"
_PLANES, _FABRIC = "SOFTMRC_PLANES", "SOFTMRC_FABRIC"
_CREDENTIALS = struct.Struct("iII")  # struct ucred: pid, uid, gid
_MAC = 32
_PATIENCE = 5.0
_PR_SET_PTRACER = 0x59616D61
_YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")


def locality(wanted: bool | None, environ: Mapping[str, str] | None = None) -> str:
    """Return what two ranks share exactly when they may copy from one to the other; "" when this one will not.

    Args:
        wanted: by the program; None: yes, unless SOFTMRC_LOCAL is 0.
        environ: variables; None: of this process.
    """
    env = os.environ if environ is None else environ
    if not (env.get(LOCAL, "1") not in ("0", "off", "no") if wanted is None else wanted):
        return ""
    pids = os.stat("/proc/self/ns/pid")
    # Hosts of a lab may be processes of one host; each has its own planes.
    where = env.get(_PLANES, "") if env.get(_FABRIC) else ""
    return f"{host_identity()}/{pids.st_dev}:{pids.st_ino}/{os.geteuid()}/{where}"


def meet_neighbours(
    hub: Hub, cards: Sequence[Card], rank: int, token: bytes, timeout: float
) -> dict[int, int]:
    """Meet the ranks of this host.

    Args:
        hub: of the endpoint.
        cards: of all ranks.
        rank: of this end.
        token: shared by the ranks.
        timeout: seconds, of which at most five are waited; who has not come by then is left out.

    Returns:
        Process numbers by rank; a rank that is not in it is reached over the network as any other.
    """
    mine = cards[rank].memory
    ranks = [r for r, card in enumerate(cards) if r != rank and mine and card.memory == mine]
    if not ranks:
        return {}
    pids = hub.run(_Meeting(rank, ranks, token).meet(time.monotonic() + min(timeout, _PATIENCE)))
    _let_in(list(pids.values()))
    return pids


class _Meeting:
    """The sockets, while ranks meet."""

    def __init__(self, rank: int, ranks: Sequence[int], token: bytes) -> None:
        self._rank, self._ranks, self._token = rank, ranks, token
        self._pids: dict[int, int] = {}

    async def meet(self, end: float) -> dict[int, int]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as door:
            door.bind(self._name(self._rank))
            door.listen(len(self._ranks))
            tasks = [asyncio.ensure_future(self._receive(door))]
            tasks += [asyncio.ensure_future(self._visit(r, end)) for r in self._ranks if dials(self._rank, r)]
            try:
                while len(self._pids) < len(self._ranks) and time.monotonic() < end:
                    await asyncio.sleep(0.002)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        return self._pids

    def _name(self, rank: int) -> bytes:
        return b"\0softmrc-" + self._mac(b"door", rank, rank).hex()[:32].encode()

    def _mac(self, what: bytes, sender: int, receiver: int) -> bytes:
        said = b"softmrc memory %b %d %d" % (what, sender, receiver)
        return hmac.new(self._token, said, hashlib.sha256).digest()

    async def _receive(self, door: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            guest, _ = await loop.sock_accept(door)
            with guest, contextlib.suppress(OSError, TimeoutError):
                guest.setblocking(False)
                async with asyncio.timeout(2.0):
                    said = await _exactly(guest, _MAC)
                    for rank in self._ranks:
                        if hmac.compare_digest(said, self._mac(b"hello", rank, self._rank)):
                            await loop.sock_sendall(guest, self._mac(b"welcome", self._rank, rank))
                            self._note(rank, guest)

    async def _visit(self, rank: int, end: float) -> None:
        loop = asyncio.get_running_loop()
        while time.monotonic() < end:
            with (
                contextlib.suppress(OSError, TimeoutError),
                socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as sock,
            ):
                async with asyncio.timeout(2.0):
                    await loop.sock_connect(sock, self._name(rank))
                    await loop.sock_sendall(sock, self._mac(b"hello", self._rank, rank))
                    if hmac.compare_digest(
                        await _exactly(sock, _MAC), self._mac(b"welcome", rank, self._rank)
                    ):
                        self._note(rank, sock)
                        return
            await asyncio.sleep(0.005)

    def _note(self, rank: int, sock: socket.socket) -> None:
        given = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _ = _CREDENTIALS.unpack(given)
        if uid == os.geteuid() and pid > 0:
            self._pids[rank] = pid


async def _exactly(sock: socket.socket, size: int) -> bytes:
    loop = asyncio.get_running_loop()
    out = b""
    while len(out) < size:
        piece = await loop.sock_recv(sock, size - len(out))
        if not piece:
            raise ConnectionResetError("closed")
        out += piece
    return out


def _let_in(pids: Sequence[int]) -> None:
    """Where the kernel allows a process one other that may reach its memory (Yama, scope 1), name it.

    One neighbour is named itself. Several are only let in together when a parent, their own and ours, started all of
    them: the kernel takes its descendants along. Else nobody is, and the network carries everything.
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if not _YAMA.exists() or int(_YAMA.read_text()) != 1:
            return
        others = {pid for pid in pids if pid != os.getpid()}
        if len(others) == 1:
            who = others.pop()
        elif others and all(_parent(pid) == os.getppid() for pid in others):
            who = os.getppid()
        else:
            return
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(who), 0, 0, 0)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
