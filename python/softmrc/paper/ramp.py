"""R15: a job starts on a fabric with dead T0-T1 links and an empty denylist (Fig 4)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from softmrc.paper import fabrics
from softmrc.paper.cell import Cell, Measured
from softmrc.paper.check import Verdict, at_least, at_most, shown
from softmrc.paper.flows import greedy_pairs
from softmrc.paper.measure import losses
from softmrc.paper.params import PARAMS, Effort
from softmrc.paper.study import Study
from softmrc.sim.config import Fault

__all__ = ["STUDIES", "ramp"]

HOSTS, PER_T0, PLANES, T1S = 64, 16, 4, 16
PEERS = 16
DEAD = 8
"""Of 256 T0-T1 links: 3 %."""
EVS = 64
SAMPLE_NS = 100_000


def ramp(case: str, seed: int, length_ns: int) -> Measured:
    """Start 16 endless QPs on each of 64 NICs at once and return lost packets and goodput over time.

    Args:
        case: "clean", no dead link; "dead", 3 % dead from the start; "denylist", the same, known beforehand.
        seed: Of the EVs and of which links are dead.
        length_ns: Time simulated.
    """
    rng = np.random.default_rng(seed)
    links = [(p, t0, t1) for p in range(1, PLANES + 1) for t0 in range(HOSTS // PER_T0) for t1 in range(T1S)]
    dead = [links[int(n)] for n in rng.permutation(len(links))[:DEAD]]
    faults = [] if case == "clean" else [Fault(0, "link_down", f"p{p}.t0-{t0}.t1-{t1}") for p, t0, t1 in dead]
    pairs = [(h, (h + PER_T0 + 3 * k) % HOSTS) for h in range(HOSTS) for k in range(PEERS)]
    pairs = [(a, b) for a, b in pairs if a // PER_T0 != b // PER_T0]
    work, _ = greedy_pairs(pairs, 1)
    kind = fabrics.mrc(evs=EVS, denylist=case == "denylist")
    found = fabrics.run(
        fabrics.clos(HOSTS, PLANES, PER_T0, T1S), work, kind, seed=seed, faults=faults, until_ns=length_ns,
        sample_ns=SAMPLE_NS,
    )  # fmt: skip
    goodput = np.asarray(found.series["group_bytes"], dtype=np.float64).sum(axis=1) * 8 / SAMPLE_NS
    return {
        "lost": [float(d) for d in losses(found.series)],
        "gbps": [float(g) for g in goodput],
        "qps": len(pairs),
        "totals": {k: int(v) for k, v in found.totals.items()},
    }


def _cells(effort: Effort) -> list[Cell]:
    cost = effort.ramp_ns * HOSTS * 400 / 8 / PARAMS.mtu / 1e6
    return [
        Cell.of(f"ramp/{case}", ramp, cost, case=case, seed=1, length_ns=effort.ramp_ns)
        for case in ("clean", "dead", "denylist")
    ]


def decay(drops: list[float]) -> float:
    """Return how many times smaller losses are in the last quarter of a run than at their peak."""
    peak = max(drops)
    late = float(np.mean(drops[len(drops) * 3 // 4 :]))
    return peak / late if late else float("inf") if peak else 1.0


def judge(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R15."""
    clean, dead, known = (results[f"ramp/{case}"] for case in ("clean", "dead", "denylist"))
    late = slice(len(dead["gbps"]) * 3 // 4, None)
    lost = sum(dead["lost"]) / dead["qps"]
    fall = decay(dead["lost"])
    kept = float(np.mean(dead["gbps"][late]) / np.mean(clean["gbps"][late]))
    checks = [
        at_least("peak of losses over those of the last quarter", min(fall, 1e9), 100, "590 (7 min), 63 (1 min)"),
        at_most("lost packets per QP", lost, 5, "< 5"),
        at_least("goodput after, of the clean fabric", kept, 0.99, "1"),
        at_most("peak with a pre-filled denylist over the peak without",
                max(known["lost"]) / max(max(dead["lost"]), 1.0), 0.01, "0"),
        shown("peak, packets per 100 us", max(dead["lost"])),
        shown("goodput of the clean fabric of line", float(np.mean(clean["gbps"][late])) / (HOSTS * 400)),
    ]  # fmt: skip
    ours = (
        f"losses fall {min(fall, 1e9):.3g}-fold, {lost:.1f} lost per QP, goodput {100 * kept:.1f} % of clean"
    )
    series = {"ramp_dead": dead["lost"], "ramp_known": known["lost"]}
    return Verdict(
        checks,
        ours,
        f"{effort.ramp_ns / 1e6:g} ms instead of 25 min; losses are packets sent again but for trims",
        series,
    )


STUDIES = (Study("R15", _cells, judge),)
