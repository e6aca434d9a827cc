"""What a name stands for when links are broken, watched or recorded.

`h3.p2`, `p2.t0-5.t1-7`: a link. `h3`, `p2.t1-7`: all links of a host or switch. `p2`: all of a plane. `h3.nic`: all
ports of a host, which share a transceiver. `p2.t0-5.hosts`, `p2.t0-5.up`: the links of a switch below and above it.
"""

from __future__ import annotations

import re

from softmrc.errors import UsageError
from softmrc.lab.names import Link
from softmrc.lab.plan import Plan

__all__ = ["find_links"]

_PLANE = re.compile(r"p(\d+)")


def find_links(plan: Plan, target: str) -> list[Link]:
    """Return the links of a target, in order.

    Raises:
        UsageError: nothing has that name; the text says what has.
    """
    if target in plan.by_link:
        return [plan.by_link[target]]
    if target in plan.nodes:
        return plan.at[target]
    if match := _PLANE.fullmatch(target):
        found = [link for link in plan.links if link.plane == int(match[1])]
    else:
        found = _group(plan, target)
    if not found:
        raise UsageError(
            f"nothing is called {target} in lab {plan.spec.name}: links are named like {plan.links[0].name} and "
            f"{plan.links[-1].name}, hosts h0 to h{plan.spec.hosts - 1}, switches like p1.t0-0, "
            f"planes p1 to p{plan.spec.planes}, groups h0.nic, p1.t0-0.hosts and p1.t0-0.up"
        )
    return found


def _group(plan: Plan, target: str) -> list[Link]:
    node, _, part = target.rpartition(".")
    if node not in plan.nodes:
        return []
    host = plan.nodes[node].node.kind == "host"
    if part == "nic" and host:
        return plan.at[node]
    if part == "hosts" and not host:
        return [link for link in plan.at[node] if link.b_node == node and link.kind == "host"]
    if part == "up" and not host:
        return [link for link in plan.at[node] if link.a_node == node]
    return []
