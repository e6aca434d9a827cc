"""A simulated frame as the packet it stands for: IPv6, UDP, and its own header bytes.

Under SRv6 the uSID list is the destination address, as it is at that hop; there is no outer header. Header bytes of
MRC and RoCEv2 are those the stacks made. What the simulation does not carry is written here: addresses (host h in plane
p is fd00:0:p::h, uSIDs stand behind the block fcbb:bb00::/32), hop limits, a UDP checksum of 0, the iCRC of packets
without payload (it covers the destination that is left at the end), and all of TCP's header but what `tcp_header` says.
Payload is never in a capture; lengths count it.
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
_UDP, _TCP = 17, 6
_HOP_LIMIT = 64


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


def _target(frame: Frame, sids: Sequence[int]) -> bytes:
    if not frame.sids:
        return _address(frame.plane, frame.dst)
    return struct.pack(f">I{len(sids)}H", _BLOCK, *sids).ljust(16, b"\0")


def _ipv6(frame: Frame, length: int, following: int, sids: Sequence[int]) -> bytes:
    traffic_class, label = frame.dscp << 2 | frame.ecn, frame.tag >> 16 & 0xFFFF
    start = struct.pack(">IHBB", 6 << 28 | traffic_class << 20 | label, length, following, _HOP_LIMIT)
    return start + _address(frame.plane, frame.src) + _target(frame, sids)


def packet_of(frame: Frame, transport: str, mss: int = 4096) -> Packet:
    """Return the packet a frame stands for.

    Args:
        frame: as captured.
        transport: "mrc" and "rocev2" are UDP; "tcp" is TCP.
        mss: tcp only: bytes of a full segment, the unit that sequence numbers are made from.
    """
    if transport == "tcp":
        body = tcp_header(frame, mss)
        length = len(body) + frame.payload
        return Packet(frame.at_ps // 1_000, _ipv6(frame, length, _TCP, ()) + body, 40 + length)
    pad = frame.head[1] >> 4 & 3  # of the BTH
    length = 8 + len(frame.head) + (0 if frame.full_udp else frame.payload + pad + _ICRC)
    udp = struct.pack(">HHHH", frame.tag & 0xFFFF, UDP_PORT, frame.full_udp or length, 0)
    data = _ipv6(frame, length, _UDP, frame.sids) + udp + frame.head
    if not frame.full_udp and not frame.payload:
        data += icrc(_ipv6(frame, length, _UDP, frame.sids[-1:]), udp, frame.head)
    return Packet(frame.at_ps // 1_000, data, 40 + length)
