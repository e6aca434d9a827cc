"""Small scenarios for tests, made of tables as in a file."""

from __future__ import annotations

from typing import Any

from softmrc.sim.scenario import Scenario

SMALL: dict[str, Any] = {
    "fabric": {"hosts": 8, "planes": 2, "hosts_per_t0": 2, "t1_per_plane": 2},
    "workload": {"kind": "permutation", "size": "64 KiB"},
}


def scenario(workload: dict[str, Any] | None = None, **tables: Any) -> Scenario:
    data = {**SMALL, **tables}
    if workload is not None:
        data["workload"] = workload
    return Scenario.from_tables(data)


def pairs(s: Scenario) -> list[tuple[int, int]]:
    w = s.workload()
    return list(zip(w.node[w.sends].tolist(), w.peer[w.sends].tolist(), strict=True))
