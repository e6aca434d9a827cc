"""How large a packet a path carries, asked of the network while a connection is being made (B26).

Decides what is asked and believed; what is agreed from it is `setup.py`'s. A datagram as large as the link, not
to be fragmented, goes to the peer's discard port. A router it is too big for says so and the kernel remembers;
the peer's "port unreachable" says that it arrived. What the kernel remembers may be forged, or no longer so: it is
tried again past its memory, and what arrives counts. Answers forged in that very moment, by somebody who sees the
question, can only make a connection's packets smaller; the driver's sockets do not listen to any.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket
import struct
from collections.abc import Mapping, Sequence

from softmrc.endpoint.routemtu import route_mtu
from softmrc.endpoint.routes import connected

__all__ = ["known_path_mtu", "mtu_cause", "overhead", "path_mtu", "path_mtus"]

# Linux; the socket module does not know them.
_DISCOVER = {socket.AF_INET: (socket.IPPROTO_IP, 10), socket.AF_INET6: (socket.IPPROTO_IPV6, 23)}
_MTU = {socket.AF_INET: (socket.IPPROTO_IP, 14), socket.AF_INET6: (socket.IPPROTO_IPV6, 24)}
_HEADERS = {socket.AF_INET: 28, socket.AF_INET6: 48}
_RECVERR = {socket.AF_INET: (socket.IPPROTO_IP, 11), socket.AF_INET6: (socket.IPPROTO_IPV6, 25)}
_DO = 2  # never fragment, and heed what routers say
_PROBE = 3  # never fragment, and send whatever the link takes
_ERROR_QUEUE = 0x2000
_PATIENCE = 0.05
_TRIES = 2
_MAX_DATAGRAMS = 8
# Reference 2.1: BTH, METH, TSETH, RETH, ImmDt, iCRC around a payload, and IP and UDP around those.
_OVERHEAD_V6, _OVERHEAD_V4 = 92, 72


def overhead(address: str) -> int:
    """Return the bytes of IP packet around a full payload."""
    return _OVERHEAD_V6 if ":" in address else _OVERHEAD_V4


async def path_mtu(local: str, remote: str, link_mtu: int) -> int:
    """Return the size of the largest IP packet from `local` to `remote`, as far as anybody says.

    Takes one round trip where the peer answers, `_TRIES * _PATIENCE` s where nobody does, more where several
    links are smaller one after the other.

    Args:
        local: address of a plane.
        remote: address of the peer's.
        link_mtu: bytes; what is found is never more.
    """
    if ipaddress.ip_address(remote).is_loopback:
        return link_mtu
    found = link_mtu
    # An address that is gone or unreachable is no matter of size: the connection tells, or does without it.
    with contextlib.suppress(OSError), connected(remote, local) as sock:
        sock.setblocking(False)
        if min(link_mtu, sock.getsockopt(*_MTU[sock.family])) < link_mtu:
            arrived = await _past_memory(local, remote, link_mtu)
            if arrived is not None:
                return arrived
        sock.setsockopt(*_DISCOVER[sock.family], _DO)
        unheard = 0
        for _ in range(_MAX_DATAGRAMS):
            found = min(link_mtu, sock.getsockopt(*_MTU[sock.family]))
            said = await _send(sock, found)
            if said == errno.ECONNREFUSED:
                break  # arrived
            unheard += said == 0
            if unheard >= _TRIES:
                break
        found = min(link_mtu, sock.getsockopt(*_MTU[sock.family]))
    return found


async def _past_memory(local: str, remote: str, link_mtu: int) -> int | None:
    """Return the largest packet that arrives whatever the kernel remembers; None: nothing beyond that does."""
    route = route_mtu(remote, local)
    if route is None or route.learnt is None or route.encapsulated:
        return None
    size, unheard = min(link_mtu, route.fixed or link_mtu), 0
    with contextlib.suppress(OSError), connected(remote, local) as sock:
        sock.setblocking(False)
        sock.setsockopt(*_DISCOVER[sock.family], _PROBE)
        sock.setsockopt(*_RECVERR[sock.family], 1)
        for _ in range(_MAX_DATAGRAMS):
            if size <= route.learnt:
                return None
            said = await _send(sock, size)
            told = _told(sock)
            if said == errno.ECONNREFUSED:
                return size
            unheard += said != errno.EMSGSIZE or not 0 < told < size
            if unheard >= _TRIES:
                return None
            size = told if 0 < told < size else size
    return None


def _told(sock: socket.socket) -> int:
    """Return the size that the last "too big" on a socket named, bytes of packet; 0: none."""
    told = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            _, control, _, _ = sock.recvmsg(0, 512, _ERROR_QUEUE)
            for level, kind, data in control:
                if (level, kind) == _RECVERR[sock.family] and len(data) >= 16:
                    number, _, size, _ = struct.unpack_from("=IIII", data)
                    told = size if number == errno.EMSGSIZE else told
    return told


async def _send(sock: socket.socket, size: int) -> int:
    """Send a packet of that size and wait for what is said about it: an errno, 0: nothing."""
    try:
        sock.send(bytes(size - _HEADERS[sock.family]))
    except OSError as error:
        if error.errno in (errno.EMSGSIZE, errno.ECONNREFUSED):
            return error.errno
        raise
    loop = asyncio.get_running_loop()
    heard = asyncio.Event()
    loop.add_reader(sock, heard.set)
    try:
        await asyncio.wait_for(heard.wait(), _PATIENCE)
    except TimeoutError:
        return 0
    finally:
        loop.remove_reader(sock)
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


async def path_mtus(
    pairs: Sequence[tuple[int, int]], ours: Mapping[int, tuple[str, int]], theirs: Mapping[int, str]
) -> dict[int, int]:
    """Ask about all pairs of planes at once.

    Args:
        pairs: number of our plane, number of the peer's.
        ours: address and link MTU of our planes, by number; MTU 0: unknown.
        theirs: addresses of the peer's.

    Returns:
        Bytes of IP packet, by number of our plane.
    """
    asked = [path_mtu(ours[mine][0], theirs[its], ours[mine][1] or 1500) for mine, its in pairs]
    return dict(zip((mine for mine, _ in pairs), await asyncio.gather(*asked), strict=True))


def known_path_mtu(local: str, remote: str) -> int | None:
    """Return what the kernel has learnt about a path, sending nothing; None: there is no way."""
    with contextlib.suppress(OSError), connected(remote, local) as sock:
        return sock.getsockopt(*_MTU[sock.family])
    return None


def mtu_cause(routes: Sequence[tuple[str, str]], pmtu: int, refused: int) -> str:
    """Say whether packets that had become too large explain a lost connection; "" when nothing hints at it.

    Args:
        routes: local and remote address of each pair of planes.
        pmtu: payload of a full packet of the connection.
        refused: sends this host refused as too large since the connection was made.
    """
    small = []
    for local, remote in routes:
        size = known_path_mtu(local, remote)
        if size is not None and size < pmtu + overhead(remote):
            small.append(f"{local} to {remote} carries {size}")
    if not small and not refused:
        return ""
    why = "; ".join(small) or f"{refused} sends were refused as too large for the link (EMSGSIZE)"
    full = pmtu + (overhead(routes[0][1]) if routes else _OVERHEAD_V6)
    return (
        f"The MTU of a path has become too small: {why}, full packets of this connection have {full} bytes. "
        "A connection keeps its packet size: connect anew"
    )
