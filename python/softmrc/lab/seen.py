"""What stands in one namespace, in the same terms as the plan, so that both can be compared."""

from __future__ import annotations

import itertools
import json
from ipaddress import IPv6Interface, IPv6Network
from typing import Any

from softmrc.lab.plan import Hop, NodePlan, Route, Sid
from softmrc.netns.netlinks import Netlinks
from softmrc.netns.space import tell

__all__ = ["Item", "Seen", "wanted"]

Item = tuple[str, Any]
"""Kind ("sysctl", "address", "neighbour", "route", "local", "sid") and the plan's own object."""


def wanted(plan: NodePlan) -> list[Item]:
    """Return what ought to be in a namespace, in the order in which it is put there."""
    found: list[Item] = [("sysctl", "forwarding")] if plan.forwards else []
    found += [("address", address) for address in plan.addresses]
    found += [("neighbour", hop) for hop in plan.neighbours]
    found += [("route", route) for route in plan.routes]
    found += [("local", local) for local in plan.local]
    return found + [("sid", sid) for sid in plan.sids]


class Seen:
    """A namespace as it is."""

    def __init__(self, netlinks: Netlinks, space: str) -> None:
        """Read it.

        Raises:
            MrcError: it cannot be read.
        """
        links = netlinks.ask(space, "get_links")
        names = {int(link["index"]): str(link.get_attr("IFLA_IFNAME")) for link in links}
        self.devices = {
            str(link.get_attr("IFLA_IFNAME")): (
                bool(int(link["flags"]) & 1),
                str(link.get_attr("IFLA_OPERSTATE")),
            )
            for link in links
        }
        """Devices: whether set up, and the operational state."""
        self._keys: set[Item] = set()
        for address in netlinks.ask(space, "get_addr", family=10):
            dev = names.get(int(address["index"]), "?")
            self._add("address", (dev, f"{address.get_attr('IFA_ADDRESS')}/{address['prefixlen']}"))
        for hop in netlinks.ask(space, "get_neighbours", family=10):
            dev = names.get(int(hop["ifindex"]), "?")
            self._add("neighbour", Hop(str(hop.get_attr("NDA_DST")), dev, str(hop.get_attr("NDA_LLADDR"))))
        for route in json.loads(tell("ip", "-n", space, "-6", "-j", "route", "show", "table", "all") or "[]"):
            self._add_route(route)
        if tell("ip", "netns", "exec", space, "cat", "/proc/sys/net/ipv6/conf/all/forwarding").strip() == "1":
            self._add("sysctl", "forwarding")

    def has(self, kind: str, what: Any) -> bool:
        """Whether a thing of the plan is there."""
        return _key(kind, what) in self._keys

    def _add(self, kind: str, what: Any) -> None:
        self._keys.add(_key(kind, what))

    def _add_route(self, route: dict[str, Any]) -> None:
        dst, dev = str(route["dst"]), str(route.get("dev", ""))
        if route.get("type") == "local":
            self._add("local", (dst, dev))
        elif "encap" in route:
            self._keys.add(("sid", (_prefix(dst), *_segments(route))))
        elif route.get("protocol") == "static":
            hops = [Hop(str(h.get("gateway")), str(h["dev"]), "") for h in route.get("nexthops", [route])]
            self._add("route", Route(dst, tuple(hops), route.get("prefsrc")))


def _segments(route: dict[str, Any]) -> tuple[str, ...]:
    if route["encap"] == "seg6local":
        flavors = ",".join(route.get("flavors", ()))
        return str(route["action"]), str(route.get("nh6", "")), flavors, str(route["dev"])
    return "encap", ",".join(route.get("segs", ())), str(route.get("mode")), str(route["dev"])


def _prefix(text: str) -> str:
    return str(IPv6Network(text))


def _key(kind: str, what: Any) -> Item:
    """Return a thing in a form in which equal things are equal."""
    if kind == "address":
        dev, address = what
        return kind, (dev, str(IPv6Interface(address)))
    if kind == "neighbour":
        return kind, (what.via, what.dev, what.mac)
    if kind == "route":
        hops = tuple(sorted((h.via, h.dev) for h in what.hops))
        return kind, (_prefix(what.dst), hops, what.src)
    if kind == "local":
        dst, dev = what
        return kind, (_prefix(dst), dev)
    if kind == "sid":
        return kind, _sid_key(what)
    return kind, what


def _sid_key(sid: Sid) -> tuple[str, ...]:
    words = sid.words.split()
    after = dict(itertools.pairwise(words))
    if sid.action == "encap":
        return _prefix(sid.dst), "encap", after["segs"], after["mode"], sid.dev
    return _prefix(sid.dst), sid.action, after.get("nh6", ""), after.get("flavors", ""), sid.dev
