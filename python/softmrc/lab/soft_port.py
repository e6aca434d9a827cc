"""A UDP socket of a host in a user-space lab, for programs of ours that send single packets along given paths.

Speaks with the switch as every endpoint does: each packet is the payload of a loopback datagram, with its own IPv6 and
UDP headers; see core/wire/gateway.h.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
import struct
import time
from ipaddress import IPv6Address
from types import TracebackType

from softmrc.errors import MrcError

__all__ = ["SoftSocket"]

_MESSAGE = struct.Struct("!4sBBHQ16sIIQ")
_MAGIC, _VERSION = b"MRCG", 1
_BIND, _BOUND, _REFUSED, _RELEASE = 1, 2, 3, 4
_IPV6 = struct.Struct("!IHBB16s16s")
_UDP = struct.Struct("!HHHH")
_HEADERS = _IPV6.size + _UDP.size
_NEXT_UDP = 17
_HOP_LIMIT = 64
_TRIES, _TRY_S = 10, 0.1


class SoftSocket:
    """Bound to a host's address in a plane; looks like a UDP socket as far as a prober needs one."""

    def __init__(self, gateway: str, address: str, port: int = 0) -> None:
        """Bind.

        Args:
            gateway: the switch's socket for this host and plane, `127.70.255.1:40001`.
            address: of the host in the plane.
            port: UDP port; 0: the switch chooses.

        Raises:
            MrcError: the switch does not answer, or refused.
        """
        self._address = IPv6Address(address)
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        host, _, number = gateway.rpartition(":")
        try:
            self._sock.connect((host, int(number)))
            self._port = self._bind(port)
        except BaseException:
            self._sock.close()
            raise

    def _bind(self, port: int) -> int:
        cookie = secrets.randbits(64)
        ask = _MESSAGE.pack(_MAGIC, _VERSION, _BIND, port, cookie, self._address.packed, 0, 0, 0)
        self._sock.settimeout(_TRY_S)
        for _ in range(_TRIES):
            try:
                self._sock.send(ask)
                end = time.monotonic() + _TRY_S
                while time.monotonic() < end:
                    answer = self._sock.recv(65536)
                    if len(answer) != _MESSAGE.size:
                        continue
                    magic, _, verb, got, its, _, value, _, _ = _MESSAGE.unpack(answer)
                    if magic != _MAGIC or its != cookie:
                        continue
                    if verb == _BOUND:
                        self._sock.settimeout(None)
                        return int(got)
                    raise MrcError(f"{self._address} port {port}: {os.strerror(value or errno.EPROTO)}")
            except TimeoutError:
                continue
            except OSError as error:
                raise MrcError(f"{self._address}: the switch is gone ({error.strerror})") from None
        raise MrcError(f"{self._address}: the switch does not answer")

    def getsockname(self) -> tuple[str, int]:
        """Return address and port."""
        return str(self._address), self._port

    def fileno(self) -> int:
        """Return the descriptor, readable when something has arrived."""
        return self._sock.fileno()

    def setblocking(self, blocking: bool) -> None:
        """Choose whether receiving waits."""
        self._sock.setblocking(blocking)

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """Accept options of a socket; hop limits are always told."""

    def sendto(self, data: bytes, to: tuple[str, int]) -> int:
        """Send a datagram to an address or along a uSID list."""
        length = _UDP.size + len(data)
        packet = _IPV6.pack(
            6 << 28, length, _NEXT_UDP, _HOP_LIMIT, self._address.packed, IPv6Address(to[0]).packed
        )
        self._sock.send(packet + _UDP.pack(self._port, to[1], length, 0) + data)
        return len(data)

    def recvmsg(
        self, size: int, _room: int = 0, _flags: int = 0
    ) -> tuple[bytes, list[tuple[int, int, bytes]], int, tuple[str, int]]:
        """Receive a datagram, its hop limit as ancillary data, and who sent it.

        Raises:
            BlockingIOError: nothing has arrived.
        """
        while True:
            packet = self._sock.recv(size + _HEADERS)
            if len(packet) < _HEADERS or packet[0] >> 4 != 6:
                continue  # a message of the switch
            _, _, _, hops, source, _ = _IPV6.unpack_from(packet)
            port = _UDP.unpack_from(packet, _IPV6.size)[0]
            extra = [(socket.IPPROTO_IPV6, socket.IPV6_HOPLIMIT, hops.to_bytes(4, "little"))]
            return packet[_HEADERS:], extra, 0, (str(IPv6Address(source)), port)

    def close(self) -> None:
        """Give the port back."""
        if self._sock.fileno() >= 0:
            bye = _MESSAGE.pack(_MAGIC, _VERSION, _RELEASE, self._port, 0, self._address.packed, 0, 0, 0)
            try:
                self._sock.send(bye)
            except OSError:  # the switch is gone, and the port with it
                pass
            finally:
                self._sock.close()

    def __enter__(self) -> SoftSocket:
        """Enter: nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close."""
        self.close()
