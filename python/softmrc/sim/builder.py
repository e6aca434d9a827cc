"""Makes workloads piece by piece: rows of sends and delays with what they wait for.

Decides how tasks are numbered and how dependencies are given; leaves patterns to `softmrc.sim.workloads`. Everything
takes whole rows at once, so that a million tasks are a few calls.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softmrc.errors import UsageError
from softmrc.sim.workload import MAX_GROUPS, Collective, Int32s, Int64s, TaskKind, Workload

__all__ = ["Builder"]

_COLUMNS: tuple[tuple[str, type[np.generic]], ...] = (
    ("kind", np.uint8),
    ("node", np.int32),
    ("peer", np.int32),
    ("size", np.int64),
    ("start", np.int64),
    ("delay", np.int64),
    ("qp", np.int32),
    ("group", np.int32),
)


class Builder:
    """Collects tasks; ids count up from 0 in the order of the calls.

    Dependencies (`after`) are given as ids: one a task (a row), several a task (a table with a line for each task,
    or a row that all tasks of the call share by being a table of one line), -1 where a table has nothing to say. An
    id given twice for one task counts once.

    Example:
        >>> b = Builder()
        >>> first = b.sends([0, 1], [1, 0], 4096)
        >>> reply = b.sends([1, 0], [0, 1], 64, after=first)
        >>> b.build(hosts=2).n
        4
    """

    def __init__(self) -> None:
        self._n = 0
        self._rows: dict[str, list[NDArray[np.generic]]] = {name: [] for name, _ in _COLUMNS}
        self._dep_counts: list[Int64s] = []
        self._dep_ids: list[Int32s] = []
        self._groups: list[str] = []
        self._steps: list[tuple[str, Int64s]] = []
        self._collectives: list[Collective] = []
        self._notes: list[str] = []

    @property
    def n(self) -> int:
        """Number of tasks so far, which is the id of the next."""
        return self._n

    def group(self, name: str) -> int:
        """Return the number of a reporting group, made when it is new.

        Raises:
            UsageError: more than 64 groups.
        """
        if name not in self._groups:
            if len(self._groups) == MAX_GROUPS:
                raise UsageError(f"reporting group {name!r} is one too many: the most is {MAX_GROUPS}")
            self._groups.append(name)
        return self._groups.index(name)

    def sends(
        self,
        source: ArrayLike,
        destination: ArrayLike,
        size: ArrayLike,
        *,
        after: ArrayLike | None = None,
        start: ArrayLike = 0,
        delay: ArrayLike = 0,
        qp: ArrayLike = -1,
        group: str = "flows",
    ) -> Int64s:
        """Add sends; rows and single values mix.

        Args:
            source: host that sends.
            destination: host that receives.
            size: bytes, or GREEDY for a flow without end.
            after: ids they wait for.
            start: earliest start, ns.
            delay: ns between the last dependency and posting.
            qp: queue pair of the pair of hosts; -1: in turn.
            group: reporting group.

        Returns:
            The ids, in order.

        Raises:
            UsageError: a host sends to itself, rows differ in length, or a dependency is not there yet.
        """
        src, dst, sizes, starts, delays, qps = _rows(source, destination, size, start, delay, qp)
        loops = np.flatnonzero(src == dst)
        if len(loops):
            which = f"send {loops[0]} of {len(src)}: host {src[loops[0]]}"
            raise UsageError(f"{which} sends to itself; such a flow never meets the fabric")
        return self._add(TaskKind.SEND, (src, dst, sizes, starts, delays, qps), after, group)

    def computes(
        self,
        node: ArrayLike,
        duration: ArrayLike,
        *,
        after: ArrayLike | None = None,
        start: ArrayLike = 0,
        group: str = "compute",
    ) -> Int64s:
        """Add delays on hosts; a duration of 0 only joins dependencies.

        Args:
            node: host.
            duration: ns.
            after: ids they wait for.
            start: earliest start, ns.
            group: reporting group.

        Returns:
            The ids, in order.

        Raises:
            UsageError: rows differ in length, or a dependency is not there yet.
        """
        nodes, durations, starts = _rows(node, duration, start)
        zero = np.zeros_like(nodes)
        return self._add(TaskKind.COMPUTE, (nodes, zero - 1, zero, starts, durations, zero - 1), after, group)

    def barrier(self, after: ArrayLike, node: int = 0, *, group: str = "barrier") -> int:
        """Add a task without duration that waits for all given; what waits for it starts within two link latencies.

        Args:
            after: ids, any shape; -1 is nothing.
            node: host that keeps it.
            group: reporting group.

        Returns:
            Its id.
        """
        ids = np.unique(np.asarray(after, dtype=np.int64))
        return int(self.computes([node], 0, after=ids.reshape(1, -1), group=group)[0])

    def step(self, name: str, ids: ArrayLike) -> None:
        """Say that a step of the job is over when all these tasks are."""
        self._steps.append((name, np.unique(np.asarray(ids, dtype=np.int64))))

    def collective(self, kind: str, ranks: int, size: int, first: int) -> None:
        """Say that the tasks from `first` to the latest are one collective operation of `size` bytes.

        Collectives that it is made of are no longer reported apart.
        """
        self._collectives = [c for c in self._collectives if c.first < first]
        self._collectives.append(Collective(kind, ranks, size, first, self._n))

    def note(self, text: str) -> None:
        """Keep a sentence for the user of this workload; the same one only once."""
        if text not in self._notes:
            self._notes.append(text)

    def build(self, hosts: int | None = None) -> Workload:
        """Return what was collected.

        Args:
            hosts: number of hosts; with it the workload is validated.

        Raises:
            UsageError: nothing was added, or the workload is not valid.
        """
        if not self._n:
            raise UsageError("a workload without a single task; add a send or a compute task first")
        columns = {name: np.concatenate(self._rows[name]).astype(dtype) for name, dtype in _COLUMNS}
        counts = np.concatenate(self._dep_counts)
        ids = np.concatenate(self._dep_ids) if self._dep_ids else np.zeros(0, dtype=np.int32)
        workload = Workload(
            **columns,
            dep_ptr=np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts))),
            dep_idx=ids.astype(np.int32),
            groups=list(self._groups),
            steps=list(self._steps),
            collectives=list(self._collectives),
            notes=list(self._notes),
        )
        if hosts is not None:
            workload.validate(hosts)
        return workload

    def _add(self, kind: TaskKind, row: Iterable[Int64s], after: ArrayLike | None, group: str) -> Int64s:
        columns = list(row)
        count = len(columns[0])
        self._depend(after, count)
        number = self.group(group)
        values = (np.full(count, kind), *columns, np.full(count, number))
        for (name, dtype), value in zip(_COLUMNS, values, strict=True):
            if np.issubdtype(dtype, np.int32) and count and (abs(value) >= 1 << 31).any():
                raise UsageError(f"{name} {int(value[abs(value) >= 1 << 31][0])} does not fit 32 bits")
            self._rows[name].append(value.astype(dtype))
        first, self._n = self._n, self._n + count
        if self._n >= 1 << 31:
            raise UsageError("more than 2^31 tasks; ids have 32 bits")
        return np.arange(first, self._n, dtype=np.int64)

    def _depend(self, after: ArrayLike | None, count: int) -> None:
        if after is None or not count:
            self._dep_counts.append(np.zeros(count, dtype=np.int64))
            return
        table = np.asarray(after, dtype=np.int64)
        if table.ndim == 1 and len(table) == count:
            table = table.reshape(count, 1)
        if table.ndim != 2 or table.shape[0] not in (1, count):
            raise UsageError(
                f"dependencies of shape {table.shape} for {count} tasks; give one id a task, or a table of {count} or "
                "1 lines"
            )
        if table.size and (table.max() >= self._n or table.min() < -1):
            raise UsageError(f"dependency {int(table.max())} is not there yet: tasks 0..{self._n - 1} are")
        table = np.sort(np.broadcast_to(table, (count, table.shape[1])), axis=1)
        keep = table >= 0
        keep[:, 1:] &= table[:, 1:] != table[:, :-1]
        self._dep_counts.append(keep.sum(axis=1, dtype=np.int64))
        self._dep_ids.append(table[keep].astype(np.int32))


def _rows(*values: ArrayLike) -> list[Int64s]:
    """Stretch single values to the length of the rows.

    Raises:
        UsageError: something is no whole number, or lengths differ.
    """
    rows = []
    for value in values:
        array = np.asarray(value)
        if array.ndim > 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
            raise UsageError(f"a row of whole numbers is needed, not {str(value)[:60]!r} ({array.dtype})")
        rows.append(array.astype(np.int64))
    try:
        return [np.atleast_1d(r) for r in np.broadcast_arrays(*rows)]
    except ValueError:
        raise UsageError(f"rows of different lengths: {[r.size for r in rows]}") from None
