"""Everything that will stand in the kernel, computed before anything is made: nodes, links, addresses, routes, SIDs.

`make_plan` is a pure function of the spec, so the state that ought to be can be compared with the one that is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import IPv6Address

from softmrc.errors import UsageError
from softmrc.lab.names import SID_DEVICE, Link, Node, link_name, parse_node
from softmrc.lab.spec import LabSpec
from softmrc.srv6 import Shape, block, host_address, path, usid

__all__ = ["Hop", "NodePlan", "Plan", "Route", "Sid", "make_plan"]

USID_LENGTH = 48
FLAVOR = "flavors next-csid lblen 32 nflen 16"
_FIRST_UA = 0xE000


@dataclass(frozen=True)
class Hop:
    """The next node on a route: its link-local address, the device to it, and its hardware address."""

    via: str
    dev: str
    mac: str


@dataclass(frozen=True)
class Route:
    """A route; several hops make it multipath."""

    dst: str
    hops: tuple[Hop, ...]
    src: str | None = None


@dataclass(frozen=True)
class Sid:
    """A segment: its prefix, its behaviour and the rest of the words `ip route` has for it.

    Attributes:
        dst: prefix, for instance `fc00:1:1000::/48`.
        action: `End`, `End.X`, `End.DT6`, or `encap` for a route that adds segments.
        words: what follows `ip -6 route replace <dst>`.
        dev: the device it hangs on.
    """

    dst: str
    action: str
    words: str
    dev: str


@dataclass
class NodePlan:
    """What stands in one namespace, beside its links."""

    node: Node
    addresses: list[tuple[str, str]] = field(default_factory=list)
    neighbours: list[Hop] = field(default_factory=list)
    routes: list[Route] = field(default_factory=list)
    sids: list[Sid] = field(default_factory=list)
    local: list[tuple[str, str]] = field(default_factory=list)

    @property
    def forwards(self) -> bool:
        """Whether it passes packets on."""
        return self.node.kind != "host"

    @property
    def has_sid_device(self) -> bool:
        """Whether a device for SIDs is needed."""
        return self.forwards or any(s.dev == SID_DEVICE for s in self.sids)


@dataclass
class Plan:
    """A lab's nodes and links, in order."""

    spec: LabSpec
    nodes: dict[str, NodePlan]
    links: list[Link]

    @cached_property
    def by_link(self) -> dict[str, Link]:
        """Links by name."""
        return {link.name: link for link in self.links}

    @cached_property
    def at(self) -> dict[str, list[Link]]:
        """Links by node."""
        found: dict[str, list[Link]] = {name: [] for name in self.nodes}
        for link in self.links:
            found[link.a_node].append(link)
            found[link.b_node].append(link)
        return found


def usid_prefix(node: Node, plane: int) -> str:
    """Return the /48 of a node's uSID in a plane."""
    return f"{sid_address(node, plane)}/{USID_LENGTH}"


def sid_address(node: Node, plane: int) -> str:
    """Return the address a node has in a plane: its uSID followed by nothing."""
    if node.kind == "host":
        return host_address(plane, node.index)
    return _address(plane, usid(node.kind, node.index))


def _address(plane: int, number: int) -> str:
    return block(plane).removesuffix(":/32") + f"{number:x}::"


def make_plan(spec: LabSpec) -> Plan:
    """Return what a lab consists of.

    Raises:
        UsageError: the wiring leaves a host without port, or names a switch twice.
    """
    nodes, links = _wire(spec.shape)
    plan = Plan(spec, {name: NodePlan(node) for name, node in nodes.items()}, links)
    for plane in range(1, spec.planes + 1):
        _Plane(plan, plane).fill()
    return plan


def _wire(shape: Shape) -> tuple[dict[str, Node], list[Link]]:
    pairs: list[tuple[Node, Node]] = []
    hosts = [Node(f"h{h}", "host", h) for h in range(shape.hosts)]
    switches: dict[str, Node] = {}
    for plane in range(1, shape.planes + 1):
        tier = hosts
        for _ in range(3):
            above: dict[str, Node] = {}
            for low in tier:
                for short in shape.above(plane, low.short):
                    high = parse_node(f"p{plane}.{short}")
                    above[high.name] = high
                    pairs.append((low, high))
            tier = sorted(above.values(), key=lambda n: n.index)
            switches |= {n.name: n for n in tier}
    links = []
    for number, (low, high) in enumerate(pairs):
        kind = "host" if low.kind == "host" else "fabric"
        low_dev = f"p{high.plane}" if kind == "host" else high.short
        links.append(
            Link(link_name(low, high), kind, low.name, low_dev, high.name, low.short, high.plane, number)
        )
    names = [link.name for link in links]
    if twice := {n for n in names if names.count(n) > 1}:
        raise UsageError(
            f"a host has one port a plane, and switches are joined once: {', '.join(sorted(twice))}"
        )
    return {n.name: n for n in hosts} | switches, links


