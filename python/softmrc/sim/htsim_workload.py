"""What a connection matrix means for a run: its flows as tasks, triggers as dependencies, failures as faults.

Task i is the i-th connection of the file; tasks after the last connection only carry moments from one host to another.
A trigger acts at once in htsim, wherever its flows are. Here the moment "the receiver has every byte" is known at the
receiver, "the sender has every acknowledgement" at the sender, and other hosts hear of either within one link latency.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from softmrc.errors import UsageError
from softmrc.sim.config import Clos, Fault
from softmrc.sim.htsim import DEFAULT_PRIORITY, Matrix, Trigger
from softmrc.sim.workload import GREEDY, TaskKind, Workload

__all__ = ["matrix_faults", "matrix_workload"]

_MOST_EDGES = 1 << 20
"""A barrier of more (tellings x flows) than that goes through a task of its own."""

Telling = tuple[int, bool]
"""Who tells a trigger: the connection's index, and whether at its receiver (else at its sender)."""


def matrix_workload(matrix: Matrix) -> Workload:
    """Return the tasks of a matrix.

    What htsim does and tasks cannot is in the `notes` of the workload: priorities have no effect; the flows of a
    multishot trigger that several flows tell at the same time begin in the order of the file.

    Raises:
        UsageError: a trigger would never start a flow, or would be told more often than htsim allows; names the line.
    """
    return _Tasks(matrix).build()


class _Tasks:
    def __init__(self, matrix: Matrix) -> None:
        self.matrix, self.flows = matrix, matrix.connections
        self.edges: list[tuple[int, int]] = []
        self.helpers: list[int] = []
        self.helper_of: dict[Telling, int] = {}
        self.notes: list[str] = []

    def build(self) -> Workload:
        tellings: dict[int, list[Telling]] = {t: [] for t in self.matrix.triggers}
        targets: dict[int, list[int]] = {t: [] for t in self.matrix.triggers}
        for i, flow in enumerate(self.flows):
            if flow.send_done_trigger:
                tellings[flow.send_done_trigger].append((i, False))
            if flow.recv_done_trigger:
                tellings[flow.recv_done_trigger].append((i, True))
            if flow.trigger:
                targets[flow.trigger].append(i)
        for number, trigger in self.matrix.triggers.items():
            self.connect(trigger, tellings[number], targets[number])
        self.note_differences()
        return self.workload()

    def error(self, line: int, text: str) -> UsageError:
        return UsageError(f"{self.matrix.path}:{line}: {text}")

    def connect(self, trigger: Trigger, tellings: list[Telling], targets: list[int]) -> None:
        if trigger.kind == "multishot":
            self.connect_multishot(trigger, tellings, targets)
            return
        needed = trigger.count if trigger.kind == "barrier" else 1
        name = f"{trigger.kind} trigger {trigger.id}"
        if len(tellings) > needed:
            raise self.error(trigger.line, f"{name} is told {len(tellings)} times; it takes {needed}")
        if len(tellings) < needed and targets:
            line = self.flows[targets[0]].line
            raise self.error(
                line, f"{name} is told {len(tellings)} times and waits for {needed}: would never start"
            )
        if len(tellings) * len(targets) > _MOST_EDGES:
            gate = self.helper(self.flows[tellings[0][0]].source)
            self.edges += [(gate, self.seen_from(t, None)) for t in tellings]
            self.edges += [(target, gate) for target in targets]
            return
        self.edges += [(target, self.seen_from(t, target)) for target in targets for t in tellings]

    def connect_multishot(self, trigger: Trigger, tellings: list[Telling], targets: list[int]) -> None:
        """The k-th telling starts the k-th flow; a flow it started tells after all that ran before it."""
        own = set(targets)
        order = [t for t in tellings if t[0] not in own]
        again: dict[int, list[Telling]] = {}
        for t in tellings:
            if t[0] in own:
                again.setdefault(t[0], []).append(t)
        if len(order) > 1 and targets:
            self.notes.append(
                f"multishot trigger {trigger.id} is told by {len(order)} flows side by side: the flows it starts "
                "follow them in the order of the file, not in the order in which they finish"
            )
        for k, target in enumerate(targets):
            if k >= len(order):
                line = self.flows[target].line
                raise self.error(
                    line, f"multishot trigger {trigger.id} is told {k} times before: would never start"
                )
            self.edges.append((target, self.seen_from(order[k], target)))
            order += again.get(target, [])

    def helper(self, node: int) -> int:
        self.helpers.append(node)
        return len(self.flows) + len(self.helpers) - 1

    def seen_from(self, telling: Telling, target: int | None) -> int:
        """Return the task whose end is that moment, for a task on the target's host (None: on the first teller's)."""
        flow = self.flows[telling[0]]
        at_receiver = telling[1]
        direct = target is not None and (self.flows[target].source == flow.destination) == at_receiver
        if direct:
            return telling[0]
        if telling not in self.helper_of:
            task = self.helper(flow.destination if at_receiver else flow.source)
            self.edges.append((task, telling[0]))
            self.helper_of[telling] = task
        return self.helper_of[telling]

    def note_differences(self) -> None:
        if any(f.priority != DEFAULT_PRIORITY for f in self.flows):
            self.notes.append("'prio' was read but has no effect: all flows share one data class")
        pairs = Counter((f.source, f.destination) for f in self.flows)
        shared = sum(1 for n in pairs.values() if n > 1)
        if shared:
            self.notes.append(
                f"{shared} pairs of nodes have several connections; they share the queue pairs of the pair (qps)"
            )

    def workload(self) -> Workload:
        flows, extra = self.flows, len(self.helpers)
        n = len(flows) + extra
        owner = np.array([a for a, _ in self.edges], dtype=np.int64)
        ids = np.array([b for _, b in self.edges], dtype=np.int32)
        order = np.lexsort((ids, owner))
        counts = np.bincount(owner, minlength=n)

        def column(values: list[int], rest: list[int] | int, dtype: type[np.generic]) -> np.ndarray:
            return np.array(values + (rest if isinstance(rest, list) else [rest] * extra), dtype=dtype)

        work = Workload(
            kind=column([TaskKind.SEND] * len(flows), TaskKind.COMPUTE, np.uint8),
            node=column([f.source for f in flows], self.helpers, np.int32),
            peer=column([f.destination for f in flows], -1, np.int32),
            size=column([f.size or GREEDY for f in flows], 0, np.int64),
            start=column([f.start_ns or 0 for f in flows], 0, np.int64),
            delay=np.zeros(n, dtype=np.int64),
            qp=np.full(n, -1, dtype=np.int32),
            group=column([0] * len(flows), 1, np.int32),
            dep_ptr=np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts))),
            dep_idx=ids[order],
            groups=["flows", "triggers"] if extra else ["flows"],
            steps=[],
            collectives=[],
            notes=self.notes,
        )
        try:
            work.validate(self.matrix.nodes)
        except UsageError as e:
            raise UsageError(f"{self.matrix.path}: {e} (task i is the i-th connection, from 0)") from None
        return work


