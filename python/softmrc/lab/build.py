"""Makes in the kernel what the plan says, and puts single things back that are missing.

Namespaces, links, addresses, neighbours and plain routes go through netlink (pyroute2). Routes with segments go through
`ip -batch`: pyroute2 0.9 knows neither the flavors of `seg6local` nor its counters, and not the mode `encap.red`.
Neighbours are permanent: a fabric without a protocol has nothing to discover, and the kernel's limits on neighbours
(gc_thresh) do not count them.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from softmrc.errors import MrcError
from softmrc.lab.names import SID_DEVICE, Link, Node, namespace
from softmrc.lab.plan import Hop, NodePlan, Plan, Route, Sid
from softmrc.netns.enter import DIRECTORY, create, entered
from softmrc.netns.netlinks import Netlinks
from softmrc.netns.space import tell

__all__ = ["Maker", "sid_mac"]

_INET6 = 10
_NODAD = 0x02  # IFA_F_NODAD
_PERMANENT = 0x80  # NUD_PERMANENT
_LOCAL_TABLE = 255
_SETTLE_S = 10.0
_SYSCTLS = {
    "conf.all.disable_ipv6": 0,
    "conf.default.disable_ipv6": 0,
    "conf.all.accept_dad": 0,
    "conf.default.accept_dad": 0,
    "conf.default.accept_ra": 0,
    "conf.default.router_solicitations": 0,
    "conf.default.addr_gen_mode": 0,
    "conf.default.keep_addr_on_down": 1,
    "fib_multipath_hash_policy": 0,  # source, destination, flow label
}
_FORWARDING = {"conf.all.forwarding": 1, "conf.default.forwarding": 1}


def sid_mac(node: Node) -> str:
    """Return the hardware address of a node's device for SIDs."""
    kind = ("host", "t0", "t1", "t2").index(node.kind)
    return f"02:5d:{node.plane:02x}:{kind:02x}:{node.index >> 8:02x}:{node.index & 255:02x}"


