"""R12: two pairs, two EVs in one plane; ECN alone must move the pair that has a choice (Fig 14).

Pair 2's rack has lost its way up to T1-1, so pair 2 is on EV-A (T1-0) whatever happens. Both pairs end in the same
rack: what they share is the link T1-0 to that rack, where ECN is on.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from softmrc.paper import fabrics
from softmrc.paper.cell import Cell, Measured
from softmrc.paper.check import Verdict, at_least, at_most, between, shown
from softmrc.paper.flows import send
from softmrc.paper.measure import mean_rate
from softmrc.paper.params import PARAMS, Effort
from softmrc.paper.study import Study
from softmrc.sim.builder import Builder
from softmrc.sim.config import Fault
from softmrc.sim.workload import GREEDY

__all__ = ["STUDIES", "two_pairs"]

JOIN_NS = 2_000_000
SETTLE_NS = 100 * PARAMS.rtt_ns
MEASURE_NS = 3_000_000
SAMPLE_NS = 50_000


def two_pairs(steering: bool, seed: int) -> Measured:
    """Run pair 1 alone, then let pair 2 join; return both rates before and after.

    Args:
        steering: ECN echoes steer the choice of EVs.
        seed: Of the EVs.
    """
    builder = Builder()
    tasks = [send(builder, 0, 4, GREEDY), send(builder, 2, 5, GREEDY, at_ns=JOIN_NS)]
    end = JOIN_NS + SETTLE_NS + MEASURE_NS
    # Two EVs and no spare ones: the experiment's own EV count.
    kind = fabrics.mrc(evs=2, backups=0, ecn_steering=steering)
    found = fabrics.run(
        fabrics.clos(6, 1, 2, 2, gbps=fabrics.LINE_C_GBPS), builder.build(), kind, seed=seed,
        faults=[Fault(0, "link_down", "p1.t0-1.t1-1", direction="up")], until_ns=end, sample_ns=SAMPLE_NS,
        watch_flows=tasks, watch_links=["p1.t0-0.t1-0.up", "p1.t0-0.t1-1.up"],
    )  # fmt: skip
    time = np.asarray(found.series["time_ns"])
    flow = np.asarray(found.series["flow_bytes"], dtype=np.float64)
    links = np.asarray(found.series["link_bytes"], dtype=np.float64)
    late = links[time > JOIN_NS + SETTLE_NS].sum(axis=0)
    begin = JOIN_NS + SETTLE_NS
    totals = {k: int(v) for k, v in found.totals.items()}
    return {
        "alone": mean_rate(flow[:, 0], time, JOIN_NS / 2, JOIN_NS),
        "pair1": mean_rate(flow[:, 0], time, begin, end),
        "pair2": mean_rate(flow[:, 1], time, begin, end),
        "moved": float(late[1] / max(late.sum(), 1.0)),
        "series1": [float(v) * 8 / SAMPLE_NS for v in flow[:, 0]],
        "series2": [float(v) * 8 / SAMPLE_NS for v in flow[:, 1]],
        "totals": totals,
    }


def _cells(effort: Effort) -> list[Cell]:
    cost = (JOIN_NS + 2 * (SETTLE_NS + MEASURE_NS)) * 400 / 8 / PARAMS.mtu / 1e6
    seeds = max(2, effort.seeds // 5)
    return [
        Cell.of(f"ecn/{steering}/{seed}", two_pairs, cost, steering=steering, seed=seed)
        for steering in (True, False)
        for seed in range(1, seeds + 1)
    ]


def judge(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R12."""
    runs = [r for k, r in sorted(results.items()) if k.startswith("ecn/True/")]
    ablated = [r for k, r in sorted(results.items()) if k.startswith("ecn/False/")]
    line = runs[0]["alone"]
    pair1 = min(r["pair1"] for r in runs) / line
    pair2 = min(r["pair2"] for r in runs) / line
    # What pair 2 lost on its dead EV before that left is the set-up of the experiment, not its result.
    losses = max(
        (r["totals"]["trims"] + r["totals"]["drops_queue"]) / r["totals"]["data_packets"] for r in runs
    )
    low1, low2 = (float(np.mean([r[p] for r in ablated])) / line for p in ("pair1", "pair2"))
    checks = [
        at_least("pair 1 after 100 RTT, of line", pair1, 0.95, "near line"),
        at_least("pair 2 after 100 RTT, of line", pair2, 0.95, "near line"),
        at_most("trims and queue drops of packets", losses, 1e-4, "none visible"),
        at_least("share of pair 1 on EV-B after", min(r["moved"] for r in runs), 0.9, "moved"),
        between("without ECN steering: mean of both, of line", (low1 + low2) / 2, 0.4, 0.8, "~0.5"),
        shown("without: pair 1", low1, "~0.5"),
        shown("without: pair 2", low2, "~0.5"),
    ]
    with_it, without = (
        f"{100 * pair1:.0f} and {100 * pair2:.0f} %",
        f"{100 * low1:.0f} and {100 * low2:.0f} %",
    )
    ours = f"{with_it} of line; without steering {without}"
    series = {"ecn_pair1": runs[0]["series1"], "ecn_pair2": runs[0]["series2"]}
    return Verdict(checks, ours, "", series)


STUDIES = (Study("R12", _cells, judge),)
