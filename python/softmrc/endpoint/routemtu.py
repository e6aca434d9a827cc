"""What the kernel's routes say about packet sizes: an MTU that somebody set, or one that a message claimed.

Asks rtnetlink and sends nothing to the network. What is made of the answer is `pathmtu.py`'s.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["RouteMtu", "route_mtu"]

_GETROUTE, _NEWROUTE = 26, 24
_REQUEST = 1
_FIB_MATCH = 0x2000
"""The entry of the table itself, without what was learnt since."""
_DST, _SRC, _OIF, _METRICS, _CACHEINFO, _ENCAP_TYPE = 1, 2, 4, 8, 12, 21
_METRIC_MTU = 2
_HEADER, _ROUTE, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBBBBBBBI"), struct.Struct("=HH")


@dataclass(frozen=True)
class RouteMtu:
    """What a route says."""

    learnt: int | None
    """Bytes of packet that a message "too big" claimed, and that are forgotten after a while; None: no such message."""
    fixed: int | None
    """Bytes that the route itself is limited to; None: it is not."""
    encapsulated: bool
    """Packets get further headers on this route."""


def route_mtu(remote: str, local: str) -> RouteMtu | None:
    """Return what the route between two addresses says; None: there is none, or the kernel does not tell."""
    with contextlib.suppress(OSError, struct.error):
        now, entry = _ask(remote, local, 0), _ask(remote, local, _FIB_MATCH)
        if now is not None and entry is not None:
            expires = struct.unpack_from("=i", now.get(_CACHEINFO, b"").ljust(12, b"\0"), 8)[0]
            claimed, fixed = _mtu(now), _mtu(entry)
            return RouteMtu(claimed if expires else None, fixed, _ENCAP_TYPE in entry)
    return None


def _mtu(route: dict[int, bytes]) -> int | None:
    metric = dict(_attributes(route.get(_METRICS, b""))).get(_METRIC_MTU)
    return int.from_bytes(metric[:4], sys.byteorder) if metric else None


def _attribute(kind: int, data: bytes) -> bytes:
    return _ATTRIBUTE.pack(4 + len(data), kind) + data + bytes(-len(data) % 4)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        if not _ATTRIBUTE.size <= length <= len(data):
            return
        yield kind & 0x3FFF, data[4:length]
        data = data[length + -length % 4 :]


def _ask(remote: str, local: str, flags: int) -> dict[int, bytes] | None:
    to, own = ipaddress.ip_address(remote.partition("%")[0]), ipaddress.ip_address(local.partition("%")[0])
    bits = to.max_prefixlen
    family = socket.AF_INET6 if to.version == 6 else socket.AF_INET
    attributes = _attribute(_DST, to.packed) + _attribute(_SRC, own.packed)
    scope = (local.partition("%")[2] or remote.partition("%")[2]) if to.is_link_local else ""
    if scope:
        attributes += _attribute(_OIF, struct.pack("=I", socket.if_nametoindex(scope)))
    body = _ROUTE.pack(family, bits, bits, 0, 0, 0, 0, 0, flags) + attributes
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as sock:
        sock.settimeout(1.0)
        sock.send(_HEADER.pack(_HEADER.size + len(body), _GETROUTE, _REQUEST, 1, 0) + body)
        answer = sock.recv(65536)
    length, kind, *_ = _HEADER.unpack_from(answer)
    if kind != _NEWROUTE:
        return None
    return dict(_attributes(answer[_HEADER.size + _ROUTE.size : length]))
