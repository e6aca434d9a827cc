"""Captures of the links that were to be captured: one file a directed link."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from softmrc.sim.result.frames import Frame, packet_of
from softmrc.sim.result.pcap import LINKTYPE_RAW, Packet, write_pcap

if TYPE_CHECKING:
    from softmrc.sim.result.model import Result

__all__ = ["file_name", "write_captures"]


def file_name(link: str) -> str:
    """Return the name of a link's file: what is neither letter, digit, dot nor dash becomes a dash."""
    return re.sub(r"[^\w.-]+", "-", link) + ".pcap"


def write_captures(result: Result, folder: Path) -> list[Path]:
    """Write what the links carried and return the files.

    Raises:
        UsageError: a simulated time that a capture cannot hold.
        OSError: the disk is full.
    """
    settings = result.settings.get("transport")
    mss = int(settings.get("mss", 4096)) if isinstance(settings, Mapping) else 4096
    kind = result.transport.partition(":")[0]
    of_link: dict[str, list[Packet]] = {}
    for record in result.outcome.pcap:
        frame = Frame.of(record)
        name = result.outcome.link_name(frame.port)
        of_link.setdefault(name, []).append(packet_of(frame, kind, mss))
    made = []
    for name, packets in sorted(of_link.items()):
        made.append(folder / file_name(name))
        write_pcap(made[-1], packets, LINKTYPE_RAW)
    return made
