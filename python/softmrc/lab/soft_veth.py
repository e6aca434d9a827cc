"""A lab of the user-space switch whose hosts are network namespaces: any program in them reaches the fabric.

For kernels without uSIDs where namespaces can be had: as root, or in a user namespace (`unshare -Urnm`). Each host's
ports are veth devices as in a lab of the kernel; their far ends are all in one namespace more, where the switch reads
and writes packets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from softmrc.errors import UsageError
from softmrc.lab.build import Maker
from softmrc.lab.lab import Lab
from softmrc.lab.names import Node, namespace
from softmrc.lab.offload import split_bursts
from softmrc.lab.plan import NodePlan, Plan
from softmrc.lab.soft import SoftLab
from softmrc.lab.soft_config import near_device
from softmrc.netns import missing
from softmrc.netns.enter import entered

__all__ = ["VethLab", "hosts_alone"]


def hosts_alone(plan: Plan) -> Plan:
    """Return what stands in the kernel of such a lab: the hosts as ever, and one node with the far ends of their links.

    Args:
        plan: of the whole lab.
    """
    nodes = {n: p for n, p in plan.nodes.items() if p.node.kind == "host"}
    switch = Node(
        f"h{len(nodes)}", "host", len(nodes)
    )  # no host has this number; it forwards nothing by itself
    links = [
        replace(link, b_node=switch.name, b_dev=near_device(link))
        for link in plan.links
        if link.kind == "host"
    ]
    return Plan(plan.spec, {**nodes, switch.name: NodePlan(switch)}, links)


class VethLab(SoftLab):
    """See above; the same face as every lab."""

    @property
    def has_namespaces(self) -> bool:
        """Any program reaches the fabric."""
        return True

    def _start(self, keep: bool, step: Callable[[str], None]) -> None:
        if lacks := missing():
            raise UsageError(f"no namespaces for hosts: {', '.join(lacks)}; --switch soft needs none")
        made = hosts_alone(self.plan)
        maker = Maker(made, self.netlinks)
        maker.make(step)
        for link in made.links:
            with entered(maker.space(link.a_node)):
                split_bursts(link.a_dev)
        maker.settle()
        with entered(maker.space(made.links[0].b_node)):
            super()._start(keep, step)

    def namespace(self, node: str) -> str:
        """Return the network namespace of a host.

        Raises:
            UsageError: a switch: it has none.
        """
        if node in self.hosts:
            return namespace(self.name, node)
        return super().namespace(node)

    def command(self, node: str, *command: str) -> list[str]:
        """Return the command that runs `command` in a host."""
        super().command(node)  # refuses switches
        return Lab.command(self, node, *command)

    def socket(self, host: str, plane: int, port: int = 0) -> Any:
        """Return a UDP socket of this process in a host, bound to its address in a plane."""
        return Lab.socket(self, host, plane, port)
