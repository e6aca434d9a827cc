"""Which addresses of a host are the planes of its ranks (B27, B28, B60).

Decides from what every rank has told about its host (`Card`): never loopback between hosts, never a bridge such as
docker0, one address family for all, fabric interfaces rather than that of the default route. Settings of the
environment go first: SOFTMRC_PLANES and SOFTMRC_IFACES take interfaces ("eth1,eth2", "eth*"), exclusions
("^lo,docker"), prefixes ("10.1.0.0/16") and addresses.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from softmrc.device import Interface, host_interfaces
from softmrc.endpoint.planes import choose_address, expand_planes
from softmrc.endpoint.routes import source_toward
from softmrc.errors import UsageError

__all__ = ["Card", "Choice", "card_of_host", "choose_planes", "host_identity"]

LOOPBACK_PLANES = ("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4")
"""Several, so that ranks of one host have several paths as well."""
_PLANES, _INTERFACES = "SOFTMRC_PLANES", "SOFTMRC_IFACES"
_ROUTES = Path("/proc/net/route")
_ROUTES6 = Path("/proc/net/ipv6_route")
_SPEED = "/sys/class/net/{}/speed"
_MAX_HOSTS_ASKED = 64


@dataclass(frozen=True, kw_only=True)
class Card:
    """What a rank tells the others about itself before anything is chosen."""

    host: str
    """Same text on two ranks: same host and network namespace, so that loopback joins them."""
    name: str
    """Host name and process, for people."""
    memory: str = ""
    """Same text on two ranks: large messages may be copied from one to the other; "": not with this one."""
    fixed: bool
    """The planes were named by the user."""
    v4: tuple[str, ...]
    """IPv4 addresses that could be planes, one an interface."""
    v6: tuple[str, ...]

    def to_json(self) -> bytes:
        """Return it as bytes for the store."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes | Mapping[str, Any]) -> Card:
        """Read what `to_json` made.

        Raises:
            UsageError: it is something else.
        """
        try:
            given = json.loads(data) if isinstance(data, bytes) else data
            return cls(
                host=str(given["host"]),
                name=str(given["name"]),
                memory=str(given["memory"]),
                fixed=bool(given["fixed"]),
                v4=tuple(map(str, given["v4"])),
                v6=tuple(map(str, given["v6"])),
            )
        except (ValueError, KeyError, TypeError):
            raise UsageError("the store holds something else under the names of this mesh") from None

    def of_family(self, family: int) -> tuple[str, ...]:
        """Return the addresses of a family, 4 or 6."""
        return self.v4 if family == 4 else self.v6


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Planes and why."""

    planes: tuple[str, ...]
    why: str


def host_identity() -> str:
    """Return what two processes share exactly when loopback joins them."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    space = os.stat("/proc/self/ns/net")
    return (
        f"{boot.read_text().strip() if boot.exists() else socket.gethostname()}/{space.st_dev}:{space.st_ino}"
    )


def card_of_host(
    planes: Sequence[str] | None,
    environ: Mapping[str, str] | None = None,
    interfaces: Callable[[], Sequence[Interface]] = host_interfaces,
    memory: str = "",
) -> Card:
    """Look at this host.

    Args:
        planes: as named by the program; None: those of the environment, else whatever fits.
        environ: variables; None: of this process.
        interfaces: what the host has.
        memory: see `Card.memory`.

    Raises:
        UsageError: a name fits nothing; the text says what there is.
    """
    env = os.environ if environ is None else environ
    named = list(planes) if planes else [env[k] for k in (_PLANES, _INTERFACES) if env.get(k)][:1]
    by_family: dict[int, tuple[str, ...]] = {}
    if named:
        for family in (4, 6):
            found = [p.address for p in expand_planes(named, interfaces, family)]
            by_family[family] = tuple(a for a in found if _version(a) == family)
    else:
        by_family = _candidates(interfaces())
    return Card(
        host=host_identity(),
        name=f"{socket.gethostname()}:{os.getpid()}",
        memory=memory,
        fixed=bool(named),
        v4=by_family[4],
        v6=by_family[6],
    )


