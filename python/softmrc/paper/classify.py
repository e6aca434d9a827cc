"""R23: trimmed, trimmed at the last hop, silently lost: what each means for a path (section 2.1)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from softmrc.paper import fabrics
from softmrc.paper.cell import Cell, Measured
from softmrc.paper.check import Verdict, at_least, at_most, equal, shown
from softmrc.paper.events import ASSUMED_BAD, EvChanges
from softmrc.paper.flows import greedy_pairs
from softmrc.paper.params import PARAMS, Effort
from softmrc.paper.study import Study
from softmrc.sim.config import Fault

__all__ = ["STUDIES", "dead_t1", "trimming"]

DEAD_NS = 300_000
SAMPLE_NS = 1_000
UPLINKS = 32
PILOT_NS = 100_000
LIMIT_US = 50.0


def trimming(where: str, seed: int) -> Measured:
    """Overload a link and return what trimming did to the states of EVs.

    Args:
        where: "fabric", four senders over one uplink of a NIC's rate; "last hop", seven senders to one host.
        seed: Of the EVs.
    """
    if where == "fabric":
        fabric, pairs = fabrics.clos(8, 1, 4, 1, gbps=400.0), [(h, h + 4) for h in range(4)]
    else:
        fabric, pairs = fabrics.cluster_d(), [(h, 0) for h in range(4, 11)]
    work, _ = greedy_pairs(pairs, 1)
    found = fabrics.run(fabric, work, fabrics.mrc(), seed=seed, until_ns=3_000_000)
    return {"totals": {k: int(v) for k, v in found.totals.items()}}


def dead_t1(seed: int) -> Measured:
    """Let a T1 die silently under one pair at line rate; return when the last data packet went towards it.

    There are more T1s than EVs in a plane, so that one EV leads over it and no spare one does. Which T1 carries an EV
    is found by a short run without the fault.

    Args:
        seed: Of the EVs and of which T1.
    """
    plane = seed % 8 + 1
    fabric, kind = fabrics.clos(2, 8, 1, UPLINKS), fabrics.mrc()
    work, _ = greedy_pairs([(0, 1)], 1)
    links = [f"p{plane}.t0-0.t1-{k}.up" for k in range(UPLINKS)]
    pilot = fabrics.run(
        fabric, work, kind, seed=seed, until_ns=PILOT_NS, sample_ns=PILOT_NS, watch_links=links
    )
    t1 = int(np.argmax(pilot.series["link_bytes"][0]))
    found = fabrics.run(
        fabric, work, kind, seed=seed, sample_ns=SAMPLE_NS, watch_links=[links[t1]],
        faults=[Fault(DEAD_NS, "switch_down", f"p{plane}.t1-{t1}")], until_ns=DEAD_NS + 700_000,
    )  # fmt: skip
    sent = np.asarray(found.series["link_bytes"], dtype=np.float64)[:, 0]
    time = np.asarray(found.series["time_ns"])
    data = time[sent >= PARAMS.mtu / 2]  # probes are far smaller
    bad = [t for t in EvChanges(found.ev_events).when(state=ASSUMED_BAD, host=0) if t >= DEAD_NS]
    return {
        "last_us": float(max(data.max() - DEAD_NS, 0)) / 1e3,
        "first_bad_us": (bad[0] - DEAD_NS) / 1e3 if bad else float("nan"),
        "demoted": len(bad),
        "totals": {k: int(v) for k, v in found.totals.items()},
    }


def _cells(effort: Effort) -> list[Cell]:
    seeds = max(4, effort.seeds // 2)
    return [
        *(
            Cell.of(f"trimming/{where}", trimming, 0.05, where=where, seed=1)
            for where in ("fabric", "last hop")
        ),
        *(Cell.of(f"dead-t1/{seed}", dead_t1, 0.025, seed=seed) for seed in range(1, seeds + 1)),
    ]


def judge(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R23."""
    fabric, last = results["trimming/fabric"]["totals"], results["trimming/last hop"]["totals"]
    runs = [r for k, r in sorted(results.items()) if k.startswith("dead-t1/")]
    slowest = max(r["last_us"] for r in runs)
    checks = [
        at_least("trims inside the fabric", fabric["trims"], 1),
        equal("of them ASSUMED_BAD", fabric["ev_bad"], 0, "0"),
        at_least("trims at the last hop", last["trims_last_hop"], 1),
        equal("of them ASSUMED_BAD", last["ev_bad"], 0, "0"),
        at_least(
            "silent loss: runs with ASSUMED_BAD, share",
            float(np.mean([r["demoted"] > 0 for r in runs])),
            1.0,
            "1",
        ),
        at_most("last packet towards a dead T1, us after it died, worst", slowest, LIMIT_US, "a few tens"),
        shown("likewise, median", float(np.median([r["last_us"] for r in runs]))),
        shown("first EV out, us after, median", float(np.median([r["first_bad_us"] for r in runs]))),
        shown("queue drops", fabric["drops_queue"] + last["drops_queue"], "0"),
    ]
    trims, blamed = fabric["trims"] + last["trims_last_hop"], fabric["ev_bad"] + last["ev_bad"]
    ours = f"{blamed} EVs blamed over {trims} trims; last packet on a dead path {slowest:.0f} us after"
    return Verdict(
        checks, ours, "SKIP states are not recorded; what is judged is that no trim leads to ASSUMED_BAD"
    )


STUDIES = (Study("R23", _cells, judge),)
