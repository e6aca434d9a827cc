"""Names of hosts, switches and links, the same as the simulator's, and the namespaces and devices behind them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from softmrc.errors import UsageError

__all__ = ["SID_DEVICE", "Link", "Node", "link_name", "namespace", "parse_node"]

SID_DEVICE = "sr0"
"""SIDs hang on this device: on one of the fabric's they would vanish when that link goes down."""
_HOST = re.compile(r"h(\d+)")
_SWITCH = re.compile(r"p(\d+)\.t([012])-(\d+)")


@dataclass(frozen=True)
class Node:
    """A host `h3` or a switch `p2.t0-5`.

    Attributes:
        name: as above.
        kind: "host", "t0", "t1" or "t2".
        index: counted inside its kind and plane.
        plane: of a switch, 1-based; 0 for a host.
    """

    name: str
    kind: str
    index: int
    plane: int = 0

    @property
    def short(self) -> str:
        """The name without the plane."""
        return f"h{self.index}" if self.kind == "host" else f"{self.kind}-{self.index}"


@dataclass(frozen=True)
class Link:
    """A link: `a` is the lower end (the host, or the switch of the lower tier), `b` the upper.

    Attributes:
        name: `h3.p2` or `p2.t0-5.t1-7`.
        kind: "host" or "fabric".
        a_node, a_dev, b_node, b_dev: nodes and their devices.
        plane: 1-based.
        number: counts the lab's links from 0.
    """

    name: str
    kind: str
    a_node: str
    a_dev: str
    b_node: str
    b_dev: str
    plane: int
    number: int

    def mac(self, side: str) -> str:
        """Return the hardware address of the end on side "a" or "b"."""
        return _mac(self.plane, self.number, side)

    def link_local(self, side: str) -> str:
        """Return the link-local address that the kernel makes of it."""
        return _eui64(self.mac(side))

    def index(self, side: str) -> int:
        """Return the interface index of the end on side "a" or "b".

        All ends of a lab differ: the kernel takes up to a second to see the carrier of a pair whose ends have the same.
        """
        return 1000 + 2 * self.number + (side == "b")

    def ends(self) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
        """Return (node, device, side) of both ends."""
        return (self.a_node, self.a_dev, "a"), (self.b_node, self.b_dev, "b")


def _mac(plane: int, number: int, side: str) -> str:
    return f"02:5c:{plane:02x}:{number >> 8 & 255:02x}:{number & 255:02x}:{1 if side == 'a' else 2:02x}"


def _eui64(mac: str) -> str:
    b = [int(x, 16) for x in mac.split(":")]
    words = [(b[0] ^ 2) << 8 | b[1], b[2] << 8 | 0xFF, 0xFE00 | b[3], b[4] << 8 | b[5]]
    return "fe80::" + ":".join(f"{w:x}" for w in words)


def parse_node(name: str) -> Node:
    """Return the node of that name.

    Raises:
        UsageError: nodes are not named like this.
    """
    if match := _HOST.fullmatch(name):
        return Node(name, "host", int(match[1]))
    if match := _SWITCH.fullmatch(name):
        return Node(name, f"t{match[2]}", int(match[3]), int(match[1]))
    raise UsageError(f"no node {name}: hosts are named like h0, switches like p1.t0-0")


def link_name(low: Node, high: Node) -> str:
    """Return `h3.p2` or `p2.t0-5.t1-7`."""
    return f"{low.name}.p{high.plane}" if low.kind == "host" else f"{low.name}.{high.short}"


def namespace(lab: str, node: str) -> str:
    """Return the network namespace of a node: `lab-h3`, `lab-p2t0-5`."""
    return f"{lab}-{node.replace('.', '')}"
