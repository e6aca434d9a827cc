"""R14: a 15-to-1 incast that grows flow by flow, under three sets of DCQCN gains and under MRC (Fig 22)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from softmrc.paper import fabrics
from softmrc.paper.cell import Cell, Measured
from softmrc.paper.check import Verdict, at_least, at_most, between, shown
from softmrc.paper.flows import send
from softmrc.paper.params import PARAMS, Effort
from softmrc.paper.study import Study
from softmrc.sim.builder import Builder
from softmrc.sim.config import Transport
from softmrc.sim.workload import GREEDY

__all__ = ["STUDIES", "growing_incast"]

FLOWS = 15
STEP_NS = 10_000_000
"""Between two arrivals; the paper waits 5 s. DCQCN needs milliseconds to find the share of one flow more."""
SAMPLE_NS = 50_000
LINE = fabrics.LINE_C_GBPS

# The paper names no values. "default" is DCQCN's own; then with the increase timer of NIC guides (300 us: recovery is
# slower); then also with the gain of DCTCP, 1/16 (cuts are deeper).
GAINS: dict[str, dict[str, float]] = {
    "default": {},
    "aggressive": {"rate_timer_ns": 300_000},
    "most": {"g": 1 / 16, "rate_timer_ns": 300_000},
}


def growing_incast(gains: str, seed: int) -> Measured:
    """Let one flow after another join and return throughput and queue of each step.

    Args:
        gains: A set of `GAINS`, or "mrc".
        seed: Of hashes and EVs.
    """
    kind: Transport = fabrics.mrc() if gains == "mrc" else fabrics.roce(1, True, gains=GAINS[gains])
    builder = Builder()
    for n in range(FLOWS):
        send(builder, n + 1, 0, GREEDY, at_ns=n * STEP_NS)
    found = fabrics.run(
        fabrics.cluster_d(), builder.build(), kind, seed=seed, until_ns=(FLOWS + 1) * STEP_NS, sample_ns=SAMPLE_NS,
        watch_links=["h0.p1.down"],
    )  # fmt: skip
    rate = np.asarray(found.series["group_bytes"], dtype=np.float64).sum(axis=1) * 8 / SAMPLE_NS
    queue = np.asarray(found.series["link_max_queue"], dtype=np.float64)[:, 0]
    width = STEP_NS // SAMPLE_NS
    steps = [slice(n * width + width // 2, (n + 1) * width) for n in range(FLOWS)]
    return {
        "gbps": [float(rate[s].mean()) for s in steps],
        "queue": [float(queue[s].max()) for s in steps],
        "totals": {k: int(v) for k, v in found.totals.items()},
    }


def _cells(effort: Effort) -> list[Cell]:
    cost = (FLOWS + 1) * STEP_NS * LINE / 8 / PARAMS.mtu / 1e6
    return [Cell.of(f"gains/{name}", growing_incast, cost, gains=name, seed=1) for name in (*GAINS, "mrc")]


def judge(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R14."""
    found = {name: results[f"gains/{name}"] for name in (*GAINS, "mrc")}
    best = max(max(r["gbps"]) for r in found.values())
    lost = {name: 1 - float(np.mean(r["gbps"][2:])) / best for name, r in found.items()}
    default, mrc = found["default"], found["mrc"]
    growth = default["queue"][-1] / max(default["queue"][2], 1.0)
    bounded = max(mrc["queue"]) / (1.5 * LINE / 8 * PARAMS.rtt_ns)
    checks = [
        at_least("default gains: PFC pauses", default["totals"]["pfc_pauses"], 1, "from ~10 flows on"),
        at_least("default gains: queue at 15 flows over that at 3", growth, 1.5),
        between("aggressive gains: throughput lost", lost["aggressive"], 0.05, 0.25, "0.10"),
        at_least("most aggressive gains: lost, over aggressive", lost["most"] / lost["aggressive"], 1, "2"),
        at_least("MRC: worst throughput of any step, of the best", min(mrc["gbps"]) / best, 0.95),
        at_most("MRC: largest queue, of 1.5 BDP", bounded, 1.1, "trim threshold"),
        *(shown(f"{name}: throughput lost", value) for name, value in lost.items()),
    ]  # fmt: skip
    ours = ", ".join(f"{name} -{100 * value:.0f} %" for name, value in lost.items())
    series = {f"gains_{name}": r["queue"] for name, r in found.items()}
    note = "the paper gives no gains: DCQCN's own, then the timer of NIC guides, then DCTCP's gain, too"
    return Verdict(checks, ours, note, series)


STUDIES = (Study("R14", _cells, judge),)
