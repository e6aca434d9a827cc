"""Route netlink in one namespace: an open socket, requests packed by hand, dumps as raw messages.

pyroute2 opens a namespace by a child process and decodes every attribute; here neither is wanted. Faults have to act
within milliseconds, and what a fault takes away is put back as the very bytes the kernel told before.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import nullcontext

from softmrc.errors import MrcError
from softmrc.netns.enter import entered

__all__ = ["Message", "Rtnl", "attribute", "attributes", "devices", "flags_of", "set_up", "string"]

_REQUEST, _MULTI, _ACK, _DUMP = 0x1, 0x2, 0x4, 0x300
_ERROR, _DONE = 2, 3
_ERROR_TEXT = 1  # NLMSGERR_ATTR_MSG
_CAPPED, _HAS_ATTRIBUTES = 0x100, 0x200
_SOL_NETLINK, _EXT_ACK = 270, 11
_NESTED = 0x3FFF
_RECEIVE = 1 << 18
_AT_ONCE = 64  # requests sent before their answers are read; all answers fit into the socket's buffer

Message = tuple[int, int, bytes]
"""Type, flags beside REQUEST and ACK, and what follows the header."""


def attribute(kind: int, value: bytes) -> bytes:
    """Pack one attribute."""
    return struct.pack("=HH", len(value) + 4, kind) + value + bytes(-len(value) % 4)


def string(kind: int, value: str) -> bytes:
    """Pack one attribute of text."""
    return attribute(kind, value.encode() + b"\0")


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the attributes in `data`: kind without flags, and value."""
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            return
        yield kind & _NESTED, data[at + 4 : at + length]
        at += length + 3 & ~3


class Rtnl:
    """A route netlink socket of one namespace. Not for two threads at once."""

    def __init__(self, name: str | None) -> None:
        """Open it in the namespace of this name; None: in our own.

        Raises:
            MrcError: there is no such namespace, or it may not be entered.
        """
        self.name = name or "this host"
        with entered(name) if name is not None else nullcontext():
            kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
            self._socket = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
        self._socket.setsockopt(_SOL_NETLINK, _EXT_ACK, 1)
        self._socket.bind((0, 0))
        self._sequence = 0

    def do(self, *messages: Message, allow: Sequence[int] = ()) -> None:
        """Carry out requests in order.

        Args:
            messages: what is asked.
            allow: errno values that are fine.

        Raises:
            MrcError: one was refused; the ones before it are done, and the ones after it too.
        """
        refused: tuple[int, str] | None = None
        for start in range(0, len(messages), _AT_ONCE):
            part = messages[start : start + _AT_ONCE]
            first = self._sequence + 1
            for kind, flags, body in part:
                self._send(kind, flags | _ACK, body)
            left = set(range(first, first + len(part)))
            while left:
                for kind, flags, sequence, body in self._receive():
                    if kind != _ERROR or sequence not in left:
                        continue
                    left.discard(sequence)
                    (code,) = struct.unpack_from("=i", body)
                    if code and -code not in allow and refused is None:
                        refused = (-code, _words(body, flags))
        if refused is not None:
            code, words = refused
            raise MrcError(f"{self.name}: {os.strerror(code)}{f': {words}' if words else ''}")

    def dump(self, kind: int, body: bytes) -> list[tuple[int, bytes]]:
        """Return type and content of every message of a dump.

        Raises:
            MrcError: the kernel refuses it.
        """
        self._send(kind, _DUMP, body)
        sequence = self._sequence
        found: list[tuple[int, bytes]] = []
        while True:
            for kind, _, number, content in self._receive():
                if number != sequence:
                    continue
                if kind == _DONE:
                    return found
                if kind == _ERROR:
                    code = -struct.unpack_from("=i", content)[0]
                    raise MrcError(f"{self.name}: {os.strerror(code)}")
                found.append((kind, content))

    def _send(self, kind: int, flags: int, body: bytes) -> None:
        self._sequence += 1
        self._socket.send(
            struct.pack("=IHHII", 16 + len(body), kind, flags | _REQUEST, self._sequence, 0) + body
        )

    def _receive(self) -> Iterator[tuple[int, int, int, bytes]]:
        data = self._socket.recv(_RECEIVE)
        at = 0
        while at + 16 <= len(data):
            length, kind, flags, sequence, _ = struct.unpack_from("=IHHII", data, at)
            yield kind, flags, sequence, data[at + 16 : at + length]
            at += length + 3 & ~3

    def close(self) -> None:
        """Close the socket. Idempotent."""
        self._socket.close()


def _words(body: bytes, flags: int) -> str:
    """Return the kernel's own words about a refused request, if it has any."""
    if not flags & _HAS_ATTRIBUTES:
        return ""
    at = 20
    if not flags & _CAPPED:
        at = 4 + (struct.unpack_from("=I", body, 4)[0] + 3 & ~3)
    for kind, value in attributes(body[at:]):
        if kind == _ERROR_TEXT:
            return value.rstrip(b"\0").decode(errors="replace")
    return ""


_NEW_LINK, _GET_LINK = 16, 18
_IFNAME = 3
_UP = 1  # IFF_UP


def devices(net: Rtnl) -> dict[str, int]:
    """Return the numbers of a namespace's devices by name."""
    found = {}
    for _, body in net.dump(_GET_LINK, bytes(16)):
        (index,) = struct.unpack_from("=i", body, 4)
        for kind, value in attributes(body[16:]):
            if kind == _IFNAME:
                found[value.rstrip(b"\0").decode()] = index
    return found


def flags_of(net: Rtnl) -> dict[int, bool]:
    """Return for each device of a namespace whether it is set up."""
    return {
        struct.unpack_from("=i", body, 4)[0]: bool(struct.unpack_from("=I", body, 8)[0] & _UP)
        for _, body in net.dump(_GET_LINK, bytes(16))
    }


def set_up(index: int, up: bool) -> Message:
    """Return the request that sets a device up or down."""
    return _NEW_LINK, 0, struct.pack("=BxHiII", 0, 0, index, _UP if up else 0, _UP)
