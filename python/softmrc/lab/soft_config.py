"""Turns the plan of a lab into what the user-space switch takes: one fabric a plane, everything by number.

Routes and SIDs are those of the plan, so both kinds of lab forward alike; queues are those of queue_spec.py.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from ipaddress import IPv6Address, IPv6Network
from typing import Any

from softmrc.lab.condition import LineState
from softmrc.lab.names import Link, Node
from softmrc.lab.plan import Plan, Sid, sid_address
from softmrc.lab.queue_spec import Dscps
from softmrc.lab.queues import port_spec
from softmrc.lab.spec import LabSpec

__all__ = ["DIRECTIONS", "SoftPlane", "devices", "fault_of", "near_device", "soft_planes"]

DIRECTIONS = ("up", "down")
"""Of a link: from its lower to its upper end, and back. Link k of a plane has the ports 2 k and 2 k + 1 for them."""
_HOST_QUEUE_BYTES = 8 << 20
_UNLIMITED_BYTES = 64 << 20
_PACKETS_BYTES = 128 << 20


@dataclass(frozen=True)
class SoftPlane:
    """A plane of a lab, numbered.

    Attributes:
        plane: 1-based.
        nodes: names of switches and hosts, in the order of their numbers.
        links: in the order of their ports.
        config: what `_core.SoftSwitch` takes for it.
    """

    plane: int
    nodes: tuple[str, ...]
    links: tuple[Link, ...]
    config: dict[str, Any]

    @cached_property
    def _order(self) -> dict[str, int]:
        return {link.name: k for k, link in enumerate(self.links)}

    def port(self, link: str, direction: str) -> int:
        """Return the number of a port."""
        return 2 * self._order[link] + DIRECTIONS.index(direction)


def near_device(link: Link) -> str:
    """Return the device of the switch to which a host's link leads, where hosts are namespaces: `h3p2`."""
    return f"{link.a_node}p{link.plane}"


def devices(plane: SoftPlane) -> list[tuple[int, str, str, str]]:
    """Return what the switch takes for hosts on devices: node, device, hardware addresses of both ends."""
    return [
        (plane.nodes.index(link.a_node), near_device(link), link.mac("b"), link.mac("a"))
        for link in plane.links
        if link.kind == "host"
    ]


def fault_of(line: LineState, cut: bool, rate_bps: int | None) -> dict[str, Any]:
    """Return what the switch takes for one direction of a link.

    Args:
        line: what is wrong with it.
        cut: the link is down.
        rate_bps: of the link, bit/s; None: not limited.
    """
    return {
        "down": cut,
        "hole": line.loss >= 1,
        "loss_ppm": 0 if line.loss >= 1 else round(line.loss * 1e6),
        "corrupt_ppm": round(line.corrupt * 1e6),
        "rate_bps": 0 if rate_bps is None or line.rate == 1 else max(1, round(rate_bps * line.rate)),
    }


def soft_planes(plan: Plan, seed: int = 1) -> list[SoftPlane]:
    """Return the planes of a lab.

    Args:
        plan: of the lab.
        seed: of marks, losses and damage.
    """
    return [_Numbers(plan, plane).plane(seed + plane) for plane in range(1, plan.spec.planes + 1)]


class _Numbers:
    """Numbers of the nodes and ports of a plane."""

    def __init__(self, plan: Plan, plane: int) -> None:
        self._plan, self._number = plan, plane
        self._links = [link for link in plan.links if link.plane == plane]
        switches = [n for n, p in plan.nodes.items() if p.node.plane == plane]
        hosts = [link.a_node for link in self._links if link.kind == "host"]
        self._names = [*switches, *hosts]
        self._nodes = {name: number for number, name in enumerate(self._names)}
        self._rules: list[dict[str, int]] = []
        # Port from a node to its neighbour; by device, and by the neighbour's name.
        self._by_device: dict[tuple[str, str], int] = {}
        self._toward: dict[tuple[str, str], int] = {}
        for k, link in enumerate(self._links):
            (a, a_dev, _), (b, b_dev, _) = link.ends()
            self._by_device |= {(a, a_dev): 2 * k, (b, b_dev): 2 * k + 1}
            self._toward |= {(a, b): 2 * k, (b, a): 2 * k + 1}

    def plane(self, seed: int) -> SoftPlane:
        spec = self._plan.spec
        ports = []
        for k, link in enumerate(self._links):
            low, high = self._nodes[link.a_node], self._nodes[link.b_node]
            rate = spec.link_rate(link.kind) or 0
            ports.append((low, high, 2 * k + 1, rate, spec.delay_ns, self._rule(_queue(spec, link, "a"))))
            ports.append((high, low, 2 * k, rate, spec.delay_ns, self._rule(_queue(spec, link, "b"))))
        config = {
            "nodes": [self._node(self._plan.nodes[name].node) for name in self._names],
            "ports": ports,
            "routes": [route for name in self._names for route in self._routes(name)],
            "rules": self._rules,
            "dscps": asdict(Dscps()),
            "mtu": spec.mtu,
            "seed": seed,
            "max_bytes": _PACKETS_BYTES,
        }
        return SoftPlane(self._number, tuple(self._names), tuple(self._links), config)

    def _rule(self, rule: dict[str, int]) -> int:
        if rule not in self._rules:
            self._rules.append(rule)
        return self._rules.index(rule)

    def _node(self, node: Node) -> tuple[int, int, bool]:
        block, usid = _usid(sid_address(node, self._number))
        return block, usid, node.kind == "host"

    def _routes(self, name: str) -> list[tuple[int, int, bool, list[int]]]:
        plan, number = self._plan.nodes[name], self._nodes[name]
        if plan.node.kind == "host":
            return []
        found = []
        for route in plan.routes:
            network = IPv6Network(route.dst)
            block, usid = _usid(str(network.network_address))
            if network.prefixlen == 48 and block == self._node(plan.node)[0]:
                found.append((number, usid, False, [self._by_device[name, hop.dev] for hop in route.hops]))
        return found + [self._adjacency(name, number, sid) for sid in plan.sids if sid.action == "End.X"]

    def _adjacency(self, name: str, number: int, sid: Sid) -> tuple[int, int, bool, list[int]]:
        words = sid.words.split()
        to = words[words.index("nh6") + 1]
        near = next(n for n in self._names if sid_address(self._plan.nodes[n].node, self._number) == to)
        usid = _usid(str(IPv6Network(sid.dst).network_address))[1]
        return number, usid, True, [self._toward[name, near]]


def _usid(address: str) -> tuple[int, int]:
    """Return block and first uSID of an address."""
    value = int(IPv6Address(address))
    return value >> 96, value >> 80 & 0xFFFF


def _queue(spec: LabSpec, link: Link, side: str) -> dict[str, int]:
    queue = port_spec(spec, link, side)
    if queue is None:
        room = _HOST_QUEUE_BYTES if spec.link_rate(link.kind) is not None else _UNLIMITED_BYTES
        return {"data_bytes": room, "control_bytes": room}
    return {
        "data_bytes": queue.data_bytes,
        "control_bytes": queue.control_bytes,
        "ecn_min": queue.ecn_min,
        "ecn_max": queue.ecn_max,
        "trim_bytes": queue.trim_bytes,
        "trimmed_dscp": queue.trimmed_dscp,
    }
