"""The loopback device under a user-space lab: down in a fresh network namespace (`unshare -Urn`), up elsewhere."""

from __future__ import annotations

import fcntl
import os
import socket
import struct

from softmrc.errors import UsageError

__all__ = ["raise_loopback"]

_GET_FLAGS, _SET_FLAGS = 0x8913, 0x8914
_UP = 0x1
_REQUEST = struct.Struct("16sH22x")


def raise_loopback() -> None:
    """Set the loopback device up if it is down.

    Raises:
        UsageError: it is down, and this process may not change that.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        _, flags = _REQUEST.unpack(fcntl.ioctl(sock, _GET_FLAGS, _REQUEST.pack(b"lo", 0)))
        if flags & _UP:
            return
        try:
            fcntl.ioctl(sock, _SET_FLAGS, _REQUEST.pack(b"lo", flags | _UP))
        except OSError as error:
            raise UsageError(
                f"the loopback device is down in this network namespace ({os.strerror(error.errno or 1)}): "
                "ip link set lo up, as its root"
            ) from None
