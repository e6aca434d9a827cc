"""A TCP header for a captured segment of the simulator's TCP, which counts segments and carries no header.

Real: which segment it is, what an ACK acknowledges, its SACK blocks, the source port (the flow's hash input). Written
here: the other port, sequence numbers (segment number times `mss`; both directions begin at 0), window, checksum,
urgent pointer and the time stamps, whose value is the simulated time in microseconds.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softmrc.sim.result.frames import Frame

__all__ = ["SERVER_PORT", "tcp_header"]

SERVER_PORT = 5001
_NOTE = struct.Struct(
    "<QII6I"
)  # segment; task or CE count; SACK blocks; their begins and ends above the segment
_NOTE_AT = 24
_ACK, _PSH = 0x10, 0x08
_WINDOW = 0xFFFF
_NOP, _TIMESTAMPS, _SACK = 1, 8, 5


def tcp_header(frame: Frame, mss: int) -> bytes:
    """Return the header with its options, 32 bytes and 4 + 8n for n SACK blocks.

    Args:
        frame: of the TCP stack; `raw` holds its notes.
        mss: payload bytes of a full segment.
    """
    segment, _, count, *edges = _NOTE.unpack_from(frame.raw, _NOTE_AT)
    stamp = frame.at_ps // 1_000_000 & 0xFFFFFFFF
    options = struct.pack(">BBBBII", _NOP, _NOP, _TIMESTAMPS, 10, stamp, 0)
    number = segment * mss & 0xFFFFFFFF
    if frame.payload:
        ports, numbers, flags = (frame.tag & 0xFFFF, SERVER_PORT), (number, 0), _ACK | (_PSH if count else 0)
    else:
        ports, numbers, flags = (SERVER_PORT, frame.tag & 0xFFFF), (0, number), _ACK
        blocks = [(segment + edge) * mss & 0xFFFFFFFF for edge in edges[: 2 * count]]
        if blocks:
            options += struct.pack(f">BBBB{len(blocks)}I", _NOP, _NOP, _SACK, 2 + 4 * len(blocks), *blocks)
    words = (20 + len(options)) // 4
    return struct.pack(">HHIIBBHHH", *ports, *numbers, words << 4, flags, _WINDOW, 0, 0) + options
