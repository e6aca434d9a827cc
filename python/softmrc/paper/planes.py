"""R21: planes stay equal: cross traffic or missing uplinks on one plane cap all of them (section 4)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from softmrc.paper import fabrics
from softmrc.paper.cell import Cell, Measured
from softmrc.paper.check import Verdict, at_least, between, shown
from softmrc.paper.flows import send
from softmrc.paper.params import PARAMS, Effort
from softmrc.paper.study import Study
from softmrc.sim.builder import Builder
from softmrc.sim.config import Fault
from softmrc.sim.workload import GREEDY

__all__ = ["STUDIES", "cross_traffic", "missing_uplinks"]

PLANES = 8
PORT_GBPS = 100.0
WARM_NS = 2_000_000
END_NS = 5_000_000
SAMPLE_NS = 100_000
CROSS = (25.0, 50.0)
CROSS_QPS = 64


def cross_traffic(x_gbps: float, any_plane: bool, seed: int) -> Measured:
    """Run a pair on 8 planes beside a flow of `x_gbps` on plane 1, over one shared T0-T1 link a plane.

    The other host has only its port on plane 1 and that at `x_gbps`. It sends on many QPs: each keeps at least a
    packet in flight, so that together they yield little, as a flow outside MRC's congestion control would.

    Args:
        x_gbps: Rate offered by the cross flow, 0 for none.
        any_plane: The ablation: replacement EVs come from any plane.
        seed: Of the EVs.
    """
    faults = [Fault(0, "port_down", f"h1.p{p}") for p in range(2, PLANES + 1)]
    faults.append(Fault(0, "link_rate", "h1.p1", max(x_gbps, 1.0) / PORT_GBPS, "up"))
    pairs = [(0, 2), (1, 3)] if x_gbps else [(0, 2)]
    return _steady(fabrics.clos(4, PLANES, 2, 1), pairs, faults, any_plane, seed, CROSS_QPS)


def missing_uplinks(missing: int, any_plane: bool, seed: int) -> Measured:
    """Run four saturating pairs between two racks with `missing` of plane 1's four uplinks gone from the start.

    Args:
        missing: Uplinks gone, 0 to 3.
        any_plane: The ablation: replacement EVs come from any plane.
        seed: Of the EVs.
    """
    faults = [Fault(0, "link_down", f"p1.t0-0.t1-{k}") for k in range(missing)]
    return _steady(fabrics.clos(8, PLANES, 4, 4), [(h, h + 4) for h in range(4)], faults, any_plane, seed, 1)


def _steady(
    fabric: object, pairs: list[tuple[int, int]], faults: list[Fault], any_plane: bool, seed: int, others: int
) -> Measured:
    builder = Builder()
    tasks = [
        [send(builder, *pair, GREEDY, qp=qp) for qp in range(others if n else 1)]
        for n, pair in enumerate(pairs)
    ]
    kind = fabrics.mrc(replace_any_plane=any_plane, qps=others)
    found = fabrics.run(
        fabric, builder.build(), kind, seed=seed, faults=faults, until_ns=END_NS, sample_ns=SAMPLE_NS,
        watch_flows=[t for group in tasks for t in group],
    )  # fmt: skip
    late = np.asarray(found.series["time_ns"]) - SAMPLE_NS >= WARM_NS
    rates = np.asarray(found.series["flow_bytes"], dtype=np.float64)[late].mean(axis=0) * 8 / SAMPLE_NS
    planes = np.asarray(found.series["plane_bytes"], dtype=np.float64)[late].mean(axis=0) * 8 / SAMPLE_NS
    return {
        "rates": [float(rates[group[0] : group[-1] + 1].sum()) for group in tasks],
        "planes": [float(r) for r in planes],
        "totals": {k: int(v) for k, v in found.totals.items()},
    }


MISSING = (1, 2)


def _cells(effort: Effort) -> list[Cell]:
    one = END_NS * 800 / 8 / PARAMS.mtu / 1e6
    cells = []
    for ablation in (False, True):
        cells += [
            Cell.of(f"cross/{x:g}/{ablation}", cross_traffic, one, x_gbps=x, any_plane=ablation, seed=1)
            for x in (0.0, *CROSS)
        ]
        cells += [
            Cell.of(
                f"missing/{n}/{ablation}", missing_uplinks, 4 * one, missing=n, any_plane=ablation, seed=1
            )
            for n in (0, *MISSING)
        ]
    return cells


def judge(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R21."""
    verdict = Verdict()
    alone = results["cross/0/False"]["rates"][0]
    capacity = alone / PLANES  # of a plane in goodput, headers taken off
    shares = []
    for x in CROSS:
        mine, other = results[f"cross/{x:g}/False"]["rates"]
        share = mine / (PLANES * (capacity - other))
        shares.append(share)
        verdict.extend(
            [
                between(f"x = {x:g}: MRC over p(C - x)", share, 0.97, 1.03, "1"),
                shown(f"x = {x:g}: what the cross flow got, Gb/s", other, f"{x:g}"),
                shown(f"x = {x:g}: any plane, of p(C - x)", results[f"cross/{x:g}/True"]["rates"][0]
                      / (PLANES * (capacity - results[f"cross/{x:g}/True"]["rates"][1])), "> 1"),
            ]
        )  # fmt: skip
    full = sum(results["missing/0/False"]["rates"])
    kept = []
    for n in MISSING:
        want = 1 - n / 4
        ours = sum(results[f"missing/{n}/False"]["rates"]) / full
        other = sum(results[f"missing/{n}/True"]["rates"]) / full
        kept.append(ours)
        verdict.extend(
            [
                between(f"{n} of 4 uplinks gone: of line", ours, want - 0.03, want + 0.03, f"{want:g}"),
                at_least(f"{n} of 4 gone: any plane recovers, of line", other, ours, "more"),
            ]
        )
    crossed, left = " / ".join(f"{s:.2f}" for s in shares), " / ".join(f"{k:.3f}" for k in kept)
    verdict.ours = f"{crossed} of p(C - x); {left} of line"
    verdict.note = "x is what the cross flow really got: it obeys congestion control like everybody"
    return verdict


STUDIES = (Study("R21", _cells, judge),)
