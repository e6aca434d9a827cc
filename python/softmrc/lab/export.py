"""The fabric's static SRv6 configuration as the text of real switches: FRR, and CONFIG_DB of SONiC.

Decides addresses of links (a /127 each, so that the text stands on its own), names of ports, and nothing else: SIDs and
routes are those of the lab's plan. A switch needs its own uN, a /48 to each neighbour, and for bare addresses a /48 to
each host; no routing protocol runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Any

from softmrc.errors import UsageError
from softmrc.lab.names import Link
from softmrc.lab.plan import NodePlan, Plan, Route

__all__ = ["FORMATS", "export_fabric", "link_address"]

FORMATS: Mapping[str, str] = {"frr": ".conf", "sonic": ".json"}
"""Formats, and how the names of their files end."""
_LOCATOR = "MAIN"
_LINKS = 0xFDFC
_PORT_STEP = 4


@dataclass(frozen=True)
class _Port:
    """A switch's end of a link: its name there, addresses of both ends, and who is at the other one."""

    name: str
    own: str
    neighbour: str
    far: str


def link_address(link: Link, side: str) -> str:
    """Return the address of the lower ("a") or upper ("b") end of a link, out of its /127.

    Args:
        link: of the lab.
        side: "a" or "b".
    """
    value = (_LINKS << 112) | (link.plane << 96) | (link.number << 80) | (side == "b")
    return str(IPv6Address(value))


def export_fabric(plan: Plan, form: str, node: str | None = None) -> dict[str, str]:
    """Return the configuration of switches, by name.

    Args:
        plan: of the lab.
        form: one of `FORMATS`.
        node: one switch; None: all.

    Raises:
        UsageError: no such format, or no such switch.
    """
    if form not in FORMATS:
        raise UsageError(f"format is one of {', '.join(FORMATS)}, not {form!r}")
    switches = [n for n, p in plan.nodes.items() if p.forwards]
    if node is not None and node not in switches:
        raise UsageError(f"no switch {node}: switches are named like {switches[0]}")
    write = _frr if form == "frr" else _sonic
    return {name: write(plan, plan.nodes[name]) for name in switches if node in (None, name)}


def _ports(plan: Plan, node: NodePlan, sonic: bool) -> dict[str, _Port]:
    """Return a switch's ports by the name of the lab's device."""
    found = {}
    for place, link in enumerate(plan.at[node.node.name]):
        for side, other, far, dev in (
            ("a", "b", link.b_node, link.a_dev), ("b", "a", link.a_node, link.b_dev)
        ):  # fmt: skip
            if (link.a_node if side == "a" else link.b_node) == node.node.name:
                name = f"Ethernet{_PORT_STEP * place}" if sonic else dev
                found[dev] = _Port(name, link_address(link, side), link_address(link, other), far)
    return found


def _own(node: NodePlan) -> str:
    return next(s.dst for s in node.sids if s.action == "End")


def _crosses(node: NodePlan, ports: Mapping[str, _Port]) -> list[tuple[str, _Port]]:
    """Return the uA SIDs with their ports: in the plan they follow the neighbours in order."""
    sids = [s.dst for s in node.sids if s.action == "End.X"]
    return [(sid, ports[hop.dev]) for sid, hop in zip(sids, node.neighbours, strict=False)]


def _hops(route: Route, ports: Mapping[str, _Port]) -> list[_Port]:
    return [ports[hop.dev] for hop in route.hops]


def _frr(plan: Plan, node: NodePlan) -> str:
    ports = _ports(plan, node, sonic=False)
    lines = ["frr defaults datacenter", f"hostname {node.node.name.replace('.', '-')}", "!"]
    for port in ports.values():
        lines += [
            f"interface {port.name}",
            f" description {port.far}",
            f" ipv6 address {port.own}/127",
            "exit",
            "!",
        ]
    lines += [
        "segment-routing", " srv6", "  locators", f"   locator {_LOCATOR}",
        f"    prefix {_own(node)} block-len 32 node-len 16 func-bits 16", "    behavior usid", "   exit", "   !",
        "  exit", "  !", "  static-sids", f"   sid {_own(node)} locator {_LOCATOR} behavior uN",
    ]  # fmt: skip
    lines += [
        f"   sid {sid} locator {_LOCATOR} behavior uA interface {port.name} nexthop {port.neighbour}"
        for sid, port in _crosses(node, ports)
    ]
    lines += ["  exit", "  !", " exit", " !", "exit", "!"]
    lines += [f"ipv6 route {r.dst} {p.neighbour} {p.name}" for r in node.routes for p in _hops(r, ports)]
    return "\n".join([*lines, "!", "end", ""])


def _sonic(plan: Plan, node: NodePlan) -> str:
    ports = _ports(plan, node, sonic=True)
    interfaces: dict[str, dict[str, str]] = {}
    for port in ports.values():
        interfaces |= {port.name: {}, f"{port.name}|{port.own}/127": {}}
    sids: dict[str, dict[str, str]] = {
        f"{_LOCATOR}|{_own(node)}": {"action": "uN", "decap_dscp_mode": "pipe"}
    }
    for sid, port in _crosses(node, ports):
        sids[f"{_LOCATOR}|{sid}"] = {"action": "uA", "interface": port.name, "adj": port.neighbour}
    routes = {}
    for route in node.routes:
        hops = _hops(route, ports)
        routes[f"default|{route.dst}"] = {
            "nexthop": ",".join(p.neighbour for p in hops),
            "ifname": ",".join(p.name for p in hops),
        }
    config: dict[str, Any] = {
        "DEVICE_METADATA": {"localhost": {"hostname": node.node.name.replace(".", "-")}},
        "PORT": {
            p.name: {"description": p.far, "mtu": str(plan.spec.mtu), "admin_status": "up"} for p in ports.values()
        },
        "INTERFACE": interfaces,
        "SRV6_MY_LOCATORS": {
            _LOCATOR: {
                "prefix": _own(node).partition("/")[0], "block_len": "32", "node_len": "16", "func_len": "16",
                "arg_len": "0",
            }
        },
        "SRV6_MY_SIDS": sids,
        "STATIC_ROUTE": routes,
    }  # fmt: skip
    return json.dumps(config, indent=2) + "\n"