def matrix_faults(matrix: Matrix, fabric: Clos) -> tuple[Fault, ...]:
    """Return the failed links of a matrix as faults at time 0, in plane 1, as htsim has them.

    `AGG` switch s, link l is the l-th uplink of T1 s (numbered over all pods); `TOR` switch s, link l the l-th of T0 s.

    Raises:
        UsageError: the fabric has no such link; names the line.
    """
    faults = []
    for f in matrix.failures:
        layer = _uplinks(fabric, 0 if f.tier == "TOR" else 1)
        if f.switch >= len(layer) or f.link >= len(layer[f.switch]):
            most = f"{len(layer)} switches with {len(layer[0]) if layer else 0} uplinks each"
            raise UsageError(
                f"{matrix.path}:{f.line}: no {f.tier} {f.switch} with uplink {f.link}: that layer has {most}"
            )
        faults.append(Fault(0, "link_down", layer[f.switch][f.link]))
    return tuple(faults)


def _uplinks(fabric: Clos, tier: int) -> list[list[str]]:
    """Return the links upwards of each switch of a tier in plane 1, by switch; none for a tier without any."""
    three = fabric.tiers == 3
    if tier == 1 and not three:
        return []
    in_pod = fabric.t1 // fabric.pods if three else fabric.t1
    if tier == 1:
        share = fabric.t2 // in_pod
        return [[f"p1.t1-{i}.t2-{i % in_pod * share + k}" for k in range(share)] for i in range(fabric.t1)]
    first = [i // (fabric.t0 // fabric.pods) * in_pod if three else 0 for i in range(fabric.t0)]
    return [[f"p1.t0-{i}.t1-{first[i] + k}" for k in range(in_pod)] for i in range(fabric.t0)]
