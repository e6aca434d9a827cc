"""What a device takes with it when it is set down, told by the kernel before, and put back as the same bytes after.

Routes, permanent neighbours and addresses over the device vanish; nothing here has to understand them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

from softmrc.lab.rtnl import Message, Rtnl, attribute, attributes

__all__ = ["missing_of", "save"]

_INET6 = 10
_NEW_ADDRESS, _GET_ADDRESS = 20, 22
_NEW_ROUTE, _GET_ROUTE = 24, 26
_NEW_NEIGHBOUR, _GET_NEIGHBOUR = 28, 30
_CREATE, _REPLACE = 0x400, 0x100
_PERMANENT = 0x80
_BY_KERNEL = 2  # RTPROT_KERNEL: the kernel makes these itself when the device is up
_CLONED = 0x200
_LINK_LOCAL = 253  # RT_SCOPE_LINK: addresses that the kernel makes itself
_OIF, _MULTIPATH, _ROUTE_CACHE, _NEIGHBOUR_CACHE, _NEIGHBOUR_PROBES, _ADDRESS_CACHE = 4, 9, 12, 3, 4, 6
_LEG = struct.Struct("=HBBi")


def save(net: Rtnl) -> dict[str, list[str]]:
    """Return the routes, permanent neighbours and addresses of a namespace that are not the kernel's own."""
    family = struct.pack("=B", _INET6)
    return {
        "routes": [b.hex() for _, b in net.dump(_GET_ROUTE, family + bytes(11)) if _ours(b)],
        "neighbours": [
            b.hex()
            for _, b in net.dump(_GET_NEIGHBOUR, family + bytes(11))
            if struct.unpack_from("=H", b, 8)[0] & _PERMANENT
        ],
        "addresses": [b.hex() for _, b in net.dump(_GET_ADDRESS, family + bytes(7)) if b[3] != _LINK_LOCAL],
    }


def _ours(route: bytes) -> bool:
    (flags,) = struct.unpack_from("=I", route, 8)
    return route[5] != _BY_KERNEL and not flags & _CLONED


def missing_of(saved: dict[str, Any], index: int, up: Callable[[int], bool]) -> Iterator[Message]:
    """Yield the requests that put back what a device took with it; what is there stays as it is.

    Args:
        saved: what `save` returned.
        index: of the device, which is up again.
        up: tells whether a device is; legs of multipath routes over other ones have to wait for them.
    """
    for text in saved["addresses"]:
        body = bytes.fromhex(text)
        if struct.unpack_from("=I", body, 4)[0] == index:
            yield _NEW_ADDRESS, _CREATE | _REPLACE, body[:8] + _without(body[8:], _ADDRESS_CACHE)
    for text in saved["neighbours"]:
        body = bytes.fromhex(text)
        if struct.unpack_from("=i", body, 4)[0] == index:
            left = _without(body[12:], _NEIGHBOUR_CACHE, _NEIGHBOUR_PROBES)
            yield _NEW_NEIGHBOUR, _CREATE | _REPLACE, body[:12] + left
    for text in saved["routes"]:
        body = bytes.fromhex(text)
        if index in _devices(body[12:]):
            head = body[:8] + struct.pack("=I", 0)
            yield _NEW_ROUTE, _CREATE | _REPLACE, head + _with_legs(_without(body[12:], _ROUTE_CACHE), up)


def _without(data: bytes, *kinds: int) -> bytes:
    return b"".join(attribute(kind, value) for kind, value in attributes(data) if kind not in kinds)


def _devices(data: bytes) -> set[int]:
    found = set()
    for kind, value in attributes(data):
        if kind == _OIF:
            found.add(struct.unpack("=i", value)[0])
        elif kind == _MULTIPATH:
            found |= {device for device, _ in _legs(value)}
    return found


def _legs(value: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _LEG.size <= len(value):
        length, _, _, device = _LEG.unpack_from(value, at)
        yield device, value[at : at + length]
        at += length + 3 & ~3


def _with_legs(data: bytes, up: Callable[[int], bool]) -> bytes:
    found = b""
    for kind, value in attributes(data):
        if kind == _MULTIPATH:
            legs = [leg for device, leg in _legs(value) if up(device)]
            # The flags of a leg (dead, linkdown) tell how it was, not how it is to be.
            value = b"".join(leg[:2] + b"\0" + leg[3:] + bytes(-len(leg) % 4) for leg in legs)
        found += attribute(kind, value)
    return found
