"""Hierarchical all-reduce over rails: inside the node first, then one ring per rail, then inside again.

A node has as many GPUs as rails, each with its own NIC; GPU r of every node hangs on rail r. Hosts of the fabric are
NICs, numbered node by node. What happens inside a node is not simulated: it takes the time its bytes need at the given
rate.
"""

from __future__ import annotations

import numpy as np

from softmrc.errors import UsageError
from softmrc.sim.builder import Builder
from softmrc.sim.workload import Int64s
from softmrc.sim.workloads.ranks import After, as_size, as_table, cut
from softmrc.sim.workloads.ring import ring_all_reduce

__all__ = ["hierarchical_all_reduce"]


def hierarchical_all_reduce(
    builder: Builder,
    nodes: int,
    rails: int,
    size: int,
    *,
    inside_gbps: float = 7200.0,
    pieces: int = 1,
    step_ns: int = 0,
    after: After = None,
    group: str = "all_reduce",
) -> Int64s:
    """Add a multi-rail all-reduce over hosts 0..nodes*rails-1.

    Args:
        builder: takes the tasks.
        nodes: at least 2.
        rails: GPUs and NICs of a node, at least 1.
        size: bytes of the buffer on each GPU.
        inside_gbps: rate of a GPU towards the others of its node, Gb/s one way (7200: 900 GB/s).
        pieces: parts of a shard that are pipelined in the rings.
        step_ns: time between a message of a ring and the send that follows from it.
        after: what each NIC waits for.
        group: reporting group.

    Returns:
        One id a NIC: the end of the last phase of its node.

    Raises:
        UsageError: a number out of range.
    """
    if nodes < 2 or rails < 1:
        raise UsageError(f"{nodes} nodes of {rails} rails; at least 2 nodes of 1 rail")
    if not inside_gbps > 0:
        raise UsageError(f"inside_gbps {inside_gbps} is no rate; give Gb/s, more than 0")
    hosts = np.arange(nodes * rails)
    share = cut(as_size(size), rails)
    # Reduce-scatter or all-gather among the GPUs of a node: each moves all but its own share.
    inside_ns = round((size - int(share[0])) * 8 / inside_gbps)
    first = builder.n
    waits = as_table(after, len(hosts))
    ready = builder.computes(hosts, inside_ns, after=_of_node(waits, nodes, rails), group="inside node")
    ends: list[Int64s] = []
    for rail in range(rails):
        ring = hosts[rail::rails]
        size_here, wait = int(share[rail]), ready[ring]
        ends.append(
            ring_all_reduce(builder, ring, size_here, pieces=pieces, step_ns=step_ns, after=wait, group=group)
        )
    # ends[rail][node] -> a line a NIC.
    table = np.stack(ends, axis=1).reshape(nodes * rails, -1)
    arrived = builder.computes(hosts, 0, after=table, group="inside node")
    done = builder.computes(
        hosts, inside_ns, after=_of_node(arrived.reshape(-1, 1), nodes, rails), group="inside node"
    )
    builder.collective("all_reduce", len(hosts), size, first)
    return done


def _of_node(table: Int64s | None, nodes: int, rails: int) -> Int64s | None:
    """Let every NIC wait for what any NIC of its node waits for."""
    if table is None:
        return None
    return np.repeat(table.reshape(nodes, -1), rails, axis=0)
