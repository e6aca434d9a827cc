"""What incidents cost: GPU-hours, energy, money.

A synchronous job goes as fast as its slowest node, so every GPU waits. Lost are, for each incident, the seconds of
full speed that are missing: the integral of (1 - rate / baseline) from the break to the repair, and on until the rate
is back (`RECOVERED` of the baseline for two bins). The baseline is the median rate before the first incident.
A job with steps is judged by their rate, other traffic by the goodput of its open flows, each as a share of the job.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from softmrc.errors import UsageError
from softmrc.sim.result.curve import RateCurve
from softmrc.sim.result.incidents import Incident

__all__ = ["RECOVERED", "SOURCES", "Rates", "baseline", "of_incidents"]

RECOVERED = 0.98
"""Share of the baseline that counts as back to normal."""

SOURCES = {
    "usd_per_gpu_hour": "H100 on demand: 2 to 4 USD an hour over providers (published price comparisons, 2026)",
    "kw_per_gpu": "DGX H100: 10.2 kW at most for eight GPUs (NVIDIA, DGX H100/H200 user guide)",
    "pue": "average of the industry, 1.58 (Uptime Institute, Global Data Center Survey 2023)",
    "usd_per_kwh": "US industrial consumers, 8.06 cents (EIA, 2023)",
}
"""Where the defaults come from."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What an hour of waiting costs.

    Raises:
        UsageError: a value is negative, no number, or a PUE below 1.
    """

    gpus: int | None = None
    """GPUs of the whole job; none: `gpus_per_host` for each simulated host."""
    gpus_per_host: float = 1.0
    """GPUs behind each NIC; more than 0."""
    usd_per_gpu_hour: float = 3.0
    """Rent of a GPU, energy included."""
    kw_per_gpu: float = 1.275
    """Draw of a GPU and its share of the server, kW; a GPU that waits in a collective draws nearly the same."""
    pue: float = 1.58
    """Site over IT energy, 1 or more."""
    usd_per_kwh: float = 0.0806
    """Price of energy; reported apart, as a rent includes it."""

    def __post_init__(self) -> None:
        """Check ranges."""
        if self.gpus is not None and self.gpus < 1:
            raise UsageError(f"cost.gpus is 1 or more, not {self.gpus}")
        for name, low in (("usd_per_gpu_hour", 0.0), ("kw_per_gpu", 0.0), ("pue", 1.0), ("usd_per_kwh", 0.0)):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= low):
                raise UsageError(f"cost.{name} is {low:g} or more, not {value}")
        if not (math.isfinite(self.gpus_per_host) and self.gpus_per_host > 0):
            raise UsageError(f"cost.gpus_per_host is more than 0, not {self.gpus_per_host}")

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Rates:
        """Return rates from a scenario's [cost] table; what it leaves out keeps its default.

        Raises:
            UsageError: an unknown key, or a value out of its range.
        """
        known = {f.name for f in fields(cls)}
        for key, value in table.items():
            if key not in known:
                raise UsageError(f"cost.{key} is unknown; there is {', '.join(sorted(known))}")
            whole = key == "gpus"
            if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
                raise UsageError(f"cost.{key} is a {'whole ' if whole else ''}number, not {value!r}")
        return cls(**table)

    def of(self, lost_s: float, hosts: int) -> dict[str, float]:
        """Return what `lost_s` seconds of the whole job cost."""
        gpus = self.gpus if self.gpus is not None else hosts * self.gpus_per_host
        hours = lost_s * gpus / 3600.0
        kwh = hours * self.kw_per_gpu * self.pue
        return {
            "gpu_hours": _significant(hours),
            "energy_kwh": _significant(kwh),
            "usd": _significant(hours * self.usd_per_gpu_hour),
            "energy_usd": _significant(kwh * self.usd_per_kwh),
        }

    def to_json(self) -> dict[str, Any]:
        """Return the rates and where defaults come from."""
        default = Rates()
        used = {key: text for key, text in SOURCES.items() if getattr(self, key) == getattr(default, key)}
        return {**asdict(self), "sources": used}


def _significant(value: float) -> float:
    return float(f"{value:.6g}")


def baseline(curve: RateCurve, found: Sequence[Incident]) -> float | None:
    """Return the median rate of the bins before the first incident; none if there is no whole one."""
    before = curve.bins
    if found:
        before = int(np.searchsorted(curve.edges_ns[1:], found[0].start_ns, side="right"))
    rates = curve.rates[:before]
    rates = rates[~np.isnan(rates)]
    if rates.size == 0 or float(np.median(rates)) <= 0:
        return None
    return float(np.median(rates))


def _window(curve: RateCurve, incident: Incident, normal: float, limit_ns: int) -> tuple[int, bool]:
    """Return when the rate was back after the repair, at most `limit_ns`, and whether it was."""
    if incident.repaired_ns is None:
        return limit_ns, False
    good = ~(curve.rates < RECOVERED * normal)  # idle bins are no outage
    first = int(np.searchsorted(curve.edges_ns[:-1], incident.repaired_ns, side="left"))
    for i in range(first, curve.bins):
        if curve.edges_ns[i] >= limit_ns:
            break
        if good[i] and (i + 1 == curve.bins or good[i + 1]):
            return int(curve.edges_ns[i]), True
    return limit_ns, False


def of_incidents(curve: RateCurve, found: Sequence[Incident], rates: Rates, hosts: int) -> dict[str, Any]:
    """Return the cost section of a result.

    Args:
        curve: how fast the job went.
        found: its incidents, by time, none overlapping.
        rates: what an hour costs.
        hosts: simulated hosts.

    Returns:
        `baseline`, its `unit`, `incidents` (each with its `window_ns`, `lost_s`, `worst_rate`, GPU-hours, kWh, USD) and
        their `total`; `note` says why there are none.
    """
    section: dict[str, Any] = {"unit": curve.unit, "rates": rates.to_json()}
    normal = baseline(curve, found)
    if normal is None:
        note = "no whole sample or step before the first incident, so no baseline: sample more often, or fail later"
        return {**section, "baseline": None, "incidents": [i.to_json() for i in found], "note": note}
    section["baseline"] = _significant(normal)
    rows = []
    total = 0.0
    counted = 0  # a bin belongs to one incident
    for i, incident in enumerate(found):
        end = int(curve.edges_ns[-1])
        limit = min(found[i + 1].start_ns, end) if i + 1 < len(found) else end
        until, back = _window(curve, incident, normal, limit)
        part = curve.touched(incident.start_ns, until)
        part = slice(max(part.start, counted), max(part.stop, counted))
        counted = part.stop
        widths = np.diff(curve.edges_ns)[part].astype(np.float64) / 1e9
        if curve.weights is not None:
            widths *= curve.weights[part]
        rate = np.where(np.isnan(curve.rates[part]), normal, curve.rates[part])
        lost = max(0.0, float(((1.0 - rate / normal) * widths).sum()))
        total += lost
        worst = float(rate.min(initial=normal))
        rows.append(
            {
                **incident.to_json(),
                "window_ns": [incident.start_ns, until],
                "recovered": back,
                "worst_rate": _significant(worst),
                "lost_s": _significant(lost),
                **rates.of(lost, hosts),
            }
        )
    return {**section, "incidents": rows, "total": {"lost_s": _significant(total), **rates.of(total, hosts)}}
