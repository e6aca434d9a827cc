"""Planes, how their addresses are written, and which of them talk to each other (B28, B29, B60)."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from softmrc.errors import UsageError

__all__ = ["Plane", "explain_no_pair", "pair_planes", "parse_plane"]


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


def parse_plane(plane: str | Plane) -> Plane:
    """Check a plane and bring its address into one form.

    No brackets or blanks, v4-mapped as IPv4, scope kept.

    Raises:
        UsageError: not an address, or link-local without a scope.
    """
    given = plane if isinstance(plane, Plane) else Plane(address=plane)
    text = given.address.strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    try:
        ip = ipaddress.ip_address(text)
    except ValueError:
        raise UsageError(f"plane {given.address!r}: not an IPv4 or IPv6 address") from None
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None and ip.scope_id is None:
            ip = ip.ipv4_mapped
        elif ip.is_link_local and ip.scope_id is None:
            raise UsageError(
                f"plane {given.address!r}: a link-local address needs its interface, for instance {ip}%eth1"
            )
    if ip.is_unspecified or ip.is_multicast:
        raise UsageError(
            f"plane {given.address!r}: a plane needs an address of its own, that of one interface"
        )
    return Plane(
        address=str(ip),
        udp_port=given.udp_port,
        evs=given.evs,
        bits_per_second=given.bits_per_second,
        force_source_ports=given.force_source_ports,
    )


class _HasAddress(Protocol):
    @property
    def address(self) -> str: ...
    @property
    def number(self) -> int: ...


def _kind(address: str) -> str:
    ip = ipaddress.ip_address(address)
    where = (
        "loopback" if ip.is_loopback else "link-local" if ip.version == 6 and ip.is_link_local else "routed"
    )
    return f"IPv{ip.version} {where}"


def pair_planes(
    initiator: Sequence[_HasAddress],
    responder: Sequence[_HasAddress],
    sources: Mapping[int, str | None] | None = None,
) -> list[tuple[int, int]]:
    """Decide which planes talk to each other: by route, then by equal position, then in order.

    A loopback address never talks to another host, so it is paired with loopback addresses only; link-local
    ones likewise.

    Args:
        initiator: planes of the connecting end.
        responder: planes of the listening end.
        sources: by number of the responder's plane, the initiator's address that the route there leaves from.

    Returns:
        Pairs (number at the initiator, number at the responder), by initiator number; empty when nothing
        fits.
    """
    left = {p.number: _kind(p.address) for p in initiator}
    right = {p.number: _kind(p.address) for p in responder}
    pairs: list[tuple[int, int]] = []

    def pair(n: int, m: int) -> None:
        del left[n], right[m]
        pairs.append((n, m))

    # Routes say something where several networks meet; loopback and link-local addresses need none.
    by_address = {p.address: p.number for p in initiator if left[p.number].endswith("routed")}
    for m, source in (sources or {}).items():
        n = by_address.get(source or "")
        if n in left and left[n] == right.get(m):
            pair(n, m)
    for n in list(left):
        if right.get(n) == left[n]:
            pair(n, n)
    for n, kind in list(left.items()):
        match = next((m for m, other in right.items() if other == kind), None)
        if match is not None:
            pair(n, match)
    return sorted(pairs)


def explain_no_pair(initiator: Sequence[_HasAddress], responder: Sequence[_HasAddress]) -> str:
    """Say why `pair_planes` found nothing."""

    def kinds(planes: Sequence[_HasAddress]) -> str:
        return ", ".join(f"{p.address} ({_kind(p.address)})" for p in planes)

    return (
        f"no common address family on any plane: the connecting end has {kinds(initiator)}; "
        f"the listening end has {kinds(responder)}"
    )