class _Plane:
    """Fills the plans of one plane's switches and of the hosts' ports in it."""

    def __init__(self, plan: Plan, plane: int) -> None:
        self.plan, self.plane, self.spec = plan, plane, plan.spec
        self.links = [link for link in plan.links if link.plane == plane]
        self.switches = [p for p in plan.nodes.values() if p.node.plane == plane]
        self.hosts = [p for p in plan.nodes.values() if p.node.kind == "host"]
        self.hops: dict[str, dict[str, Hop]] = {}
        self.above: dict[str, list[str]] = {}
        self.below: dict[str, list[str]] = {}
        for link in self.links:
            (a, a_dev, _), (b, b_dev, _) = link.ends()
            self.hops.setdefault(a, {})[b] = Hop(link.link_local("b"), a_dev, link.mac("b"))
            self.hops.setdefault(b, {})[a] = Hop(link.link_local("a"), b_dev, link.mac("a"))
            self.above.setdefault(a, []).append(b)
            self.below.setdefault(b, []).append(a)
        self._down: dict[str, dict[str, int]] = {}

    def fill(self) -> None:
        for switch in self.switches:
            self._switch(switch)
        for host in self.hosts:
            self._host(host)

    def _switch(self, plan: NodePlan) -> None:
        own, near = plan.node, self.hops[plan.node.name]
        own_prefix = usid_prefix(own, self.plane)
        words = f"encap seg6local action End {FLAVOR} count dev {SID_DEVICE}"
        plan.sids.append(Sid(own_prefix, "End", words, SID_DEVICE))
        plan.addresses.append((SID_DEVICE, f"{sid_address(own, self.plane)}/128"))
        for name, hop in near.items():
            node = self.plan.nodes[name].node
            plan.neighbours.append(hop)
            plan.routes.append(Route(usid_prefix(node, self.plane), (hop,)))
            if self.spec.encap and node.kind == "host":
                plan.routes.append(Route(decap_prefix(self.plane, node.index), (hop,)))
        if self.spec.ua:
            for number, name in enumerate(near):
                node = self.plan.nodes[name].node
                to = sid_address(node, self.plane)
                words = f"encap seg6local action End.X nh6 {to} {FLAVOR} count dev {SID_DEVICE}"
                dst = f"{_address(self.plane, _FIRST_UA + number)}/{USID_LENGTH}"
                plan.sids.append(Sid(dst, "End.X", words, SID_DEVICE))
        plan.routes += self._plain(plan, near)

    def _plain(self, plan: NodePlan, near: dict[str, Hop]) -> list[Route]:
        """Routes to the hosts that are not on this switch."""
        found = []
        for host in self.hosts:
            if host.node.name in near:
                continue
            ways = self._next(plan.node.name, host.node.name)
            if self.spec.plain == "single":
                ways = ways[host.node.index % len(ways) :][:1] if ways else []
            if ways:
                found.append(Route(usid_prefix(host.node, self.plane), tuple(near[w] for w in ways)))
        return found

    def _reach(self, name: str) -> dict[str, int]:
        """Return the hosts below a node, with their distance."""
        if name not in self._down:
            found: dict[str, int] = {}
            for low in self.below.get(name, ()):
                for host, far in ({low: 0} if low.startswith("h") else self._reach(low)).items():
                    found[host] = min(far + 1, found.get(host, far + 1))
            self._down[name] = found
        return self._down[name]

    def _distance(self, name: str, host: str) -> float:
        if host in self._reach(name):
            return self._reach(name)[host]
        return 1 + min((self._distance(up, host) for up in self.above.get(name, ())), default=float("inf"))

    def _next(self, name: str, host: str) -> list[str]:
        down = host in self._reach(name)
        near = self.below.get(name, []) if down else self.above.get(name, [])
        far = {n: self._distance(n, host) for n in near if not n.startswith("h")}
        best = min(far.values(), default=float("inf"))
        return [n for n, d in far.items() if d == best < float("inf")]

    def _host(self, plan: NodePlan) -> None:
        own = plan.node.index
        address = host_address(self.plane, own)
        for hop in self.hops.get(plan.node.name, {}).values():
            plan.neighbours.append(hop)
            plan.addresses.append((hop.dev, f"{address}/128"))
            plan.routes.append(Route(block(self.plane), (hop,), src=address))
            if self.spec.anyip:
                plan.local.append((f"{address}/{USID_LENGTH}", "lo"))
            if self.spec.encap:
                self._encap(plan, hop)

    def _encap(self, plan: NodePlan, hop: Hop) -> None:
        from softmrc.srv6 import paths

        own = plan.node.index
        words = f"encap seg6local action End.DT6 table local dev {SID_DEVICE}"
        plan.sids.append(Sid(decap_prefix(self.plane, own), "End.DT6", words, SID_DEVICE))
        counts = [
            len(paths(self.spec.shape, self.plane, own, g.node.index)) for g in self.hosts if g is not plan
        ]
        for number in range(max(counts, default=0)):
            plan.addresses.append((hop.dev, f"{inner_address(self.plane, number, own)}/128"))
        for host in self.hosts:
            if host is plan:
                continue
            for number, way in enumerate(paths(self.spec.shape, self.plane, own, host.node.index)):
                switches = [usid(*_kind(s)) for s in way.switches]
                segs = path(self.plane, switches, _DECAP + host.node.index)
                words = (
                    f"encap seg6 mode encap.red segs {segs} via {hop.via} dev {hop.dev} "
                    f"src {inner_address(self.plane, number, own)}"
                )
                dst = f"{inner_address(self.plane, number, host.node.index)}/128"
                plan.sids.append(Sid(dst, "encap", words, hop.dev))


_DECAP = 0x1000  # a host's second uSID, for packets to unpack: 0x9000 + index


def decap_prefix(plane: int, host: int) -> str:
    """Return the /48 at which a host unpacks."""
    return f"{host_address(plane, _DECAP + host)}/{USID_LENGTH}"


def inner_address(plane: int, number: int, host: int) -> str:
    """Return the address of a host inside packed packets that take path `number` of a plane."""
    return str(IPv6Address(f"fd10:{plane:x}:{number:x}::{host + 1:x}"))


def _kind(short: str) -> tuple[str, int]:
    kind, _, index = short.partition("-")
    return kind, int(index)
