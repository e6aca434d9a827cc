"""How a fabric is numbered: 16-bit uSIDs in a 32-bit block a plane (reference 3.1).

Plane p has the block `fc00:<p>::/32`. In it T0 i is 0x1000 + i, T1 j 0x2000 + j, T2 m 0x3000 + m and host h
0x8000 + h. A list is a block followed by the uSIDs of the switches on the way and of the host; each switch shifts its
own out, so what arrives is the host's address. Six uSIDs fit, which is T0-T1-T2-T1-T0-host.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from softmrc.errors import UsageError

__all__ = [
    "BLOCK_BITS",
    "MAX_PLANES",
    "USID_BITS",
    "Path",
    "block",
    "describe",
    "host_address",
    "path",
    "usid",
]

BLOCK_BITS, USID_BITS = 32, 16
MAX_PLANES = 31
_MOST = (128 - BLOCK_BITS) // USID_BITS
_BLOCK = 0xFC00
_FIRST = {"t0": 0x1000, "t1": 0x2000, "t2": 0x3000, "host": 0x8000}
_ROOM = {"t0": 0x1000, "t1": 0x1000, "t2": 0x1000, "host": 0x6000}


@dataclass(frozen=True)
class Path:
    """One way from host to host in one plane.

    Attributes:
        plane: 1 to 31.
        switches: in the order they are passed, named like `t0-1`.
        address: the uSID list, as the IPv6 destination to send to.
    """

    plane: int
    switches: tuple[str, ...]
    address: str

    @property
    def name(self) -> str:
        """The path in words, for instance `p2 t0-0 t1-3 t0-1`."""
        return " ".join((f"p{self.plane}", *self.switches))


def block(plane: int) -> str:
    """Return the prefix of a plane's uSIDs, for instance `fc00:2::/32`.

    Args:
        plane: 1 to 31.

    Raises:
        UsageError: no such plane.
    """
    return f"{ipaddress.IPv6Address(_base(plane))}/{BLOCK_BITS}"


def usid(kind: str, index: int) -> int:
    """Return the uSID of a switch or host.

    Args:
        kind: "t0", "t1", "t2" or "host".
        index: 0-based, below 4096 (switches) or 24576 (hosts).

    Raises:
        UsageError: no such kind, or more of them than there are numbers.
    """
    if kind not in _FIRST:
        raise UsageError(f"uSIDs are of t0, t1, t2 and host, not of {kind!r}")
    if not 0 <= index < _ROOM[kind]:
        raise UsageError(f"{kind} {index}: uSIDs number 0 to {_ROOM[kind] - 1} of these")
    return _FIRST[kind] + index


def describe(value: int) -> str:
    """Return whose uSID that is: `t0-1`, `t1-3`, `h7`; UsageError when nobody's."""
    for kind, first in _FIRST.items():
        if first <= value < first + _ROOM[kind]:
            return f"h{value - first}" if kind == "host" else f"{kind}-{value - first}"
    raise UsageError(f"uSID {value:#06x} is of no switch or host")


def host_address(plane: int, host: int) -> str:
    """Return the address of a host's port, for instance `fc00:2:8003::`.

    Args:
        plane: 1 to 31.
        host: 0-based.
    """
    return path(plane, (), host)


def path(plane: int, switches: Sequence[int], host: int) -> str:
    """Return a uSID list.

    Args:
        plane: 1 to 31.
        switches: uSIDs of the switches in the order they are passed, five at most.
        host: index of the host the list ends at.

    Raises:
        UsageError: longer than an address, or a number out of range.
    """
    usids = [*switches, usid("host", host)]
    if len(usids) > _MOST:
        raise UsageError(f"a list of {len(usids)} uSIDs: {_MOST} fit into one address")
    value = _base(plane)
    for place, one in enumerate(usids):
        if not 0 < one < 1 << USID_BITS:
            raise UsageError(f"uSID {one:#x} is not of 16 bits")
        value |= one << (128 - BLOCK_BITS - USID_BITS * (place + 1))
    return str(ipaddress.IPv6Address(value))


def _base(plane: int) -> int:
    if not 1 <= plane <= MAX_PLANES:
        raise UsageError(f"plane {plane}: planes count from 1 to {MAX_PLANES}")
    return (_BLOCK << 112) | (plane << 96)
