"""Switches single offloads of a device off, by the ethtool ioctl; the caller is in the device's namespace."""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from functools import cache

from softmrc.errors import MrcError

__all__ = ["split_datagrams"]

_SIOCETHTOOL = 0x8946
_COUNT, _STRINGS, _SET = 0x37, 0x1B, 0x3B  # ETHTOOL_GSSET_INFO, ETHTOOL_GSTRINGS, ETHTOOL_SFEATURES
_FEATURES = 4  # ETH_SS_FEATURES
_NAME_BYTES = 32
_WANTED = b"tx-udp-segmentation"


def _ask(sock: socket.socket, dev: str, data: bytes) -> bytes:
    buffer = array.array("B", data)
    fcntl.ioctl(sock, _SIOCETHTOOL, struct.pack("16sP16x", dev.encode(), buffer.buffer_info()[0]))
    return buffer.tobytes()


@cache
def _number(dev: str) -> tuple[int, int]:
    """Return the number of the feature, and how many there are; both are the kernel's, not the device's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        answer = _ask(sock, dev, struct.pack("=IIQI", _COUNT, 0, 1 << _FEATURES, 0))
        count = struct.unpack_from("=I", answer, 16)[0]
        names = _ask(sock, dev, struct.pack("=III", _STRINGS, _FEATURES, count) + bytes(count * _NAME_BYTES))[
            12:
        ]
    found = [names[i * _NAME_BYTES :][:_NAME_BYTES].rstrip(b"\0") for i in range(count)]
    return found.index(_WANTED), count


def split_datagrams(dev: str) -> None:
    """Let the kernel split runs of UDP datagrams (UDP_SEGMENT) before they leave by this device.

    Raises:
        MrcError: the system refused.
    """
    try:
        number, count = _number(dev)
        blocks = [[0, 0] for _ in range((count + 31) // 32)]
        blocks[number // 32][0] = 1 << number % 32
        packed = b"".join(struct.pack("=II", *block) for block in blocks)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            _ask(sock, dev, struct.pack("=II", _SET, len(blocks)) + packed)
    except (OSError, ValueError) as error:
        raise MrcError(f"{dev}: tx-udp-segmentation off: {error}") from None
