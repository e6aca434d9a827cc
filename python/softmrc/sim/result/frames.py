"""A simulated frame as the packet it stands for: IPv6 (in IPv6, with uSIDs), UDP, and its own header bytes.

Addresses are those of a lab: host h in plane p is fd00:0:p::h, uSIDs stand behind the block fcbb:bb00::/32. Payload and
iCRC are not part of the simulation; the lengths in the headers count them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from softmrc.sim.result.pcap import Packet

__all__ = ["Frame", "packet_of"]

UDP_PORT = 4791
_BLOCK = 0xFCBBBB00
_ICRC = 4
_IPV6, _UDP, _TCP, _NONE = 41, 17, 6, 59


class Frame(NamedTuple):
    """What the simulator keeps of a captured frame, in the order it gives it."""

    at_ps: int
    port: int
    src: int
    dst: int
    plane: int
    tag: int
    """EV: its low half is the UDP source port, its high half the flow label."""
    dscp: int
    ecn: int
    payload: int
    """Bytes of payload that are in the frame; 0 of a trimmed one."""
    size: int
    """Bytes on the wire with everything a link adds."""
    sids: Sequence[int]
    """uSIDs that are left."""
    head: bytes

    @classmethod
    def of(cls, record: tuple[Any, ...]) -> Frame:
        """Return the frame of one record of `Outcome.pcap`."""
        return cls(*record)


def _address(plane: int, host: int) -> bytes:
    return struct.pack(">HHHHHHI", 0xFD00, 0, plane, 0, 0, 0, host)


def _ipv6(frame: Frame, length: int, following: int, source: bytes, target: bytes) -> bytes:
    traffic_class = frame.dscp << 2 | frame.ecn
    label = frame.tag >> 16 & 0xFFFFF
    return (
        struct.pack(">IHBB", 6 << 28 | traffic_class << 20 | label, length, following, 64) + source + target
    )


def packet_of(frame: Frame, transport: str) -> Packet:
    """Return the packet a frame stands for.

    Args:
        frame: as captured.
        transport: "mrc" and "rocev2" are UDP; "tcp" is IPv6 with what the simulator keeps of TCP's header.
    """
    source, target = _address(frame.plane, frame.src), _address(frame.plane, frame.dst)
    if transport == "tcp":
        following = _TCP if len(frame.head) >= 20 else _NONE
        body, length = frame.head, len(frame.head) + frame.payload
    else:
        following = _UDP
        length = 8 + len(frame.head) + frame.payload + _ICRC
        body = struct.pack(">HHHH", frame.tag & 0xFFFF, UDP_PORT, length, 0) + frame.head
    data = _ipv6(frame, length, following, source, target) + body
    total = 40 + length
    if frame.sids:
        block = struct.pack(">I", _BLOCK) + b"".join(struct.pack(">H", sid) for sid in frame.sids)
        data = _ipv6(frame, total, _IPV6, source, block.ljust(16, b"\0")) + data
        total += 40
    return Packet(frame.at_ps // 1_000, data, total)
