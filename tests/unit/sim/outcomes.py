"""Small hand-made outcomes, so that figures can be checked by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmrc.sim.config import Clos
from softmrc.sim.fabric import build
from softmrc.sim.run import Outcome

LINKS = ("h0.p1.up", "h0.p1.down", "h1.p1.up", "h1.p1.down")
FABRIC = build(Clos(hosts=2, planes=1, hosts_per_t0=2, t1_per_plane=0, host_gbps=1.0))


def ev_events(*rows: tuple[int, int, int]) -> dict[str, NDArray[Any]]:
    """EV changes of host 0 towards host 1, EV 17 of plane 1: (at_ns, state, reason) as codes."""
    at, state, reason = zip(*rows, strict=True) if rows else ((), (), ())
    count = len(rows)
    return {
        "at_ns": np.array(at, np.int64),
        "host": np.zeros(count, np.uint32),
        "peer": np.ones(count, np.uint32),
        "qp": np.zeros(count, np.uint32),
        "tag": np.full(count, 17, np.uint32),
        "plane": np.ones(count, np.uint8),
        "state": np.array(state, np.uint8),
        "reason": np.array(reason, np.uint8),
    }


def fault(at_ns: int, kind: str, target: str, value: float = 0.0, direction: str = "both") -> SimpleNamespace:
    return SimpleNamespace(at_ns=at_ns, kind=kind, target=target, value=value, direction=direction)


def workload(
    *,
    sends: list[tuple[int, int, int]],
    groups: tuple[str, ...] = ("flows",),
    group: list[int] | None = None,
    steps: list[tuple[str, list[int]]] | None = None,
) -> SimpleNamespace:
    """Sends as (node, peer, bytes), nothing waits for anything."""
    count = len(sends)
    return SimpleNamespace(
        kind=np.zeros(count, np.uint8),
        node=np.array([s[0] for s in sends], np.int32),
        peer=np.array([s[1] for s in sends], np.int32),
        size=np.array([s[2] for s in sends], np.int64),
        group=np.array(group or [0] * count, np.int32),
        groups=list(groups),
        steps=[(name, np.array(tasks, np.int64)) for name, tasks in steps or []],
        collectives=[],
        notes=[],
        n=count,
    )


def outcome(work: Any, delivered_ns: list[int], **changes: Any) -> Outcome:
    """Everything posted at 0; delivered as given (-1: not), acknowledged 10 ns later."""
    delivered = np.array(delivered_ns, np.int64)
    done = delivered >= 0
    count = delivered.size
    made: dict[str, Any] = {
        "stopped": "done",
        "sim_ns": int(delivered.max(initial=0)) + 10,
        "wall_s": 0.5,
        "seed": 1,
        "windows": 3,
        "hops": 7,
        "tasks": {
            "ready_ns": np.zeros(count, np.int64),
            "posted_ns": np.zeros(count, np.int64),
            "delivered_ns": delivered,
            "acked_ns": np.where(done, delivered + 10, -1),
            "status": done.astype(np.uint8),
        },
        "totals": {"data_packets": 100, "ecn_marks": 2, "trims": 1},
        "links": {
            "tx_bytes": np.array([1_000, 0, 500, 0], np.int64),
            "tx_packets": np.array([10, 0, 5, 0], np.int64),
            "drops": np.array([0, 0, 3, 0], np.int64),
            "marks": np.array([2, 0, 0, 0], np.int64),
            "trims": np.array([0, 0, 1, 0], np.int64),
            "lost": np.array([0, 0, 0, 0], np.int64),
            "max_queue_bytes": np.array([4_096, 0, 8_192, 0], np.int64),
        },
        "series": {},
        "flows": {
            "rtx": np.zeros(count, np.int64),
            "delivered_bytes": np.where(done, work.size, 0).astype(np.int64),
        },
        "ev_events": ev_events(),
        "ev_events_dropped": 0,
        "fabric": FABRIC,
        "groups": work.groups,
    }
    return Outcome(**{**made, **changes})
