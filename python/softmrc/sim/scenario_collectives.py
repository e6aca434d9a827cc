"""Collectives in scenario files: where they run, the keys of each kind, and its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from softmrc.errors import UsageError
from softmrc.sim.builder import Builder
from softmrc.sim.config import Clos, Topology
from softmrc.sim.fabric import build
from softmrc.sim.table import check_keys, read_table
from softmrc.sim.workload import Int64s
from softmrc.sim.workloads import (
    all_to_all,
    broadcast,
    hierarchical_all_reduce,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
    send_recv_ring,
    tree_all_reduce,
)

__all__ = ["COLLECTIVES", "Collective", "Place", "read_collective"]


@dataclass(frozen=True)
class Place:
    """Where a workload runs."""

    topology: Topology
    seed: int
    folder: Path
    """Files named in the table are relative to it."""

    @property
    def hosts(self) -> int:
        """Hosts of the fabric."""
        return self.topology.hosts

    @property
    def host_gbps(self) -> float:
        """Rate of a host over all its ports; of a hand-made fabric the mean of all hosts."""
        if isinstance(self.topology, Clos):
            return self.topology.planes * self.topology.gbps(0)
        fabric = build(self.topology)
        return float(fabric.link_bps_up[fabric.tier_of_links() == 0].sum()) / 1e9 / self.hosts

    def ranks(self, hosts: int | tuple[int, ...] | None, order: str) -> Int64s:
        """Return the hosts that take part: the first so many, a list, or all; in host order or across T0s in turn.

        Raises:
            UsageError: more than there are, or an order that this fabric does not have.
        """
        if isinstance(hosts, tuple):
            ids = np.array(hosts, dtype=np.int64)
        else:
            count = self.hosts if hosts is None else hosts
            if not 1 <= count <= self.hosts:
                raise UsageError(f"hosts = {count}: the fabric has {self.hosts}")
            ids = np.arange(count, dtype=np.int64)
        if ids.size and not 0 <= ids.min() <= ids.max() < self.hosts:
            raise UsageError(f"hosts = {list(ids)}: the fabric has hosts 0..{self.hosts - 1}")
        if order == "host":
            return ids
        if order != "across-t0" or not isinstance(self.topology, Clos):
            raise UsageError(
                f'order = {order!r}: "host", or in a Clos "across-t0" (neighbours in different T0s)'
            )
        return ids[np.lexsort((ids // self.topology.hosts_per_t0, ids % self.topology.hosts_per_t0))]


@dataclass(frozen=True, kw_only=True)
class Collective:
    """A collective among hosts."""

    kind: str
    size: int
    hosts: int | tuple[int, ...] | None = None
    order: str = "host"
    rounds: int = 1
    """How often, one after another on each host."""
    pieces: int = 1
    step_ns: int = 0
    """Of rings: time between a message and the send that follows from it."""
    window: int = 0
    """Of all_to_all: sends of a host in flight, 0: all."""
    trees: int = 2
    root: int = 0
    """Of broadcast: index of the host that has the data."""
    shape: str = "tree"
    rails: int = 1
    """Of hierarchical_all_reduce: NICs of a node."""
    inside_gbps: float = 7200.0

    def add(self, b: Builder, place: Place) -> None:
        """Add it, `rounds` times."""
        if self.rounds < 1:
            raise UsageError(f"rounds = {self.rounds}: at least 1")
        done: Int64s | None = None
        for _ in range(self.rounds):
            done = self.once(b, place, done)

    def once(self, b: Builder, place: Place, after: Int64s | None) -> Int64s:
        """Add it once; takes and returns a line of dependencies a rank."""
        ranks, pieces, step_ns = self.ranks(place), self.pieces, self.step_ns
        if self.kind == "ring_all_reduce":
            return ring_all_reduce(b, ranks, self.size, after=after, pieces=pieces, step_ns=step_ns)
        if self.kind == "all_gather":
            return ring_all_gather(b, ranks, self.size, after=after, pieces=pieces, step_ns=step_ns)
        if self.kind == "reduce_scatter":
            return ring_reduce_scatter(b, ranks, self.size, after=after, pieces=pieces, step_ns=step_ns)
        if self.kind == "tree_all_reduce":
            return tree_all_reduce(b, ranks, self.size, pieces=pieces, trees=self.trees, after=after)
        if self.kind == "all_to_all":
            return all_to_all(b, ranks, self.size, window=self.window, after=after)
        if self.kind == "send_recv":
            return send_recv_ring(b, ranks, self.size, after=after)
        if self.kind == "broadcast":
            return broadcast(
                b, ranks, self.size, root=self.root, shape=self.shape, pieces=pieces, after=after
            )
        nodes, odd = divmod(len(ranks), self.rails) if self.rails > 0 else (0, 1)
        if odd or (ranks != np.arange(len(ranks))).any():
            raise UsageError(
                f"rails = {self.rails}: {len(ranks)} hosts, from 0 and in host order, are no whole nodes"
            )
        return hierarchical_all_reduce(
            b,
            nodes,
            self.rails,
            self.size,
            inside_gbps=self.inside_gbps,
            after=after,
            pieces=pieces,
            step_ns=step_ns,
        )

    def ranks(self, place: Place) -> Int64s:
        """Return the hosts that take part, in order."""
        return place.ranks(self.hosts, self.order)


COLLECTIVES: dict[str, tuple[str, ...]] = {
    "ring_all_reduce": ("pieces", "step_ns"),
    "all_gather": ("pieces", "step_ns"),
    "reduce_scatter": ("pieces", "step_ns"),
    "tree_all_reduce": ("pieces", "trees"),
    "all_to_all": ("window",),
    "broadcast": ("root", "shape", "pieces"),
    "send_recv": (),
    "hierarchical_all_reduce": ("rails", "inside_gbps", "pieces", "step_ns"),
}
"""Kinds of collectives and the keys each has beside size, hosts, order and rounds."""


def read_collective(table: Mapping[str, Any], where: str) -> Collective:
    """Read the table of a collective; each kind takes only its own keys.

    Raises:
        UsageError: an unknown kind or key, or a wrong value; names `where`.
    """
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in COLLECTIVES:
        raise UsageError(f"{where}.kind = {kind!r}: {', '.join(COLLECTIVES)}")
    check_keys(table, ("kind", "size", "hosts", "order", "rounds", *COLLECTIVES[kind]), where)
    return read_table(Collective, table, where)
