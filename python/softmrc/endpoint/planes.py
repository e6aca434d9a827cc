"""Planes as people write them: addresses, interfaces, prefixes and exclusions (B27, B28, B29).

Decides which addresses of a list of interfaces are meant; looks at no host itself and opens nothing.

`eth1,eth2` are interfaces, `eth*` and (where no interface is called so) `eth` all that begin like this, `=eth1`
that one only; `10.1.0.0/16` every address of the host in it; `^docker0,lo` all but those, further on in a list
`^eth0` all but that one; an address is itself, with its scope: `fe80::1%eth1`.
"""

from __future__ import annotations

import fnmatch
import ipaddress
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from softmrc.device import Interface
from softmrc.endpoint.address import Plane, parse_plane
from softmrc.errors import UsageError

__all__ = ["choose_address", "expand_planes", "ipv6_is_off"]

Interfaces = Callable[[], Sequence[Interface]]


def expand_planes(
    given: Iterable[str | Plane], interfaces: Interfaces, family: int | None = None
) -> list[Plane]:
    """Return the planes that are meant, one address each, in the order given.

    Args:
        given: texts, also lists with commas, or planes whose `address` is such a text.
        interfaces: those of the host; asked only when a text needs them.
        family: 4 or 6, preferred where an interface has both; None: 6.

    Raises:
        UsageError: a text is malformed or fits nothing; the message says what there is.
    """
    out: list[Plane] = []
    without: list[str] = []
    for item in given:
        plane = item if isinstance(item, Plane) else Plane(address=item)
        text = plane.address.strip()
        if text.startswith("^"):
            without += _tokens(text[1:])
            continue
        tokens = _tokens(text)
        if not tokens:
            raise UsageError(f"plane {plane.address!r}: not an IPv4 or IPv6 address, interface or prefix")
        without += [t[1:] for t in tokens if t.startswith("^")]
        for token in (t for t in tokens if not t.startswith("^")):
            out += _expand(replace(plane, address=token), interfaces, family, out)
    if without:
        found = list(interfaces())
        barred = {a for token in without for a in _barred(token, found)}
        if not out:
            out = [parse_plane(choose_address(i, family)) for i in _usable(found, barred)]
        out = [p for p in out if p.address not in barred]
        if not out:
            raise UsageError(f"'^{','.join(without)}' leaves no plane; this host has {_describe(found)}")
    return out


def choose_address(interface: Interface, family: int | None = None) -> str:
    """Return the address of an interface that a plane should use: routable before link-local.

    Raises:
        UsageError: it has none.
    """
    if not interface.addresses:
        raise UsageError(f"interface {interface.name} has no address; a plane needs one")

    def rank(address: str) -> tuple[bool, bool, bool]:
        ip = ipaddress.ip_address(address)
        return ip.is_link_local, ip.is_loopback and not interface.loopback, ip.version != (family or 6)

    return min(interface.addresses, key=rank)


def ipv6_is_off(interfaces: Sequence[Interface]) -> bool:
    """Return True when no interface has an IPv6 address: not even ::1, as when it is disabled."""
    return not any(":" in a for i in interfaces for a in i.addresses)


def _tokens(text: str) -> list[str]:
    return [t.strip() for t in text.split(",") if t.strip()]


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    if "/" not in text:
        return None
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise UsageError(f"{text!r} is no prefix like 10.1.0.0/16 or fd00::/8") from None


def _expand(plane: Plane, interfaces: Interfaces, family: int | None, before: Sequence[Plane]) -> list[Plane]:
    token = plane.address
    if _is_address(token):
        return [parse_plane(plane)]
    found = list(interfaces())
    if (network := _network(token)) is not None:
        addresses = [a for i in found if i.up for a in i.addresses if _inside(a, network)]
    else:
        named = _named(token, found)
        if not named:
            raise UsageError(
                f"plane {token!r}: not an IPv4 or IPv6 address, prefix or interface of this host, which has "
                f"{_describe(found)}"
            )
        addresses = [choose_address(i, family) for i in named]
    if not addresses:
        raise UsageError(f"no address of this host is in {token}; it has {_describe(found)}")
    have = {p.address for p in before}
    return [parse_plane(replace(plane, address=a)) for a in addresses if a not in have]


def _inside(address: str, network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    return ip.version == network.version and ip in network


def _named(token: str, interfaces: Sequence[Interface]) -> list[Interface]:
    """Return the interface of that name; else, if any, those up whose names begin like it or fit a pattern."""
    exact = [i for i in interfaces if i.name == token.removeprefix("=")]
    if exact or token.startswith("="):
        return exact
    pattern = token if any(c in token for c in "*?[") else f"{token}*"
    return [i for i in interfaces if i.up and i.addresses and fnmatch.fnmatchcase(i.name, pattern)]


def _barred(token: str, interfaces: Sequence[Interface]) -> list[str]:
    """Return the addresses that an exclusion bars; none when it fits nothing, as ^docker0 where none runs."""
    if _is_address(token):
        barred = ipaddress.ip_address(token.removeprefix("[").removesuffix("]"))
        return [a for i in interfaces for a in i.addresses if ipaddress.ip_address(a) == barred]
    if (network := _network(token)) is not None:
        return [a for i in interfaces for a in i.addresses if _inside(a, network)]
    return [a for i in _named(token, interfaces) for a in i.addresses]


def _usable(interfaces: Sequence[Interface], barred: set[str]) -> list[Interface]:
    """Return what is left when nothing but exclusions was given."""
    left = []
    for i in interfaces:
        kept = tuple(a for a in i.addresses if a not in barred)
        if i.up and not i.loopback and not i.virtual and kept:
            left.append(replace(i, addresses=kept))
    routable = [i for i in left if not all(ipaddress.ip_address(a).is_link_local for a in i.addresses)]
    return routable or left


def _describe(interfaces: Sequence[Interface]) -> str:
    words = [
        f"{i.name} ({', '.join(i.addresses) or 'no address'}{'' if i.up else ', down'})" for i in interfaces
    ]
    return ", ".join(words) or "no interface"
