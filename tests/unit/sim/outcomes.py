"""Small hand-made outcomes, so that figures can be checked by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

EV_EVENT = np.dtype(
    [
        ("at_ns", np.int64),
        ("host", np.int32),
        ("peer", np.int32),
        ("qp", np.int32),
        ("tag", np.uint32),
        ("plane", np.int32),
        ("state", "U16"),
        ("reason", "U16"),
    ]
)
LINKS = ("h0.p1:up", "h0.p1:down", "p1.t0-0.t1-0:up")


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


def outcome(work: Any, delivered_ns: list[int], **changes: Any) -> SimpleNamespace:
    """Everything posted at 0; delivered as given (-1: not), acknowledged 10 ns later."""
    delivered = np.array(delivered_ns, np.int64)
    done = delivered >= 0
    count = delivered.size
    made = {
        "stopped": "done",
        "sim_ns": int(delivered.max(initial=0)) + 10,
        "wall_s": 0.5,
        "seed": 1,
        "windows": 3,
        "tasks": {
            "ready_ns": np.zeros(count, np.int64),
            "posted_ns": np.zeros(count, np.int64),
            "delivered_ns": delivered,
            "acked_ns": np.where(done, delivered + 10, -1),
            "status": done.astype(np.uint8),
        },
        "totals": {"data_packets": 100, "ecn_marks": 2, "trims": 1},
        "links": {
            "tx_bytes": np.array([1_000, 0, 500], np.int64),
            "tx_packets": np.array([10, 0, 5], np.int64),
            "drops": np.array([0, 0, 3], np.int64),
            "marks": np.array([2, 0, 0], np.int64),
            "trims": np.array([0, 0, 1], np.int64),
            "max_queue_bytes": np.array([4_096, 0, 8_192], np.int64),
            "busy_ns": np.array([500, 0, 250], np.int64),
        },
        "link_name": lambda i: LINKS[i],
        "series": {},
        "flows": {
            "rtx": np.zeros(count, np.int64),
            "delivered_bytes": np.where(done, work.size, 0).astype(np.int64),
        },
        "ev_events": np.zeros(0, EV_EVENT),
        "ev_events_dropped": 0,
        "pcap": [],
    }
    return SimpleNamespace(**{**made, **changes})
