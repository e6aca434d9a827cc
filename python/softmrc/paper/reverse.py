"""R24: the EV that brings SACKs back dies during one-way traffic (section 2.4)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from softmrc.paper import fabrics
from softmrc.paper.cell import Cell, Measured
from softmrc.paper.check import Verdict, at_least, at_most, equal, shown
from softmrc.paper.flows import greedy_pairs
from softmrc.paper.params import PARAMS, Effort
from softmrc.paper.study import Study
from softmrc.sim.config import Fault

__all__ = ["STUDIES", "reverse"]

PLANES = 4
UPLINKS = 8
FAULT_NS = 1_000_000
SAMPLE_NS = 1_000
END_NS = 3_000_000
SMOOTH = 20


def reverse(seed: int) -> Measured:
    """Cut the uplink that carries most SACKs, that way only, and return when as many as before came back over others.

    Args:
        seed: Of the EVs.
    """
    fabric = fabrics.clos(2, PLANES, 1, UPLINKS)
    work, tasks = greedy_pairs([(0, 1)], 1)
    links = [f"p{plane}.t0-1.t1-{k}" for plane in range(1, PLANES + 1) for k in range(UPLINKS)]
    watched = [f"{link}.up" for link in links]
    pilot = fabrics.run(
        fabric,
        work,
        fabrics.mrc(),
        seed=seed,
        until_ns=FAULT_NS,
        sample_ns=SAMPLE_NS,
        watch_links=watched,
    )
    recent = np.asarray(pilot.series["link_bytes"], dtype=np.float64)[-100:].sum(axis=0)
    victim = int(np.argmax(recent))
    found = fabrics.run(
        fabric, work, fabrics.mrc(), seed=seed, until_ns=END_NS, sample_ns=SAMPLE_NS, watch_links=watched,
        watch_flows=tasks[0], faults=[Fault(FAULT_NS, "link_down", links[victim], direction="up")],
    )  # fmt: skip
    time = np.asarray(found.series["time_ns"])
    sent = np.asarray(found.series["link_bytes"], dtype=np.float64)
    others = np.delete(sent, victim, axis=1).sum(axis=1)
    level = sent[np.logical_and(time > FAULT_NS - 200_000, time <= FAULT_NS)].sum() / 200
    flow = np.asarray(found.series["flow_bytes"], dtype=np.float64)[:, 0]
    before = flow[np.logical_and(time > FAULT_NS / 2, time <= FAULT_NS)].mean()
    dip = flow[time > FAULT_NS][: 20 * 40].reshape(-1, 20).sum(axis=1).min() / 20
    taken = _first_at(others, time, 0.9 * float(level))
    return {
        "share": float(recent[victim] / max(recent.sum(), 1.0)),
        "replaced_ns": taken - FAULT_NS,
        "kept": float(flow[time > FAULT_NS].mean() / before),
        "dip": float(dip / before),
        "timeouts": int(found.totals["timeouts"]),
        "timeouts_pilot": int(pilot.totals["timeouts"]),
        "totals": {k: int(v) for k, v in found.totals.items()},
    }


def _first_at(series: np.ndarray, time: np.ndarray, level: float) -> float:
    """Return when the mean over `SMOOTH` samples first reaches a level after the fault; NaN if it never does."""
    smooth = np.convolve(series, np.ones(SMOOTH) / SMOOTH, mode="valid")
    late = np.flatnonzero(np.logical_and(smooth >= level, time[SMOOTH - 1 :] > FAULT_NS))
    return float(time[SMOOTH - 1 :][late[0]]) if len(late) else float("nan")


def _cells(effort: Effort) -> list[Cell]:
    return [
        Cell.of(f"reverse/{seed}", reverse, 0.05, seed=seed)
        for seed in range(1, max(4, effort.seeds // 2) + 1)
    ]


def judge(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R24."""
    runs = [r for k, r in sorted(results.items()) if k.startswith("reverse/")]
    worst = max(r["replaced_ns"] for r in runs)
    checks = [
        at_most(
            "SACKs back on other links, RTTs after, worst",
            worst / PARAMS.rtt_ns,
            3,
            "1 probe per RTT",
        ),
        equal("timeouts of the sender", sum(r["timeouts"] for r in runs), 0, "0"),
        at_least("throughput after over before", min(r["kept"] for r in runs), 0.99),
        shown("worst 20 us after, of before", min(r["dip"] for r in runs)),
        shown("share of the SACKs on the cut link before", float(np.mean([r["share"] for r in runs]))),
    ]
    ours = f"replaced within {worst / PARAMS.rtt_ns:.1f} RTT, {int(checks[1].ours)} timeouts"
    return Verdict(checks, ours)


STUDIES = (Study("R24", _cells, judge),)
