"""What was sampled over time, under the names of what was watched.

The document carries it up to `LIMIT` numbers; beyond that only the table `series` does. Bytes are those of the interval
that ends at `time_ns`; queues are the depth at that moment and the deepest within the interval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from softmrc.sim.result.model import Result

__all__ = ["LIMIT", "columns", "section"]

LIMIT = 200_000
"""Numbers the document carries at most."""

_SCALARS = ("drops", "marks", "trims", "rtx")


def _named(result: Result) -> dict[str, list[str]]:
    """Return the column names of every table of the series."""
    out, work = result.outcome, result.workload
    return {
        "flow_bytes": [f"flow {t} (h{work.node[t]}-h{work.peer[t]})" for t in out.watch_flows],
        "host_rx_bytes": [f"h{host}" for host in out.watch_hosts],
        "link_bytes": out.watch_links,
        "link_queue_bytes": out.watch_links,
        "link_max_queue": out.watch_links,
        "group_bytes": out.groups,
        "plane_bytes": [f"p{plane}" for plane in range(1, result.planes + 1)],
    }


def columns(result: Result) -> dict[str, dict[str, NDArray[np.int64]]]:
    """Return every sampled quantity: its name, then what it is of, then one number for each interval."""
    sampled = result.outcome.series
    times = sampled.get("time_ns")
    if times is None or times.size == 0:
        return {}
    made: dict[str, dict[str, NDArray[np.int64]]] = {}
    for quantity, names in _named(result).items():
        values = sampled.get(quantity)
        if values is not None and names and values.size:
            table = values.reshape(times.size, -1)
            made[quantity] = {name: table[:, i] for i, name in enumerate(names[: table.shape[1]])}
    for quantity in _SCALARS:
        if quantity in sampled:
            made[quantity] = {"all": sampled[quantity]}
    return made


def section(result: Result) -> dict[str, Any] | None:
    """Return the series as JSON takes it; none if nothing was sampled."""
    found = columns(result)
    if not found:
        return None
    times = result.outcome.series["time_ns"]
    numbers = int(times.size) * (1 + sum(len(names) for names in found.values()))
    if numbers > LIMIT:
        return {"samples": int(times.size), "omitted": f"{numbers} numbers: see the table series"}
    tables = {
        quantity: {name: values.tolist() for name, values in names.items()}
        for quantity, names in found.items()
    }
    return {"samples": int(times.size), "time_ns": times.tolist(), **tables}
