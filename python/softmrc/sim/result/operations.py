"""Collective operations of a run: how long each took, and its bandwidths as nccl-tests counts them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from softmrc.sim.result.percentiles import summary

if TYPE_CHECKING:
    from softmrc.sim.run import Outcome
    from softmrc.sim.workload import Collective, Workload

__all__ = ["SHOWN", "section"]

SHOWN = 100
"""Operations listed one by one."""


def section(workload: Workload, outcome: Outcome) -> dict[str, Any] | None:
    """Return each operation with its time and bandwidths, and the bus bandwidths of each kind; none without any.

    An operation lasts from the moment its first task could start to the end of its last one; what is not complete
    counts as such and has no figures.
    """
    if not workload.collectives:
        return None
    rows = [_row(one, outcome) for one in workload.collectives]
    done = [row for row in rows if row is not None]
    kinds = {}
    for kind in dict.fromkeys(row["kind"] for row in done):
        rates = np.array([row["busbw_gbps"] for row in done if row["kind"] == kind])
        kinds[kind] = summary(rates, digits=4)
    return {"total": len(rows), "complete": len(done), "busbw_gbps": kinds, "first": done[:SHOWN]}


def _row(one: Collective, outcome: Outcome) -> dict[str, Any] | None:
    from softmrc.sim.workloads.bandwidth import alg_bandwidth, bus_bandwidth

    part = slice(one.first, one.last)
    tasks = outcome.tasks
    if one.first == one.last or bool((tasks["status"][part] != 1).any()):
        return None
    begin = int(tasks["ready_ns"][part].min())
    end = int(np.maximum(tasks["delivered_ns"][part], tasks["acked_ns"][part]).max())
    time_ns = max(1, end - begin)
    return {
        "kind": one.kind,
        "ranks": one.ranks,
        "bytes": one.size,
        "begin_ns": begin,
        "time_us": round(time_ns / 1e3, 3),
        "algbw_gbps": round(alg_bandwidth(one.size, time_ns), 4),
        "busbw_gbps": round(bus_bandwidth(one.kind, one.ranks, one.size, time_ns), 4),
    }
