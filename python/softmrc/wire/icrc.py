"""The invariant CRC (reference 2.16): zlib's crc32 over masked copies of the headers."""

from __future__ import annotations

import zlib

__all__ = ["icrc"]


def _masked_ip(ip: bytes) -> bytes:
    b = bytearray(ip)
    if b[0] >> 4 == 4:
        b[1] = b[8] = b[10] = b[11] = 0xFF  # TOS, TTL, header checksum
    else:
        b[0] |= 0x0F  # traffic class and flow label
        b[1:4] = b"\xff\xff\xff"
        b[7] = 0xFF  # hop limit
    return bytes(b)


def icrc(ip: bytes, udp: bytes, ib: bytes) -> bytes:
    """Compute the four bytes that end a packet.

    Args:
        ip: innermost IPv4 or IPv6 header.
        udp: UDP header, 8 bytes.
        ib: BTH .. pad, at least 12 bytes.
    """
    covered = b"\xff" * 8 + _masked_ip(ip) + udp[:6] + b"\xff\xff" + ib[:4] + b"\xff" + ib[5:]
    return zlib.crc32(covered).to_bytes(4, "little")
