"""Packets of chosen links as a file that Wireshark, tcpdump and scapy open.

libpcap's classic format with nanosecond times (magic 0xa1b23c4d), little-endian, one link type a file. Simulated
payload is not moved: a record has the headers, and the length that the packet has on the wire.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from softmrc.errors import UsageError
from softmrc.sim.result.outdir import write_file

__all__ = ["LINKTYPE_IPV6", "LINKTYPE_RAW", "Packet", "pcap_bytes", "write_pcap"]

LINKTYPE_RAW = 101
"""IP without a link layer, v4 or v6 by its first four bits."""
LINKTYPE_IPV6 = 229
_MAGIC_NS = 0xA1B23C4D
_SNAP = 262_144
_MAX_TIME_NS = (1 << 32) * 1_000_000_000


class Packet(NamedTuple):
    """One packet as a link carried it."""

    at_ns: int
    """When its last bit left, ns of simulated time."""
    data: bytes
    """Its first bytes, from the outermost header on."""
    length: int
    """Its length on the wire, at least that of `data`."""


def pcap_bytes(packets: Iterable[Packet], linktype: int = LINKTYPE_RAW) -> bytes:
    """Return a capture file.

    Args:
        packets: in any order; they are sorted by time.
        linktype: what `data` begins with, a LINKTYPE number.

    Raises:
        UsageError: a time that the format cannot hold (2^32 s or more), or a length below that of the data.
    """
    made = [struct.pack("<IHHiIII", _MAGIC_NS, 2, 4, 0, 0, _SNAP, linktype)]
    for packet in sorted(packets, key=lambda p: p.at_ns):
        if not 0 <= packet.at_ns < _MAX_TIME_NS:
            raise UsageError(f"a capture file holds times up to 2^32 s, not {packet.at_ns} ns")
        if packet.length < len(packet.data):
            raise UsageError(f"a packet of {packet.length} bytes cannot begin with {len(packet.data)}")
        data = packet.data[:_SNAP]
        seconds, rest = divmod(packet.at_ns, 1_000_000_000)
        made.append(struct.pack("<IIII", seconds, rest, len(data), packet.length))
        made.append(data)
    return b"".join(made)


def write_pcap(path: str | Path, packets: Iterable[Packet], linktype: int = LINKTYPE_RAW) -> None:
    """Write a capture file.

    Raises:
        UsageError: as for `pcap_bytes`.
        OSError: it cannot be written.
    """
    write_file(Path(path), pcap_bytes(packets, linktype))