def choose_planes(
    cards: Sequence[Card], rank: int, source: Callable[[str], str | None] = source_toward
) -> Choice:
    """Choose the planes of one rank.

    Args:
        cards: of all ranks, in order.
        rank: whose planes.
        source: the local address that the route to a remote one leaves from; None: there is no route.

    Raises:
        UsageError: nothing fits; the text says which ranks have what.
    """
    mine = cards[rank]
    one_host = all(card.host == mine.host for card in cards)
    if one_host and not any(card.fixed for card in cards):
        return Choice(planes=LOOPBACK_PLANES, why="all ranks are on one host")
    family = _common_family(cards)
    have = mine.of_family(family)
    if not one_host and (loop := [a for a in have if ipaddress.ip_address(a).is_loopback]):
        if mine.fixed:
            raise UsageError(
                f"rank {rank} ({mine.name}): plane {loop[0]} is loopback and reaches no other host; name others in "
                f"{_PLANES} or {_INTERFACES}"
            )
        have = tuple(a for a in have if a not in loop)
    if mine.fixed:
        return Choice(planes=have, why="as named")
    reach = _reaching(have, cards, mine, family, source)
    if not reach:
        raise UsageError(
            f"rank {rank} ({mine.name}): no route from {', '.join(have) or 'any interface'} to the IPv{family} "
            f"addresses of the other hosts; name planes in {_PLANES} or {_INTERFACES}"
        )
    return Choice(planes=_fabric_only(reach, have), why=f"by route to the other hosts, IPv{family}")


def _version(address: str) -> int:
    return ipaddress.ip_address(address.partition("%")[0]).version


def _candidates(interfaces: Sequence[Interface]) -> dict[int, tuple[str, ...]]:
    out: dict[int, list[str]] = {4: [], 6: []}
    for interface in interfaces:
        if not interface.up or interface.loopback or interface.virtual:
            continue
        for family in (4, 6):
            with contextlib.suppress(UsageError):
                address = choose_address(interface, family)
                if _version(address) == family and not ipaddress.ip_address(address).is_link_local:
                    out[family].append(address)
    return {family: tuple(addresses) for family, addresses in out.items()}


def _common_family(cards: Sequence[Card]) -> int:
    """Return 6 where every rank has it, since its flow labels make paths; else 4."""
    for family in (6, 4):
        if all(card.of_family(family) for card in cards):
            return family
    lacking = [
        f"rank {r} ({card.name}) has {', '.join((*card.v6, *card.v4)) or 'no address'}"
        for r, card in enumerate(cards)
        if not (card.v4 and card.v6)
    ]
    raise UsageError(f"no address family that all ranks have: {'; '.join(lacking[:8])}")


def _reaching(
    have: Sequence[str], cards: Sequence[Card], mine: Card, family: int, source: Callable[[str], str | None]
) -> dict[str, set[str]]:
    """Return, by local address, the hosts whose addresses are reached from it."""
    out: dict[str, set[str]] = {}
    others = {card.host: card for card in cards if card.host != mine.host}
    for host, card in list(others.items())[:_MAX_HOSTS_ASKED]:
        for address in card.of_family(family):
            left_from = source(address)
            if left_from is not None and left_from in have:
                out.setdefault(left_from, set()).add(host)
    return {a: out[a] for a in have if a in out}


def _fabric_only(reach: Mapping[str, set[str]], have: Sequence[str]) -> tuple[str, ...]:
    """Leave the interface of the default route out, and much slower ones, when the rest reaches as many hosts."""
    everyone = set().union(*reach.values())
    names = {a: i.name for i in host_interfaces() for a in i.addresses}
    default = _default_interfaces()
    speeds = {a: _speed(names.get(a, "")) for a in reach}
    fastest = max(speeds.values())
    kept = [
        a
        for a in have
        if a in reach and names.get(a) not in default and 2 * (speeds[a] or fastest) >= fastest
    ]
    if kept and set().union(*(reach[a] for a in kept)) == everyone:
        return tuple(kept)
    return tuple(a for a in have if a in reach)


def _default_interfaces() -> set[str]:
    out: set[str] = set()
    with contextlib.suppress(OSError):
        for line in _ROUTES.read_text().splitlines()[1:]:
            fields = line.split()
            if len(fields) > 7 and fields[1] == "00000000" and fields[7] == "00000000":
                out.add(fields[0])
    with contextlib.suppress(OSError):
        for line in _ROUTES6.read_text().splitlines():
            fields = line.split()
            if len(fields) > 9 and fields[0] == "0" * 32 and fields[1] == "00" and fields[9] != "lo":
                out.add(fields[9])
    return out


def _speed(name: str) -> int:
    """Return the rate of an interface in Mbit/s, 0 when it does not tell."""
    try:
        return max(0, int(Path(_SPEED.format(name)).read_text()))
    except (OSError, ValueError):
        return 0
