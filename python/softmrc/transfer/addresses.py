"""Destinations as people write them, and the local address that leads to each.

A destination is `host[:port]`, `[v6]:port` or a bare IPv6 address; a list has one address per plane.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass

from softmrc.errors import UsageError

__all__ = [
    "DEFAULT_PORT",
    "Destination",
    "local_address_for",
    "parse_address_list",
    "parse_destinations",
    "show_address",
]

DEFAULT_PORT = 4791
"""TCP port of connection set-up when none is given."""


@dataclass(frozen=True)
class Destination:
    """One address of the receiver."""

    host: str
    port: int


def show_address(host: str, port: int) -> str:
    """Return address and port the way they are typed."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


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

    Raises:
        UsageError: no address, not an address, or two different ports.
    """
    found = [_one(part.strip()) for part in text.split(",") if part.strip()]
    if not found:
        raise UsageError("no destination given")
    ports = {port for _, port in found if port is not None}
    if len(ports) > 1:
        raise UsageError(
            f"'{text}': the receiver listens on one port, not on {' and '.join(map(str, sorted(ports)))}"
        )
    port = ports.pop() if ports else DEFAULT_PORT
    return [Destination(host, port) for host, _ in found]


def parse_address_list(text: str) -> list[str]:
    """Read a comma-separated list of local addresses.

    Raises:
        UsageError: empty, a host name, or the same address twice.
    """
    found: list[str] = []
    for part in (p.strip() for p in text.split(",")):
        if not part:
            continue
        host = part[1:-1] if part.startswith("[") and part.endswith("]") else part
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            raise UsageError(
                f"'{part}' is not an IPv4 or IPv6 address; `softmrc doctor` lists the ones of this host"
            ) from None
        if address.is_unspecified:
            raise UsageError(
                f"'{part}': a plane needs an address of its own; `softmrc doctor` lists the ones of this host"
            )
        if host in found:
            raise UsageError(f"'{part}' is given twice")
        found.append(host)
    if not found:
        raise UsageError("no address given")
    return found


def local_address_for(host: str) -> tuple[str, str]:
    """Return the local address the route to `host` uses, and the address of `host`.

    Loopback addresses lead to themselves, so that 127.0.0.1 to 127.0.0.8 can be planes of one machine.

    Raises:
        UsageError: the name does not resolve, or there is no route.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    except OSError as error:
        raise UsageError(f"cannot resolve '{host}': {error.strerror}") from error
    remote = str(address[0])
    if ipaddress.ip_address(remote).is_loopback:
        return remote, remote
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(address)
        except OSError as error:
            raise UsageError(f"no route to {host}: {error.strerror}") from error
        local = probe.getsockname()
    name = str(local[0])
    if family == socket.AF_INET6 and local[3] and "%" not in name:
        name = f"{name}%{socket.if_indextoname(local[3])}"
    return name, remote
