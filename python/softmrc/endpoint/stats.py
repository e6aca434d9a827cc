"""What an endpoint and its connections report about themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "ConnectionStats",
    "EndpointStats",
    "Notification",
    "PathStats",
    "PlaneStatus",
    "Route",
    "path_table",
]


@dataclass(frozen=True, kw_only=True)
class Notification:
    """A write with immediate arrived: its bytes, and those of every write before it, are in place."""

    imm: int
    """The 32-bit immediate value of the writer."""
    length: int
    """Bytes of the message that carried the immediate (the last one of a split transfer)."""


@dataclass(frozen=True, kw_only=True)
class PathStats:
    """One entropy value (EV) of a connection. Counts since the connection was made."""

    ev: int
    """32-bit wire tag."""
    plane: int
    """1-based number of the local plane it leaves by."""
    state: str
    """One of "good", "skip", "assumed_bad" or "denied" (reference 8)."""
    active: bool
    """In the active set; False: a backup."""
    sent: int = 0
    ecn: int = 0
    trimmed: int = 0
    lost: int = 0
    probes: int = 0
    probe_acks: int = 0
    path: str = ""
    """The switches it passes, where the fabric is known: "p2 t0-0 t1-3 t0-1"."""


def path_table(
    raw: Iterable[Mapping[str, Any]], names: Mapping[tuple[int, int], str]
) -> tuple[PathStats, ...]:
    """Return the EVs of a queue pair.

    Args:
        raw: as `QP.path_stats` returns them.
        names: ways through a known fabric, by plane and EV.
    """
    return tuple(PathStats(**p, path=names.get((p["plane"], p["ev"]), "")) for p in raw)


@dataclass(frozen=True, kw_only=True)
class ConnectionStats:
    """A connection at one moment."""

    peer: str
    state: str
    """One of "open", "closing", "closed" or "failed"."""
    bytes_written: int
    """Bytes of completed transfers of this end."""
    notifications: int
    """Immediates received."""
    paths: tuple[PathStats, ...]
    rtx: int
    """Packets sent again, all causes."""
    data_tx: int
    """Data packets sent, first transmissions and repeats."""
    data_rx: int
    """Data packets received."""
    srtt: float
    """Smoothed round trip, seconds; 0: not measured yet."""
    cwnd: int
    """Congestion window, bytes."""
    inflight: int
    """Bytes in flight."""
    counters: dict[str, int] = field(default_factory=dict)
    """Every counter of the engine, by name: `tx.*`, `rx.*`, `cc.*`."""


@dataclass(frozen=True, kw_only=True)
class EndpointStats:
    """An endpoint at one moment."""

    drops: dict[str, int]
    """Datagrams dropped, by reason (reference 2.17)."""
    counters: dict[str, int]
    """Every counter of the engine and driver, by name."""
    plane_tx_bytes: dict[int, int]
    """Bytes sent, by plane."""
    plane_rx_bytes: dict[int, int]
    """Bytes received, by plane."""
    connections: int


@dataclass(frozen=True, kw_only=True)
class Route:
    """A pair of planes that a connection uses."""

    plane: int
    """1-based number of the local plane."""
    peer_plane: int
    """Number of the peer's plane, as the peer counts."""
    address: str
    """Of the peer's plane."""
    udp_port: int


@dataclass(frozen=True, kw_only=True)
class PlaneStatus:
    """A plane as the driver opened it."""

    number: int
    """1-based."""
    address: str
    udp_port: int
    up: bool
    flow_labels: bool
    """EVs by IPv6 flow label; False: by source port."""
    mtu: int
    """Of the link, bytes of IP packet; 0: unknown."""
    rcvbuf: int
    """Receive buffer granted, bytes."""
    sndbuf: int
    """Send buffer granted, bytes."""
    evs: tuple[int, ...]
    """Wire tags of its entropy values."""
