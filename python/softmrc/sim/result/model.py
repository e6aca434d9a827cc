"""A run with its name: what was simulated, what came of it, and the one document that says so.

Decides the sections of a result and their order. Leaves figures to the modules of each section, files to `files`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from softmrc.sim.result import flows, network, operations, paths, series
from softmrc.sim.result.cost import Rates, of_incidents
from softmrc.sim.result.curve import RateCurve, from_samples
from softmrc.sim.result.incidents import FaultLike, Incident, conditions, incidents
from softmrc.sim.result.job import step_curve, steps_section

if TYPE_CHECKING:
    from softmrc.sim.run import Outcome
    from softmrc.sim.workload import Workload

__all__ = ["FORMAT", "Result"]

FORMAT = "softmrc-sim-1"
"""Changes when a program that reads results has to change."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """One finished or interrupted run."""

    name: str
    """Of the scenario."""
    transport: str
    settings: Mapping[str, Any]
    """Everything that decided the run, as JSON takes it."""
    outcome: Outcome
    workload: Workload
    faults: Sequence[FaultLike] = ()
    rates: Rates = field(default_factory=Rates)
    clean_end_ns: int | None = None
    """When the same run without incidents was done; none if it was not made, or not to its end."""
    quick: bool = False

    @property
    def hosts(self) -> int:
        """Hosts of the fabric."""
        return self.outcome.fabric.hosts

    @property
    def planes(self) -> int:
        """Planes of the fabric."""
        return self.outcome.fabric.planes

    @property
    def partial(self) -> bool:
        """Whether a limit or an interrupt ended the run; reaching the time asked for is no such thing."""
        return self.outcome.partial

    @property
    def end_ns(self) -> int:
        """When the last task was done, or the run ended with tasks left or failed."""
        status = self.outcome.tasks["status"]
        if status.size == 0 or bool((status != 1).any()):  # nobody notes when a task failed
            return int(self.outcome.sim_ns)
        finished = np.maximum(self.outcome.tasks["delivered_ns"], self.outcome.tasks["acked_ns"])
        return max(1, int(finished.max()))

    def curve(self) -> RateCurve | None:
        """Return how fast the job went: by its steps if it has any, else by samples of the goodput; or none."""
        steps = step_curve(self.workload, self.outcome)
        if steps is not None:
            return steps
        times: NDArray[np.int64] | None = self.outcome.series.get("time_ns")
        groups = self.outcome.series.get("group_bytes")
        if times is None or groups is None or times.size == 0:
            return None
        posted, delivered = self.outcome.tasks["posted_ns"], self.outcome.tasks["delivered_ns"]
        sends = (self.workload.kind == flows.SEND) & (posted >= 0)
        until = np.where(delivered >= 0, delivered, int(self.outcome.sim_ns))
        counted = groups.reshape(times.size, -1).sum(axis=1)
        return from_samples(times, counted, posted[sends], until[sends])

    def cost(self) -> dict[str, Any] | None:
        """Return what the incidents cost; none without incidents."""
        found = incidents(self.faults, self.end_ns)
        if not found:
            return None
        return {**self._incidents(found), "versus_clean": self._versus_clean()}

    def _versus_clean(self) -> dict[str, Any] | None:
        whole = self.outcome.stopped == "done" and not bool((self.outcome.tasks["status"] == 2).any())
        if self.clean_end_ns is None or not whole:
            return None
        lost_s = max(0, self.end_ns - self.clean_end_ns) / 1e9
        return {"clean_end_ns": self.clean_end_ns, "lost_s": lost_s, **self.rates.of(lost_s, self.hosts)}

    def _incidents(self, found: list[Incident]) -> dict[str, Any]:
        curve = self.curve()
        if curve is None or curve.bins == 0:
            note = (
                "neither steps nor samples: give the scenario a [sample] table to know what an incident cost"
            )
            return {"baseline": None, "incidents": [i.to_json() for i in found], "note": note}
        return of_incidents(curve, found, self.rates, self.hosts)

    def document(self, *, timing: bool = True) -> dict[str, Any]:
        """Return the whole result as JSON takes it.

        Args:
            timing: with the section `timing` (wall time and what follows from it), the only one in which two runs of
                one seed differ.
        """
        from softmrc import __version__

        out = self.outcome
        made: dict[str, Any] = {
            "format": FORMAT,
            "version": __version__,
            "name": self.name,
            "transport": self.transport,
            "seed": int(out.seed),
            "quick": self.quick,
            "partial": self.partial,
            "stopped": out.stopped,
            "sim_ns": max(int(out.sim_ns), self.end_ns),
            "end_ns": self.end_ns,
            "hosts": self.hosts,
            "planes": self.planes,
            "settings": dict(self.settings),
            "tasks": flows.tasks_section(self.workload, out),
            "completion_us": flows.completion_section(self.workload, out),
            "goodput": flows.goodput_section(self.workload, out, self.end_ns),
            "packets": {name: int(count) for name, count in sorted(out.totals.items())},
            "network": network.section(out),
            "paths": paths.section(out),
            "conditions": [
                {"kind": k, "count": n, "targets": list(t)} for k, n, t in conditions(self.faults)
            ],
            "collectives": operations.section(self.workload, out),
            "steps": steps_section(self.workload, out),
            "cost": self.cost(),
            "series": series.section(self),
        }
        if timing:
            made["timing"] = _timing(self)
        return made


def _timing(result: Result) -> dict[str, Any]:
    out = result.outcome
    wall = max(float(out.wall_s), 1e-9)
    packets = int(out.totals.get("data_packets", 0))
    return {
        "wall_s": round(wall, 3),
        "data_packets_per_s": round(packets / wall),
        "sim_ns_per_wall_s": round(int(out.sim_ns) / wall),
        "windows": int(out.windows),
    }
