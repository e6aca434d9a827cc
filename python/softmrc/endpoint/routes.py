"""Which local address the kernel's routes give a destination (B27, B28). Sends nothing."""

from __future__ import annotations

import contextlib
import ipaddress
import socket

__all__ = ["connected", "source_toward"]

DISCARD = 9
"""Port nobody answers on; a datagram there does no harm."""


def connected(remote: str, local: str | None = None) -> socket.socket:
    """Return a UDP socket connected to the discard port of an address.

    Args:
        remote: an address; one that is link-local has its scope or takes that of `local`.
        local: address to bind; None: the one of the route.

    Raises:
        OSError: no route, no such address.
    """
    if local is not None and "%" in local and "%" not in remote:
        remote = f"{remote}%{local.partition('%')[2]}"
    family, _, _, _, target = socket.getaddrinfo(
        remote, DISCARD, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST
    )[0]
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        if local is not None:
            info = socket.getaddrinfo(local, 0, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST)[0]
            sock.bind(info[4])
        sock.connect(target)
    except BaseException:
        sock.close()
        raise
    return sock


def source_toward(remote: str) -> str | None:
    """Return the local address, with scope when link-local, that packets to `remote` leave from; None: no route.

    Loopback and the addresses of this host itself lead to themselves.
    """
    if ipaddress.ip_address(remote).is_loopback:
        return remote
    with contextlib.suppress(OSError), connected(remote) as sock:
        name = sock.getsockname()
        local = str(name[0])
        if sock.family == socket.AF_INET6 and name[3] and "%" not in local:
            local = f"{local}%{socket.if_indextoname(name[3])}"
        return local
    return None
