"""Many datagrams with one system call: sendmmsg and recvmmsg over one socket after another.

Decides how messages lie in memory; leaves what is in them, and on which socket they go, to the prober. For Linux
on 64 bits.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Sequence

__all__ = ["Burst"]

_MOST = 128
_SLOT = 64
_NUMBER = struct.Struct("!I")
_NAME = struct.Struct("=H2s4s16sI")
"""sockaddr_in6: family, port, flow label, address, scope."""
_AGAIN = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS)


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Message(ctypes.Structure):
    """struct mmsghdr."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("iov", ctypes.c_void_p),
        ("iov_length", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
        ("_gap", ctypes.c_uint32),
        ("length", ctypes.c_uint32),
        ("_pad", ctypes.c_uint32),
    )


_libc = ctypes.CDLL(None, use_errno=True)


class _Room:
    """Messages with a buffer each, and views to change them in place."""

    def __init__(self) -> None:
        self.data = bytearray(_MOST * _SLOT)
        start = ctypes.addressof((ctypes.c_char * len(self.data)).from_buffer(self.data))
        self._iov = (_Iovec * _MOST)(*(_Iovec(start + i * _SLOT, _SLOT) for i in range(_MOST)))
        size = ctypes.sizeof(_Message)
        memory = bytearray(_MOST * size)
        self.messages = (_Message * _MOST).from_buffer(memory)
        for i, message in enumerate(self.messages):
            message.iov = ctypes.addressof(self._iov) + i * ctypes.sizeof(_Iovec)
            message.iov_length = 1
        self.at = [ctypes.addressof(self.messages) + i * size for i in range(_MOST)]
        self.names = memoryview(memory).cast("Q")[:: size // 8]
        self.lengths = memoryview(memory).cast("I")[_Message.length.offset // 4 :: size // 4]


class Burst:
    """Sends to a fixed set of addresses, each datagram with its number, and receives what came back."""

    def __init__(self, addresses: Sequence[tuple[str, int]], head: bytes) -> None:
        """Prepare.

        Args:
            addresses: IPv6 address and port; a datagram names its own by place.
            head: what each datagram begins with, 60 bytes at most; then comes its number, 32 bits, then zeros.
        """
        self._head = head
        self._names = [
            ctypes.create_string_buffer(
                _NAME.pack(
                    socket.AF_INET6,
                    port.to_bytes(2, "big"),
                    bytes(4),
                    socket.inet_pton(socket.AF_INET6, ip),
                    0,
                )
            )
            for ip, port in addresses
        ]
        self._pointers = [ctypes.addressof(name) for name in self._names]
        self._out, self._in = _Room(), _Room()
        for i in range(_MOST):
            self._out.data[i * _SLOT : i * _SLOT + len(head)] = head
            self._out.messages[i].name_length = _NAME.size

    def send(self, fd: int, probes: Sequence[tuple[int, int]]) -> list[int]:
        """Send datagrams.

        Args:
            fd: of the socket.
            probes: place of the address, number.

        Returns:
            The numbers of those for which there was no room; whatever else hinders one, it counts as sent.
        """
        refused: list[int] = []
        at = len(self._head)
        for first in range(0, len(probes), _MOST):
            some = probes[first : first + _MOST]
            for i, (place, number) in enumerate(some):
                self._out.names[i] = self._pointers[place]
                _NUMBER.pack_into(self._out.data, i * _SLOT + at, number)
            done = 0
            while done < len(some):
                sent = _libc.sendmmsg(
                    fd, ctypes.c_void_p(self._out.at[done]), len(some) - done, socket.MSG_DONTWAIT
                )
                if sent < 0:
                    if ctypes.get_errno() in _AGAIN:
                        refused += [number for _, number in some[done:]]
                        break
                    sent = 1  # no way out of the host: its port is down
                done += sent
        return refused

    def receive(self, fd: int) -> list[int]:
        """Return the numbers of the datagrams of ours that have arrived at a socket.

        Raises:
            OSError: the socket is closed.
        """
        found: list[int] = []
        head, data = self._head, self._in.data
        while True:
            got = _libc.recvmmsg(fd, ctypes.c_void_p(self._in.at[0]), _MOST, socket.MSG_DONTWAIT, None)
            if got < 0:
                code = ctypes.get_errno()
                if code == errno.EBADF:
                    raise OSError(code, os.strerror(code))
                return found
            for i in range(got):
                at = i * _SLOT
                if self._in.lengths[i] >= len(head) + 4 and data.startswith(head, at):
                    found.append(_NUMBER.unpack_from(data, at + len(head))[0])
            if got < _MOST:
                return found
