"""A simulated frame as the packet it stands for: IPv6 (in IPv6, with uSIDs), UDP, and its own header bytes.

Header bytes of MRC and RoCEv2 are those the stacks made. What the simulation does not carry is written here: addresses
(host h in plane p is fd00:0:p::h, uSIDs stand behind the block fcbb:bb00::/32), hop limits, a UDP checksum of 0, the
iCRC of packets without payload, and all of TCP's header but what `tcp` says. Payload is never in a capture; lengths
count it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from softmrc.sim.result.pcap import Packet
from softmrc.sim.result.tcp_header import tcp_header
from softmrc.wire.icrc import icrc

__all__ = ["Frame", "packet_of"]

UDP_PORT = 4791
_BLOCK = 0xFCBB_BB00
_ICRC = 4
_IPV6, _UDP, _TCP = 41, 17, 6
_HOP_LIMIT = 64
_CE, _ECT0 = 3, 2
_RTX_BYTE, _RTX_BIT = 8, 0x20  # of the BTH
_TRIMMABLE, _TRIMMABLE_RETX = 4, 8


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
    full_udp: int = 0
    """Of a trimmed frame: UDP length before the cut, which the UDP header goes on saying; 0: not trimmed."""
    raw: bytes = b""
    """All the simulation keeps instead of headers; TCP has nothing else."""

    @classmethod
    def of(cls, record: tuple[Any, ...]) -> Frame:
        """Return the frame of one record of `Outcome.pcap`."""
        return cls(*record)


def _address(plane: int, host: int) -> bytes:
    return struct.pack(">HHHHHHI", 0xFD00, 0, plane, 0, 0, 0, host)


def _ipv6(frame: Frame, traffic_class: int, length: int, following: int, target: bytes) -> bytes:
    label = frame.tag >> 16 & 0xFFFF
    start = struct.pack(">IHBB", 6 << 28 | traffic_class << 20 | label, length, following, _HOP_LIMIT)
    return start + _address(frame.plane, frame.src) + target


def _inner_class(frame: Frame) -> int:
    """Return the traffic class behind an outer header: as sent, whatever switches did to the outer one."""
    ecn = _ECT0 if frame.ecn == _CE else frame.ecn
    if not frame.full_udp:
        return frame.dscp << 2 | ecn
    again = frame.head[_RTX_BYTE] & _RTX_BIT
    return (_TRIMMABLE_RETX if again else _TRIMMABLE) << 2 | ecn


def packet_of(frame: Frame, transport: str, mss: int = 4096) -> Packet:
    """Return the packet a frame stands for.

    Args:
        frame: as captured.
        transport: "mrc" and "rocev2" are UDP; "tcp" is TCP.
        mss: tcp only: bytes of a full segment, the unit that sequence numbers are made from.
    """
    target = _address(frame.plane, frame.dst)
    outer_class = frame.dscp << 2 | frame.ecn
    if transport == "tcp":
        body = tcp_header(frame, mss)
        length = len(body) + frame.payload
        return Packet(
            frame.at_ps // 1_000, _ipv6(frame, outer_class, length, _TCP, target) + body, 40 + length
        )
    pad = -frame.payload % 4
    length = 8 + len(frame.head) + (0 if frame.full_udp else frame.payload + pad + _ICRC)
    udp = struct.pack(">HHHH", frame.tag & 0xFFFF, UDP_PORT, frame.full_udp or length, 0)
    ip = _ipv6(frame, _inner_class(frame) if frame.sids else outer_class, length, _UDP, target)
    data = ip + udp + frame.head
    if not frame.full_udp and not frame.payload:
        data += icrc(ip, udp, frame.head)
    total = 40 + length
    if frame.sids:
        block = struct.pack(">I", _BLOCK) + b"".join(struct.pack(">H", sid) for sid in frame.sids)
        data = _ipv6(frame, outer_class, total, _IPV6, block.ljust(16, b"\0")) + data
        total += 40
    return Packet(frame.at_ps // 1_000, data, total)
