"""The work of one simulated run: a graph of sends and delays in flat arrays.

Decides what a task is, what one task may wait for and which graphs are refused; leaves making graphs to
`softmrc.sim.workloads` and running them to the simulator. Arrays, not objects: an all-to-all of 1,024 hosts has a
million tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmrc.errors import UsageError

__all__ = [
    "GREEDY",
    "MAX_GROUPS",
    "MAX_SIZE",
    "MAX_TIME_NS",
    "Collective",
    "Int32s",
    "Int64s",
    "TaskKind",
    "Workload",
]

GREEDY = 1 << 62
"""Size of a send that never ends: it is measured by counters."""
MAX_SIZE = 1 << 48
"""Largest send that ends, bytes (256 TiB)."""
MAX_TIME_NS = 1 << 52
"""Latest start and longest delay, ns (52 days): the simulator counts picoseconds in 64 bits."""
MAX_GROUPS = 64

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]


class TaskKind(IntEnum):
    """What a task does."""

    SEND = 0
    COMPUTE = 1


@dataclass(frozen=True)
class Collective:
    """One collective operation inside a workload, for its algorithm and bus bandwidth."""

    kind: str
    """Operation as nccl-tests calls it: all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send_recv."""
    ranks: int
    size: int
    """Bytes as nccl-tests counts them: of the larger of the two buffers of a rank."""
    first: int
    last: int
    """Its tasks: first <= id < last."""


@dataclass(frozen=True, eq=False)
class Workload:
    """Tasks 0..n-1 and what each waits for.

    A task starts at the latest of `start` and the moment all its dependencies are met, plus `delay`. A dependency on
    a send is met, for a task on its destination host, when its last byte has been delivered there; for a task of any
    other host when the sender has the acknowledgement. A dependency on a task of another host is otherwise seen
    within one link latency. A compute task is met at its end.
    """

    kind: NDArray[np.uint8]
    """`TaskKind`."""
    node: Int32s
    """Host where it happens; of a send the source."""
    peer: Int32s
    """Destination host of a send; -1 for a compute task."""
    size: Int64s
    """Bytes of a send, 0..MAX_SIZE, or GREEDY; 0 for a compute task."""
    start: Int64s
    """Earliest start, ns of simulated time."""
    delay: Int64s
    """ns after the last dependency: of a send before it is posted, of a compute task its duration."""
    qp: Int32s
    """Queue pair among those of (source, destination); -1: in turn."""
    group: Int32s
    """Index into `groups`, for reports."""
    dep_ptr: Int64s
    """Task i waits for dep_idx[dep_ptr[i]:dep_ptr[i + 1]]."""
    dep_idx: Int32s
    groups: list[str]
    steps: list[tuple[str, Int64s]]
    """Steps of a job in order: name, and the tasks at whose last end the step is over."""
    collectives: list[Collective]
    notes: list[str]
    """What a reader of a foreign file could not carry over one to one; shown to the user."""

    @property
    def n(self) -> int:
        """Number of tasks."""
        return len(self.kind)

    @property
    def sends(self) -> Int64s:
        """Ids of the sends."""
        return np.flatnonzero(self.kind == TaskKind.SEND)

    @property
    def bytes(self) -> int:
        """Bytes of all sends that end."""
        sizes = self.size[self.kind == TaskKind.SEND]
        # Summed as Python integers: a few sends of MAX_SIZE pass 2^63.
        values, counts = np.unique(sizes[sizes != GREEDY], return_counts=True)
        return sum(int(v) * int(c) for v, c in zip(values, counts, strict=True))

    def dependencies(self, task: int) -> Int32s:
        """Return the tasks that one task waits for.

        Raises:
            UsageError: there is no such task.
        """
        if not 0 <= task < self.n:
            raise UsageError(f"no task {task}: there are {self.n}, counted from 0")
        return self.dep_idx[self.dep_ptr[task] : self.dep_ptr[task + 1]]

    def validate(self, hosts: int) -> None:
        """Check everything the simulator relies on.

        Args:
            hosts: number of hosts of the fabric.

        Raises:
            UsageError: names the first task that is wrong, and how.
        """
        self._check_shape()
        self._check_ranges(hosts)
        self._check_dependencies()

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name, as the compiled core takes them."""
        return {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if isinstance(getattr(self, f.name), np.ndarray)
        }

    def _check_shape(self) -> None:
        expected = {"kind": np.uint8, "node": np.int32, "peer": np.int32, "size": np.int64, "start": np.int64}
        expected |= {
            "delay": np.int64,
            "qp": np.int32,
            "group": np.int32,
            "dep_ptr": np.int64,
            "dep_idx": np.int32,
        }
        for name, dtype in expected.items():
            array = getattr(self, name)
            if array.dtype != dtype or array.ndim != 1 or not array.flags.c_contiguous:
                raise UsageError(f"workload array {name!r} is no contiguous row of {np.dtype(dtype).name}")
            if name not in ("dep_ptr", "dep_idx") and len(array) != self.n:
                raise UsageError(f"workload array {name!r} has {len(array)} entries for {self.n} tasks")
        if len(self.groups) > MAX_GROUPS:
            raise UsageError(f"{len(self.groups)} reporting groups; the most is {MAX_GROUPS}")
        if len(self.dep_ptr) != self.n + 1 or self.dep_ptr[0] != 0 or self.dep_ptr[-1] != len(self.dep_idx):
            raise UsageError("dep_ptr must have one entry more than there are tasks, from 0 to len(dep_idx)")
        if (np.diff(self.dep_ptr) < 0).any():
            raise UsageError(f"dep_ptr falls after task {int(np.flatnonzero(np.diff(self.dep_ptr) < 0)[0])}")

    def _check_ranges(self, hosts: int) -> None:
        send = self.kind == TaskKind.SEND
        compute = self.kind == TaskKind.COMPUTE
        greedy = self.size == GREEDY
        rules: list[tuple[NDArray[np.bool_], str]] = [
            (~send & ~compute, "kind {kind} is neither 0 (send) nor 1 (compute)"),
            ((self.node < 0) | (self.node >= hosts), f"host {{node}} is outside 0..{hosts - 1}"),
            (
                send & ((self.peer < 0) | (self.peer >= hosts)),
                f"destination {{peer}} is outside 0..{hosts - 1}",
            ),
            (
                send & (self.peer == self.node),
                "host {node} sends to itself; such a flow never meets the fabric",
            ),
            (compute & (self.peer != -1), "a compute task has no peer, so -1, not {peer}"),
            (compute & (self.size != 0), "a compute task moves no bytes, so size 0, not {size}"),
            (self.size < 0, "size {size} is negative"),
            (
                (self.size > MAX_SIZE) & ~greedy,
                f"{{size}} bytes; the most is {MAX_SIZE}, or GREEDY for no end",
            ),
            (
                (self.start < 0) | (self.start > MAX_TIME_NS),
                f"start {{start}} ns is outside 0..{MAX_TIME_NS}",
            ),
            (
                (self.delay < 0) | (self.delay > MAX_TIME_NS),
                f"delay {{delay}} ns is outside 0..{MAX_TIME_NS}",
            ),
            (self.qp < -1, "queue pair {qp}; -1 means in turn"),
            ((self.group < 0) | (self.group >= len(self.groups)), "group {group} has no name in groups"),
        ]
        for wrong, text in rules:
            if wrong.any():
                task = int(np.flatnonzero(wrong)[0])
                values = {
                    f: getattr(self, f)[task] for f in ("kind", "node", "peer", "size", "start", "delay")
                }
                values |= {"qp": self.qp[task], "group": self.group[task]}
                raise UsageError(f"task {task}: " + text.format(**values))

    def _check_dependencies(self) -> None:
        if not len(self.dep_idx):
            return
        owner = np.repeat(np.arange(self.n, dtype=np.int64), np.diff(self.dep_ptr))
        outside = (self.dep_idx < 0) | (self.dep_idx >= self.n)
        if outside.any():
            at = int(np.flatnonzero(outside)[0])
            raise UsageError(f"task {owner[at]} waits for task {self.dep_idx[at]}; there are {self.n}")
        key = owner * self.n + self.dep_idx
        key.sort()
        twice = np.flatnonzero(key[1:] == key[:-1])
        if len(twice):
            task, other = divmod(int(key[twice[0]]), self.n)
            raise UsageError(f"task {task} lists dependency {other} twice")
        endless = self.size[self.dep_idx] == GREEDY
        if endless.any():
            at = int(np.flatnonzero(endless)[0])
            raise UsageError(
                f"task {owner[at]} waits for task {self.dep_idx[at]}, a greedy send that never ends"
            )
        if (self.dep_idx >= owner).any():
            self._check_acyclic(owner)

    def _check_acyclic(self, owner: Int64s) -> None:
        """Peel off tasks whose dependencies are all peeled: by whole levels while these are wide."""
        order = np.argsort(self.dep_idx, kind="stable")
        child = owner[order]
        child_ptr = np.searchsorted(self.dep_idx[order], np.arange(self.n + 1))
        left = np.diff(self.dep_ptr)
        level = np.flatnonzero(left == 0)
        while len(level) > 64:
            begin, count = child_ptr[level], child_ptr[level + 1] - child_ptr[level]
            flat = np.repeat(begin - np.concatenate(([0], np.cumsum(count)[:-1])), count) + np.arange(
                count.sum()
            )
            reached, times = np.unique(child[flat], return_counts=True)
            left[reached] -= times
            level = reached[left[reached] == 0]
        stack = level.tolist()
        while stack:
            task = stack.pop()
            for other in child[child_ptr[task] : child_ptr[task + 1]].tolist():
                left[other] -= 1
                if left[other] == 0:
                    stack.append(other)
        stuck = np.flatnonzero(left > 0)
        if len(stuck):
            cycle = self._a_cycle(left > 0)
            raise UsageError(
                f"{len(stuck)} tasks wait for one another and would never start: "
                + " -> ".join(str(t) for t in cycle[:8])
                + (" -> ..." if len(cycle) > 8 else "")
            )

    def _a_cycle(self, stuck: NDArray[np.bool_]) -> list[int]:
        """Walk from a stuck task along unmet dependencies until one comes again."""
        seen: dict[int, int] = {}
        path: list[int] = []
        task = int(np.flatnonzero(stuck)[0])
        while task not in seen:
            seen[task] = len(path)
            path.append(task)
            task = next(int(d) for d in self.dependencies(task) if stuck[d])
        return [*path[seen[task] :], task]
