"""Chakra execution traces as workloads: one file a rank, nodes that compute, send, receive and join collectives.

Decides what a node means on a fabric; leaves files to `softmrc.sim.chakra_trace`. A node begins when all nodes it names
have ended: nothing else holds it back (no limit on what a GPU does at once). A send ends when it is acknowledged, a
receive when its nodes have ended and the message is there. The k-th send from a to b with a tag meets the k-th receive
of b from a with that tag, the k-th collective of a process group in each member's file is one operation. Sizes are as
ASTRA-sim has them: of an all-gather the shard of one rank, of all others the whole buffer.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from softmrc.errors import UsageError
from softmrc.sim.builder import Builder
from softmrc.sim.chakra_trace import COLLECTIVES, TraceNode, read_trace
from softmrc.sim.workload import Int64s, Workload
from softmrc.sim.workloads import (
    all_to_all,
    broadcast,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
    tree_all_reduce,
)

__all__ = ["read_chakra", "trace_files"]

Key = tuple[int, int]
"""Rank, and place of the node in its file."""


def trace_files(prefix: str | Path) -> list[Path]:
    """Return the files PREFIX.0.et, PREFIX.1.et, ... (or .json), one a rank.

    Raises:
        UsageError: there are none, a rank is missing, or a rank has two.
    """
    prefix = Path(prefix)
    pattern = re.compile(re.escape(prefix.name) + r"\.(\d+)\.(et|json)")
    found: dict[int, Path] = {}
    try:
        names = sorted(p.name for p in prefix.parent.iterdir())
    except OSError as e:
        raise UsageError(f"cannot read the directory of the traces {prefix}: {e}") from e
    for name in names:
        if match := pattern.fullmatch(name):
            rank = int(match[1])
            if rank in found:
                raise UsageError(f"rank {rank} has two traces: {found[rank].name} and {name}")
            found[rank] = prefix.parent / name
    if not found:
        raise UsageError(f"no trace {prefix}.0.et; a trace is a file for each rank, PREFIX.RANK.et or .json")
    missing = [r for r in range(max(found)) if r not in found]
    if missing:
        raise UsageError(f"the trace {prefix} has ranks to {max(found)}, but none for rank {missing[0]}")
    return [found[r] for r in range(len(found))]


def read_chakra(
    prefix: str | Path,
    *,
    groups: str | Path | None = None,
    placement: Sequence[int] | None = None,
    all_reduce: str = "ring",
    pieces: int = 1,
    tflops: float | None = None,
) -> Workload:
    """Read the traces PREFIX.RANK.et and return what they do.

    Args:
        prefix: path up to the rank.
        groups: JSON file of process groups, {"name": [ranks, ...]}; without it the members of a group are the ranks
            whose traces name it.
        placement: host of each rank; None: rank i is host i.
        all_reduce: "ring" or "tree".
        pieces: parts of a shard that collectives pipeline.
        tflops: rate that turns `num_ops` of compute nodes without duration into time, 10^12 operations a second.

    Raises:
        UsageError: a trace is malformed, holds a node that is not supported, does not match the others, or would wait
            for ever; names file and node.
    """
    if all_reduce not in ("ring", "tree"):
        raise UsageError(f"an all-reduce is a ring or a tree, not {all_reduce!r}")
    if tflops is not None and not tflops > 0:
        raise UsageError(f"tflops {tflops} is no rate; more than 0")
    files = trace_files(prefix)
    hosts = list(range(len(files))) if placement is None else list(placement)
    if len(hosts) != len(files) or len(set(hosts)) != len(hosts):
        raise UsageError(
            f"{len(files)} ranks need as many different hosts, not {len(hosts)} ({len(set(hosts))} different)"
        )
    named = None if groups is None else _read_groups(Path(groups), len(files))
    options = _Options(hosts, all_reduce, pieces, tflops)
    return _Job([read_trace(f) for f in files], [str(f) for f in files], named, options).build()


@dataclass(frozen=True)
class _Options:
    hosts: list[int]
    all_reduce: str
    pieces: int
    tflops: float | None


@dataclass
class _Unit:
    """What happens as one: a node, or a collective of several."""

    nodes: list[Key]
    after: set[int] = field(default_factory=set)
    message: Key | None = None
    """Of a receive: the send it meets."""


def _read_groups(path: Path, ranks: int) -> dict[str, list[int]]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        raise UsageError(f"cannot read the process groups {path}: {e}") from e
    if not isinstance(data, dict):
        raise UsageError(f"{path}: process groups are one JSON object, name to list of ranks")
    for name, members in data.items():
        wrong = not isinstance(members, list) or any(
            type(m) is not int or not 0 <= m < ranks for m in members
        )
        if wrong or len(set(members)) != len(members) or not members:
            raise UsageError(
                f"{path}: group {name!r} is a list of different ranks 0..{ranks - 1}, not {members!r}"
            )
    return {str(k): v for k, v in data.items()}


class _Job:
    def __init__(
        self,
        traces: list[list[TraceNode]],
        files: list[str],
        groups: Mapping[str, list[int]] | None,
        options: _Options,
    ) -> None:
        self.traces, self.files, self.groups, self.options = traces, files, groups, options
        self.builder = Builder()
        self.units: list[_Unit] = []
        self.unit_of: dict[Key, int] = {}
        self.task_of: dict[Key, int] = {}

    def build(self) -> Workload:
        self.make_units()
        self.match_messages()
        place = [{node.id: at for at, node in enumerate(trace)} for trace in self.traces]
        for number, unit in enumerate(self.units):
            for rank, at in unit.nodes:
                unit.after |= {self.unit_of[rank, place[rank][d]] for d in self.traces[rank][at].deps}
            if unit.message is not None:
                unit.after.add(self.unit_of[unit.message])
            if number in unit.after:
                raise UsageError(f"{self.node(unit.nodes[0]).where}: waits for itself")
        for number in self.order():
            self.emit(self.units[number], place)
        return self.builder.build(hosts=max(self.options.hosts) + 1)

    def node(self, key: Key) -> TraceNode:
        return self.traces[key[0]][key[1]]

    def make_units(self) -> None:
        collectives: dict[str, dict[int, list[Key]]] = defaultdict(lambda: defaultdict(list))
        for rank, trace in enumerate(self.traces):
            for at, node in enumerate(trace):
                if node.kind == "COMM_COLL_NODE":
                    collectives[str(node.attributes.get("pg_name", ""))][rank].append((rank, at))
                else:
                    self.add_unit([(rank, at)])
        for name, by_rank in sorted(collectives.items()):
            members = self.members(name, by_rank)
            count = max(len(keys) for keys in by_rank.values())
            for rank in members:
                if len(by_rank[rank]) != count:
                    raise UsageError(
                        f"{self.files[rank]}: {len(by_rank[rank])} collectives in process group {name!r}, others have "
                        f"{count}; all members must join each"
                    )
            for k in range(count):
                self.add_unit([by_rank[rank][k] for rank in members])

    def members(self, name: str, by_rank: Mapping[int, list[Key]]) -> list[int]:
        if not name:
            return list(range(len(self.traces)))
        if self.groups is None:
            return sorted(by_rank)
        first = self.node(next(iter(by_rank.values()))[0])
        if name not in self.groups:
            raise UsageError(f"{first.where}: process group {name!r} is not in the file of groups")
        for rank, keys in by_rank.items():
            if rank not in self.groups[name]:
                raise UsageError(
                    f"{self.node(keys[0]).where}: rank {rank} is no member of process group {name!r}"
                )
        return self.groups[name]

    def add_unit(self, keys: list[Key]) -> None:
        for key in keys:
            self.unit_of[key] = len(self.units)
        self.units.append(_Unit(keys))

    def match_messages(self) -> None:
        sends: dict[tuple[int, int, int], list[Key]] = defaultdict(list)
        receives: dict[tuple[int, int, int], list[Key]] = defaultdict(list)
        for rank, trace in enumerate(self.traces):
            for at, node in enumerate(trace):
                if node.kind not in ("COMM_SEND_NODE", "COMM_RECV_NODE"):
                    continue
                mine, other = (
                    ("comm_src", "comm_dst") if node.kind == "COMM_SEND_NODE" else ("comm_dst", "comm_src")
                )
                peer, tag = node.number(other), int(node.attributes.get("comm_tag", 0))
                if int(node.attributes.get(mine, rank)) != rank:
                    raise UsageError(
                        f"{node.where}: {mine} {node.attributes[mine]} in the trace of rank {rank}"
                    )
                if peer >= len(self.traces) or peer == rank:
                    why = "itself" if peer == rank else f"rank {peer}, which has no trace"
                    raise UsageError(f"{node.where}: {other} is {why}")
                if node.kind == "COMM_SEND_NODE":
                    sends[rank, peer, tag].append((rank, at))
                else:
                    receives[peer, rank, tag].append((rank, at))
        for pair in sorted(sends.keys() | receives.keys()):
            self.match(pair, sends[pair], receives[pair])

    def match(self, pair: tuple[int, int, int], sends: list[Key], receives: list[Key]) -> None:
        if len(sends) != len(receives):
            odd = sends[len(receives)] if len(sends) > len(receives) else receives[len(sends)]
            what = "receive" if len(sends) > len(receives) else "send"
            raise UsageError(
                f"{self.node(odd).where}: rank {pair[0]} to {pair[1]}, tag {pair[2]}: no {what} meets it"
            )
        for send, receive in zip(sends, receives, strict=True):
            sizes = [self.node(k).number("comm_size") for k in (send, receive)]
            if sizes[0] != sizes[1]:
                raise UsageError(
                    f"{self.node(receive).where}: takes {sizes[1]} bytes, its send has {sizes[0]}"
                )
            self.units[self.unit_of[receive]].message = send

    def order(self) -> list[int]:
        """Return the units so that each comes after all it waits for.

        Raises:
            UsageError: some wait for one another.
        """
        then: list[list[int]] = [[] for _ in self.units]
        left = [len(u.after) for u in self.units]
        for number, unit in enumerate(self.units):
            for other in unit.after:
                then[other].append(number)
        done = [number for number, count in enumerate(left) if not count]
        for number in done:
            for other in then[number]:
                left[other] -= 1
                if not left[other]:
                    done.append(other)
        if len(done) < len(self.units):
            stuck = [self.node(self.units[i].nodes[0]).where for i, count in enumerate(left) if count]
            raise UsageError(
                f"{len(stuck)} nodes wait for one another for ever; among them {'; '.join(stuck[:4])}"
            )
        return done

    def emit(self, unit: _Unit, place: list[dict[int, int]]) -> None:
        waits = [
            [self.task_of[rank, place[rank][d]] for d in self.traces[rank][at].deps]
            for rank, at in unit.nodes
        ]
        rank, _ = unit.nodes[0]
        node, host = self.node(unit.nodes[0]), self.options.hosts[rank]
        if node.kind == "COMM_COLL_NODE":
            self.emit_collective(unit, waits)
            return
        after = np.array([waits[0]], dtype=np.int64)
        if node.kind == "COMM_SEND_NODE":
            target = self.options.hosts[node.number("comm_dst")]
            ids = self.builder.sends(host, target, node.number("comm_size"), after=after, group="send/recv")
        elif unit.message is not None:
            after = np.array([[*waits[0], self.task_of[unit.message]]], dtype=np.int64)
            ids = self.builder.computes(host, 0, after=after, group="send/recv")
        else:
            ids = self.builder.computes(host, self.compute_ns(node), after=after)
        self.task_of[unit.nodes[0]] = int(ids[0])

    def compute_ns(self, node: TraceNode) -> int:
        operations = int(node.attributes.get("num_ops", 0))
        if node.duration_us or not operations:
            return node.duration_us * 1000
        if self.options.tflops is None:
            raise UsageError(
                f"{node.where}: {operations} operations but no duration; give tflops to turn them into time"
            )
        return round(operations / self.options.tflops / 1000)

    def emit_collective(self, unit: _Unit, waits: list[list[int]]) -> None:
        first = self.node(unit.nodes[0])
        kind, size = first.number("comm_type"), self.size_of(first)
        for key in unit.nodes[1:]:
            node = self.node(key)
            if node.number("comm_type") != kind or self.size_of(node) != size:
                raise UsageError(
                    f"{node.where}: another collective than {first.where} in the same turn of the group"
                )
        hosts = np.array([self.options.hosts[rank] for rank, _ in unit.nodes])
        width = max(len(w) for w in waits)
        table = np.array([w + [-1] * (width - len(w)) for w in waits], dtype=np.int64).reshape(
            len(waits), width
        )
        name = COLLECTIVES[kind] if kind < len(COLLECTIVES) else str(kind)
        ready = self.builder.computes(hosts, 0, after=table, group="collectives")
        ends = ready if len(hosts) == 1 else self.collective(first, name, hosts, size, ready)
        done = self.builder.computes(
            hosts,
            0,
            after=np.concatenate((ready.reshape(-1, 1), ends.reshape(len(hosts), -1)), 1),
            group="collectives",
        )
        self.task_of.update(zip(unit.nodes, done.tolist(), strict=True))

    def size_of(self, node: TraceNode) -> int:
        return (
            0
            if node.attributes.get("comm_type") == COLLECTIVES.index("BARRIER")
            else node.number("comm_size")
        )

    def collective(self, node: TraceNode, name: str, hosts: Int64s, size: int, ready: Int64s) -> Int64s:
        b, pieces = self.builder, self.options.pieces
        if name == "ALL_REDUCE" and self.options.all_reduce == "ring":
            return ring_all_reduce(b, hosts, size, pieces=pieces, after=ready, group=name.lower())
        if name == "ALL_REDUCE":
            return tree_all_reduce(b, hosts, size, pieces=pieces, after=ready, group=name.lower())
        if name == "BARRIER":
            return tree_all_reduce(b, hosts, 0, pieces=1, trees=1, after=ready, group=name.lower())
        if name == "ALL_GATHER":
            return ring_all_gather(
                b, hosts, size * len(hosts), pieces=pieces, after=ready, group=name.lower()
            )
        if name in ("REDUCE_SCATTER", "REDUCE_SCATTER_BLOCK"):
            return ring_reduce_scatter(b, hosts, size, pieces=pieces, after=ready, group="reduce_scatter")
        if name == "ALL_TO_ALL":
            return all_to_all(b, hosts, size, after=ready, group=name.lower())
        if name == "BROADCAST":
            root = self.root_of(node, hosts)
            return broadcast(b, hosts, size, root=root, pieces=pieces, after=ready, group=name.lower())
        raise UsageError(f"{node.where}: collective {name} is not supported")

    def root_of(self, node: TraceNode, hosts: Int64s) -> int:
        """Return the place in the group of the rank that broadcasts: comm_src, else the first."""
        if "comm_src" not in node.attributes:
            return 0
        root, known = node.number("comm_src"), self.options.hosts
        if root >= len(known) or known[root] not in hosts.tolist():
            raise UsageError(f"{node.where}: comm_src {root} is not in the group of the broadcast")
        return int(np.flatnonzero(hosts == known[root])[0])
