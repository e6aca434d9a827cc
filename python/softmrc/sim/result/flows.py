"""Tasks and flows of a run: how many were done, how long they took, how fast they went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from softmrc.sim.result.percentiles import jain, summary

if TYPE_CHECKING:
    from softmrc.sim.run import Outcome
    from softmrc.sim.workload import Workload

__all__ = ["GREEDY", "SEND", "completion_section", "fct_ns", "goodput_section", "tasks_section"]

SEND = 0
"""`Workload.kind` of a send."""
GREEDY = 1 << 62
"""`Workload.size` of a send that never ends."""


def fct_ns(workload: Workload, outcome: Outcome) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the ids of the sends that are done and their completion times in ns, posted to last byte delivered."""
    posted, delivered = outcome.tasks["posted_ns"], outcome.tasks["delivered_ns"]
    done = np.flatnonzero((workload.kind == SEND) & (posted >= 0) & (delivered >= 0)).astype(np.int64)
    return done, (delivered[done] - posted[done]).astype(np.int64)


def tasks_section(workload: Workload, outcome: Outcome) -> dict[str, Any]:
    """Return how many tasks there were and what became of them."""
    status = outcome.tasks["status"]
    sends = workload.kind == SEND
    return {
        "total": int(status.size),
        "sends": int(sends.sum()),
        "greedy": int((sends & (workload.size >= GREEDY)).sum()),
        "done": int((status == 1).sum()),
        "failed": int((status == 2).sum()),
        "unfinished": int((status == 0).sum()),
        "bytes_asked": int(workload.size[sends & (workload.size < GREEDY)].sum()),
        "bytes_delivered": int(outcome.flows["delivered_bytes"].sum()),
    }


def completion_section(workload: Workload, outcome: Outcome) -> dict[str, Any]:
    """Return completion times in us, of all sends and of each group that has any."""
    ids, times = fct_ns(workload, outcome)
    of_group = workload.group[ids]
    groups = {
        name: summary(times[of_group == i], scale=1e-3)
        for i, name in enumerate(workload.groups)
        if bool((of_group == i).any())
    }
    return {"all": summary(times, scale=1e-3), "groups": groups}


def goodput_section(workload: Workload, outcome: Outcome, end_ns: int) -> dict[str, Any]:
    """Return goodput in Gb/s: of the run, and the distribution over the flows of each group.

    A flow's goodput is what was delivered of it over the time from its post to its last byte; a flow that is not done
    counts to the end of the run. The total counts to the last byte, or to the end of the run if a flow is not done.
    `jain` is Jain's index over the goodputs of flows.
    """
    got = outcome.flows["delivered_bytes"]
    posted, delivered = outcome.tasks["posted_ns"], outcome.tasks["delivered_ns"]
    ids = np.flatnonzero((workload.kind == SEND) & (posted >= 0) & (workload.size > 0))
    until = np.where(delivered[ids] >= 0, delivered[ids], int(outcome.sim_ns))
    lengths = np.maximum(until - posted[ids], 1).astype(np.float64)
    rates = got[ids].astype(np.float64) * 8.0 / lengths
    of_group = workload.group[ids]
    groups = {}
    for i, name in enumerate(workload.groups):
        mine = rates[of_group == i]
        if mine.size:
            groups[name] = {**summary(mine, digits=4), "jain": jain(mine)}
    # What waits for a last acknowledgement moves no bytes: a transport that delays it is not slower for that.
    whole = ids.size > 0 and bool((delivered[ids] >= 0).all())
    total = float(got.sum()) * 8.0 / max(int(delivered[ids].max()) if whole else end_ns, 1)
    return {"total_gbps": round(total, 4), "jain": jain(rates), "flows_gbps": groups}