class Maker:
    """Builds the nodes and links of a plan."""

    def __init__(self, plan: Plan, netlinks: Netlinks) -> None:
        """Take what is to be made, and the sockets to make it with."""
        self.plan, self.net = plan, netlinks

    def space(self, node: str) -> str:
        """Return a node's namespace."""
        return namespace(self.plan.spec.name, node)

    def make(self, step: Callable[[str], None]) -> None:
        """Make everything but the queues, and return when packets pass.

        Args:
            step: told what comes next.

        Raises:
            MrcError: the system refused; what was made stays for the caller to remove.
        """
        step("namespaces")
        create(self.space(node) for node in self.plan.nodes)
        for node in self.plan.nodes.values():
            self.prepare(node)
        step("links")
        for link in self.plan.links:
            self.wire(link)
        step("addresses and routes")
        for node in self.plan.nodes.values():
            self.fill(node)

    def prepare(self, node: NodePlan) -> None:
        """Set a namespace up: kernel settings, loopback, the device for SIDs."""
        space = self.space(node.node.name)
        self.settings(node)
        self.net.ask(space, "link", "set", index=1, state="up")
        if node.has_sid_device:
            self.net.ask(space, "link", "add", ifname=SID_DEVICE, kind="ifb", address=sid_mac(node.node))
            self.net.ask(space, "link", "set", index=self.net.index(space, SID_DEVICE), state="up")

    def settings(self, node: NodePlan) -> None:
        """Write a namespace's kernel settings."""
        with entered(self.space(node.node.name)):
            for key, value in (_SYSCTLS | (_FORWARDING if node.forwards else {})).items():
                _write_sysctl(key, value)

    def wire(self, link: Link) -> None:
        """Make a veth pair, each end in its namespace from the start, and set it up."""
        a, b = self.space(link.a_node), self.space(link.b_node)
        there = os.open(DIRECTORY / b, os.O_RDONLY | os.O_CLOEXEC)
        try:
            mtu = self.plan.spec.mtu
            peer = {"ifname": link.b_dev, "net_ns_fd": there, "mtu": mtu, "address": link.mac("b")}
            peer["index"] = link.index("b")
            self.net.ask(
                a, "link", "add", ifname=link.a_dev, index=link.index("a"), kind="veth", mtu=mtu,
                address=link.mac("a"), peer=peer,
            )  # fmt: skip
        finally:
            os.close(there)
        for node, dev, _ in link.ends():
            space = self.space(node)
            self.net.ask(space, "link", "set", index=self.net.index(space, dev), state="up")

    def fill(self, node: NodePlan) -> None:
        """Put addresses, neighbours, routes and SIDs into a namespace; what is there already stays as it is."""
        name = node.node.name
        for dev, address in node.addresses:
            self.address(name, dev, address)
        for hop in node.neighbours:
            self.neighbour(name, hop)
        for route in node.routes:
            self.route(name, route)
        for dst, dev in node.local:
            self.local(name, dst, dev)
        self.sids(name, node.sids)

    def address(self, node: str, dev: str, address: str) -> None:
        """Put an address on a device."""
        space, (ip, length) = self.space(node), address.split("/")
        self.net.ask(
            space, "addr", "replace", index=self.net.index(space, dev), address=ip, prefixlen=int(length),
            family=_INET6, flags=_NODAD,
        )  # fmt: skip

    def neighbour(self, node: str, hop: Hop) -> None:
        """Say which hardware address the next node has."""
        space = self.space(node)
        self.net.ask(
            space, "neigh", "replace", dst=hop.via, lladdr=hop.mac, ifindex=self.net.index(space, hop.dev),
            state=_PERMANENT, family=_INET6,
        )  # fmt: skip

    def route(self, node: str, route: Route) -> None:
        """Put a route in, in the place of one with the same destination."""
        space = self.space(node)
        hops = [{"gateway": h.via, "oif": self.net.index(space, h.dev)} for h in route.hops]
        more: dict[str, Any] = hops[0] if len(hops) == 1 else {"multipath": hops}
        if route.src is not None:
            more["prefsrc"] = route.src
        self.net.ask(space, "route", "replace", dst=route.dst, family=_INET6, **more)

    def local(self, node: str, dst: str, dev: str) -> None:
        """Take what is sent to a prefix as one's own."""
        space = self.space(node)
        self.net.ask(
            space, "route", "replace", dst=dst, oif=self.net.index(space, dev), family=_INET6, type="local",
            table=_LOCAL_TABLE,
        )  # fmt: skip

    def sids(self, node: str, sids: Iterable[Sid]) -> None:
        """Put routes with segments in."""
        lines = [f"route replace {sid.dst} {sid.words}" for sid in sids]
        if lines:
            tell("ip", "-n", self.space(node), "-6", "-batch", "-", text="\n".join(lines) + "\n")

    def settle(self, wait_s: float = _SETTLE_S) -> None:
        """Wait until every link passes packets; the kernel looks at new ones once a second.

        Raises:
            MrcError: one does not; names it.
        """
        waiting = {end[:2] for link in self.plan.links for end in link.ends()}
        deadline = time.monotonic() + wait_s
        while waiting:
            for node in {node for node, _ in waiting}:
                links = self.net.ask(self.space(node), "get_links")
                up = {
                    link.get_attr("IFLA_IFNAME") for link in links if link.get_attr("IFLA_OPERSTATE") == "UP"
                }
                waiting -= {(node, dev) for dev in up}
            if waiting and time.monotonic() > deadline:
                node, dev = min(waiting)
                raise MrcError(f"link {dev} of {node} does not come up ({len(waiting)} ends of links in all)")
            if waiting:
                time.sleep(0.02)


def _write_sysctl(key: str, value: int) -> None:
    file = Path("/proc/sys/net/ipv6") / key.replace(".", "/")
    with contextlib.suppress(FileNotFoundError):
        try:
            file.write_text(f"{value}\n")
        except OSError as error:
            raise MrcError(f"net.ipv6.{key} = {value}: {error.strerror}") from None
