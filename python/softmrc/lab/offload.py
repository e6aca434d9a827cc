"""Switches single offloads of a device off, by the ethtool ioctl; the caller is in the device's namespace."""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from collections.abc import Sequence
from functools import cache

from softmrc.errors import MrcError

__all__ = ["split_bursts", "split_datagrams"]

_SIOCETHTOOL = 0x8946
_COUNT, _STRINGS, _SET = 0x37, 0x1B, 0x3B  # ETHTOOL_GSSET_INFO, ETHTOOL_GSTRINGS, ETHTOOL_SFEATURES
_FEATURES = 4  # ETH_SS_FEATURES
_NAME_BYTES = 32
_DATAGRAMS = (b"tx-udp-segmentation",)
_BURSTS = (*_DATAGRAMS, b"tx-tcp-segmentation", b"tx-tcp6-segmentation")


def _ask(sock: socket.socket, dev: str, data: bytes) -> bytes:
    buffer = array.array("B", data)
    fcntl.ioctl(sock, _SIOCETHTOOL, struct.pack("16sP16x", dev.encode(), buffer.buffer_info()[0]))
    return buffer.tobytes()


@cache
def _numbers(dev: str) -> tuple[tuple[bytes, ...], int]:
    """Return the names of features in order, and how many there are; both are the kernel's, not the device's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        answer = _ask(sock, dev, struct.pack("=IIQI", _COUNT, 0, 1 << _FEATURES, 0))
        count = struct.unpack_from("=I", answer, 16)[0]
        names = _ask(sock, dev, struct.pack("=III", _STRINGS, _FEATURES, count) + bytes(count * _NAME_BYTES))[
            12:
        ]
    return tuple(names[i * _NAME_BYTES :][:_NAME_BYTES].rstrip(b"\0") for i in range(count)), count


def split_datagrams(dev: str) -> None:
    """Let the kernel split runs of UDP datagrams (UDP_SEGMENT) before they leave by this device.

    Raises:
        MrcError: the system refused.
    """
    _switch_off(dev, _DATAGRAMS)


def split_bursts(dev: str) -> None:
    """Let it split bursts of TCP as well: whoever reads from the other end sees packets.

    Raises:
        MrcError: the system refused.
    """
    _switch_off(dev, _BURSTS)


def _switch_off(dev: str, features: Sequence[bytes]) -> None:
    try:
        names, count = _numbers(dev)
        blocks = [[0, 0] for _ in range((count + 31) // 32)]
        for number in map(names.index, features):
            blocks[number // 32][0] |= 1 << number % 32
        packed = b"".join(struct.pack("=II", *block) for block in blocks)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            _ask(sock, dev, struct.pack("=II", _SET, len(blocks)) + packed)
    except (OSError, ValueError) as error:
        wanted = ", ".join(f.decode() for f in features)
        raise MrcError(f"{dev}: {wanted} off: {error}") from None
