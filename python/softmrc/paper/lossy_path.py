"""R6: one of 16 EVs loses packets; it must leave at once and nothing else may change (Figs 12 and 13)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from softmrc.paper import fabrics
from softmrc.paper.cell import Cell, Measured
from softmrc.paper.check import Verdict, at_least, at_most, equal, shown
from softmrc.paper.events import ASSUMED_BAD, EvChanges
from softmrc.paper.flows import greedy_pairs
from softmrc.paper.measure import rebin
from softmrc.paper.params import PARAMS, Effort
from softmrc.paper.study import Study
from softmrc.sim.config import Fault

__all__ = ["STUDIES", "lossy_path"]

PLANE = 3
UPLINKS = 4
EVS = 16
FAULT_NS = 3_000_000
END_NS = 12_000_000
SAMPLE_NS = 10_000
BIN = 100
PILOT_NS = 500_000
LOSSES = (0.01, 0.05, 0.2, 0.5, 1.0)


def lossy_path(loss: float, seed: int) -> Measured:
    """Let the busiest uplink of one plane lose packets, and return what became of throughput and EVs.

    The pair is alone, so a path through that uplink is exactly one EV. Which one is active is found by a short run
    without the fault.

    Args:
        loss: Share of packets lost on the way out.
        seed: Of the EVs and losses.
    """
    fabric = fabrics.clos(2, 8, 1, UPLINKS)
    kind = fabrics.mrc(evs=EVS, backups=EVS)
    work, tasks = greedy_pairs([(0, 1)], 1)
    uplinks = [f"p{PLANE}.t0-0.t1-{k}" for k in range(UPLINKS)]
    watched = [f"{name}.up" for name in uplinks]
    pilot = fabrics.run(
        fabric,
        work,
        kind,
        seed=seed,
        until_ns=PILOT_NS,
        sample_ns=PILOT_NS // 5,
        watch_links=watched,
    )
    sent = np.asarray(pilot.series["link_bytes"])
    victim = int(np.argmax(sent.sum(axis=0)))
    found = fabrics.run(
        fabric, work, kind, seed=seed, until_ns=END_NS, sample_ns=SAMPLE_NS, watch_links=watched,
        watch_flows=tasks[0], faults=[Fault(FAULT_NS, "link_loss", uplinks[victim], loss, "up")],
    )  # fmt: skip
    time = np.asarray(found.series["time_ns"])
    flow = np.asarray(found.series["flow_bytes"], dtype=np.float64)[:, 0]
    changes = EvChanges(found.ev_events)
    bad = [t for t in changes.when(state=ASSUMED_BAD, host=0) if t >= FAULT_NS]
    links = np.asarray(found.series["link_bytes"], dtype=np.float64)
    after = links[time > FAULT_NS + 1_000_000].sum(axis=0)
    return {
        "bins": [float(b) for b in rebin(flow, BIN)],
        "first_bad_ns": bad[0] - FAULT_NS if bad else float("nan"),
        "demoted": len(changes.distinct(state=ASSUMED_BAD, host=0)),
        "plane_before": float(links[time <= FAULT_NS].sum() / np.sum(time <= FAULT_NS)),
        "plane_after": float(after.sum() / np.sum(time > FAULT_NS + 1_000_000)),
        "share_on_lossy_after": float(after[victim] / max(after.sum(), 1.0)),
        "shortest_absence_ns": changes.shortest_absence_ns(),
        "drops": int(found.totals["drops_loss"]),
        "totals": {k: int(v) for k, v in found.totals.items()},
    }


def _cells(effort: Effort) -> list[Cell]:
    seeds = max(2, effort.seeds // 5)
    cost = (END_NS + PILOT_NS) * 800 / 8 / PARAMS.mtu / 1e6
    return [
        Cell.of(f"lossy/{loss}/{seed}", lossy_path, cost, loss=loss, seed=seed)
        for loss in LOSSES
        for seed in range(1, seeds + 1)
    ]


def judge(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R6."""
    verdict = Verdict()
    # At rate r packets/s on the EV the first loss comes 1/(r loss) after the fault; then the detection counts.
    for loss in LOSSES:
        runs = [found for key, found in sorted(results.items()) if key.startswith(f"lossy/{loss}/")]
        if not runs:
            continue
        name = f"{100 * loss:g} %"
        worst = min(min(run["bins"][3:]) / run["bins"][2] for run in runs)
        first = max(run["first_bad_ns"] for run in runs)
        per_ev_gbps = 800 / EVS
        wait = PARAMS.mtu * 8 / per_ev_gbps * 8 / loss  # three in a thousand wait longer for their first loss
        limit = wait + max(3 * PARAMS.rtt_ns, PARAMS.loss_timer_ns)
        verdict.extend(
            [
                at_least(f"{name}: worst 1 ms of before", worst, 0.99, "1.00"),
                at_most(f"{name}: EV left after the fault, us", first / 1e3, limit / 1e3, "at once"),
                equal(f"{name}: EVs demoted", max(run["demoted"] for run in runs), 1, "1"),
                equal(f"{name}: EVs demoted, fewest", min(run["demoted"] for run in runs), 1, "1"),
                at_least(
                    f"{name}: load of the plane, after over before",
                    min(run["plane_after"] / run["plane_before"] for run in runs), 0.98, "1.00",
                ),
                at_least(
                    f"{name}: shortest time until revived, us",
                    min(run["shortest_absence_ns"] for run in runs) / 1e3,
                    (PARAMS.probe_successes - 1) * PARAMS.probe_interval_ns / 1e3,
                ),
                shown(f"{name}: share of the plane on the lossy link after", runs[0]["share_on_lossy_after"]),
            ]
        )  # fmt: skip
    runs = [found for key, found in sorted(results.items()) if key.startswith("lossy/0.2/")]
    worst = min(min(run["bins"][3:]) / run["bins"][2] for run in runs)
    verdict.ours = (
        f"20 %: worst 1 ms {100 * worst:.1f} % of before, EV out after {runs[0]['first_bad_ns'] / 1e3:.0f} us"
    )
    verdict.series = {"bins_20": runs[0]["bins"]}
    return verdict


STUDIES = (Study("R6", _cells, judge),)
