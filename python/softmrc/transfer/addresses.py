"""Destinations as people write them, and the local address that leads to each.

A destination is `host[:port]`, `[v6]:port` or a bare IPv6 address; a list has one address per plane.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from softmrc.device import host_interfaces
from softmrc.endpoint.address import Plane, parse_plane
from softmrc.endpoint.planes import expand_planes
from softmrc.endpoint.routes import source_toward
from softmrc.endpoint.steering import fabric_host
from softmrc.errors import UsageError

__all__ = [
    "DEFAULT_PORT",
    "Destination",
    "family_of",
    "local_address_for",
    "named_host",
    "parse_address_list",
    "parse_destinations",
    "parse_remote_list",
    "routes_to_planes",
]

DEFAULT_PORT = 4791
"""TCP port of connection set-up when none is given."""


@dataclass(frozen=True)
class Destination:
    """One address of the receiver."""

    host: str
    port: int


def _port(text: str, whole: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise UsageError(f"'{whole}': the port must be 1 to 65535, not '{text}'")
    return int(text)


def _one(text: str) -> tuple[str, int | None]:
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise UsageError(f"'{text}': write [IPv6 address]:port")
        port = _port(rest[1:], text) if rest else None
    elif text.count(":") > 1:
        host, port = text, None
    else:
        host, colon, rest = text.partition(":")
        port = _port(rest, text) if colon else None
    if ":" in host:
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            raise UsageError(f"'{text}': not an IPv6 address") from None
    if not host:
        raise UsageError(f"'{text}': no host")
    return host, port


def parse_destinations(text: str) -> list[Destination]:
    """Read a comma-separated list of destinations; a port given once holds for all.

    Inside a fabric that `SOFTMRC_FABRIC` describes, `h3` stands for all addresses of that host.

    Raises:
        UsageError: no address, not an address, or two different ports.
    """
    given = [_one(part.strip()) for part in text.split(",") if part.strip()]
    found = [(address, port) for host, port in given for address in named_host(host)]
    if not found:
        raise UsageError("no destination given")
    ports = {port for _, port in found if port is not None}
    if len(ports) > 1:
        raise UsageError(
            f"'{text}': the receiver listens on one port, not on {' and '.join(map(str, sorted(ports)))}"
        )
    port = ports.pop() if ports else DEFAULT_PORT
    return [Destination(host, port) for host, _ in found]


def named_host(host: str) -> list[str]:
    """Return the addresses of a host of the fabric, named like `h3`; anything else is returned as it is."""
    return fabric_host(host) or [host]


def parse_address_list(text: str, family: int | None = None) -> list[str]:
    """Read a comma-separated list of planes: addresses, interfaces, prefixes, exclusions.

    Args:
        text: for instance "10.0.0.1,10.1.0.1", "eth1,eth2", "^docker0,lo" or "fd00::/8".
        family: 4 or 6, preferred where an interface has both; None: 6.

    Returns:
        Addresses of this host.

    Raises:
        UsageError: empty, nothing of this host fits, or the same address twice.
    """
    return _listed(text, lambda: expand_planes([text], host_interfaces, family))


def parse_remote_list(text: str) -> list[str]:
    """Read a comma-separated list of addresses of another host.

    Raises:
        UsageError: empty, not an address, or the same address twice.
    """
    return _listed(text, lambda: [parse_plane(part.strip()) for part in text.split(",") if part.strip()])


def _listed(text: str, read: Callable[[], list[Plane]]) -> list[str]:
    if not text.strip(", "):
        raise UsageError("no address given")
    try:
        found = [p.address for p in read()]
    except UsageError as error:
        raise UsageError(f"{error}; see also `softmrc doctor`") from None
    if twice := next((a for i, a in enumerate(found) if a in found[:i]), None):
        raise UsageError(f"'{twice}' is given twice")
    return found


def family_of(host: str) -> int:
    """Return 4 or 6: how `host` is reached.

    Raises:
        UsageError: the name does not resolve, or there is no route.
    """
    return 6 if ":" in local_address_for(host)[1] else 4


def local_address_for(host: str) -> tuple[str, str]:
    """Return the local address the route to `host` uses, and the address of `host`.

    A name with several addresses is taken at the first one there is a route to, this host's own loopback last
    (B27, B29). Loopback addresses lead to themselves, so that 127.0.0.1 to 127.0.0.8 can be planes of one
    machine.

    Raises:
        UsageError: the name does not resolve, or there is no route.
    """
    try:
        infos = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)
    except OSError as error:
        raise UsageError(f"cannot resolve '{host}': {error.strerror}") from error
    candidates = []
    for family, _, _, _, address in infos:
        remote = str(address[0])
        if family == socket.AF_INET6 and len(address) == 4 and address[3] and "%" not in remote:
            remote = f"{remote}%{_interface_name(address[3])}"
        candidates.append(remote)
    # Routable before link-local before loopback; otherwise in the resolver's order.
    for remote in sorted(dict.fromkeys(candidates), key=_distance):
        local = source_toward(remote)
        if local is None or (_distance(local) == _LOOPBACK) != (_distance(remote) == _LOOPBACK):
            continue  # no way, or by loopback to another host: packets would not leave
        return local, remote
    missing = " (a link-local address needs its interface, as in fe80::1%eth1)"
    raise UsageError(f"no route to {host}{missing if _distance(candidates[0]) == _LINK_LOCAL else ''}")


_LINK_LOCAL, _LOOPBACK = 1, 2


def _distance(address: str) -> int:
    ip = ipaddress.ip_address(address)
    return _LOOPBACK if ip.is_loopback else _LINK_LOCAL if ip.is_link_local else 0


def _interface_name(index: int) -> str:
    try:
        return socket.if_indextoname(index)
    except OSError:
        return str(index)


def routes_to_planes(
    addresses: Sequence[str], dialled: Sequence[tuple[str, str]]
) -> tuple[list[tuple[str, str]], list[str]]:
    """Find this host's way to each plane of a peer.

    Args:
        addresses: of the peer's planes, as the peer says.
        dialled: local and remote addresses it was reached by.

    Returns:
        Local and remote address of each plane that can be used, and why the others cannot.
    """
    usable: list[tuple[str, str]] = []
    reasons: list[str] = []
    scopes = {remote.partition("%")[0]: remote for _, remote in dialled}
    own = {a.partition("%")[0] for i in host_interfaces() for a in i.addresses}
    bridges = {a: i.name for i in host_interfaces() if i.virtual for a in i.addresses}
    at_home = any(remote.partition("%")[0] in own or _distance(remote) == _LOOPBACK for _, remote in dialled)
    for address in addresses:
        try:
            local, remote = local_address_for(scopes.get(address, address))
        except UsageError as error:
            reasons.append(f"plane {address} is left out: {error}")
            continue
        if not at_home and (address in own or _distance(remote) == _LOOPBACK):
            reasons.append(f"plane {address} is left out: the address is one of this host's as well")
        elif local in bridges and (local, remote) not in dialled:
            reasons.append(
                f"plane {address} is left out: the way there is {bridges[local]}, a bridge or tunnel"
            )
        else:
            usable.append((local, remote))
    return usable, reasons
