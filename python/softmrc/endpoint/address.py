"""Planes and how their addresses are written."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Plane"]


@dataclass(frozen=True, kw_only=True)
class Plane:
    """One plane of an endpoint: a local address on one network (reference 1.2)."""

    address: str
    """IPv4 or IPv6 address, with a scope when link-local: "127.0.0.1", "fd00::1", "fe80::1%eth1"."""
    udp_port: int | None = None
    """UDP port; None: the endpoint's; 0: the kernel picks one."""
    evs: int | None = None
    """Entropy values of the plane; None: the endpoint's."""
    bits_per_second: int = 0
    """Link rate, 0: unknown."""
    force_source_ports: bool = False
    """IPv6: EVs by source ports instead of flow labels."""
