"""The network interfaces of this host, as the kernel tells them now."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from softmrc._core import probe_interfaces

__all__ = ["Interface", "host_interfaces"]

_SYSFS = Path("/sys/class/net")
# A bridge of containers or virtual machines, or a tunnel's end: nothing a fabric is attached to.
_VIRTUAL = ("bridge", "tun_flags")


@dataclass(frozen=True, kw_only=True)
class Interface:
    """One network interface."""

    name: str
    up: bool
    """Administratively up and with carrier."""
    loopback: bool
    virtual: bool
    """A bridge, tun or tap: used only when named."""
    mtu: int
    """Bytes of an IP packet."""
    addresses: tuple[str, ...]
    """IPv4 and IPv6; link-local IPv6 with scope, "fe80::1%eth1"."""


def host_interfaces() -> list[Interface]:
    """Return the interfaces in the kernel's order."""
    return [
        Interface(
            name=i["name"],
            up=i["up"] and i["running"],
            loopback=i["loopback"],
            virtual=any((_SYSFS / i["name"] / mark).exists() for mark in _VIRTUAL),
            mtu=i["mtu"],
            addresses=tuple(i["addresses"]),
        )
        for i in probe_interfaces()
    ]
