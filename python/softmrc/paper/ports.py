"""R8 and R22: NIC ports go down, one by one, four at once and all of them (Fig 9a, 9b, section 5.1)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from softmrc.paper import fabrics
from softmrc.paper.cell import Cell, Measured
from softmrc.paper.check import Verdict, at_least, at_most, between, equal, shown
from softmrc.paper.flows import greedy_pairs, send
from softmrc.paper.measure import longest_below_ns
from softmrc.paper.params import PARAMS, Effort
from softmrc.paper.study import Study
from softmrc.sim.builder import Builder
from softmrc.sim.config import Fault

__all__ = ["STUDIES", "all_ports", "ports"]

PLANES = 8
QPS = 4
SAMPLE_NS = 5_000
PHASE_NS = 1_000_000
SETTLE = 0.4
"""Share of a phase left out of its plateau."""


def ports(case: str, seed: int) -> Measured:
    """Run a T0-local pair both ways while ports of host 0 go down and come back.

    Args:
        case: "steps", ports 1 to 7 in turn, then restored in turn; "four", four at once, then back.
        seed: Of the EVs.

    Returns:
        Plateau of each phase in Gb/s, both ways; the longest time after each failure with less than 90 % of the
        plateau that follows it; QP errors.
    """
    steps: list[tuple[str, tuple[int, ...]]]
    if case == "steps":
        steps = [("port_down", (p,)) for p in range(1, PLANES)]
        steps += [("port_up", (p,)) for p in range(1, PLANES)]
    else:
        steps = [("port_down", (1, 3, 5, 7)), ("port_up", (1, 3, 5, 7))]
    faults = [
        Fault((n + 1) * PHASE_NS, kind, f"h0.p{plane}")
        for n, (kind, planes) in enumerate(steps)
        for plane in planes
    ]
    work, tasks = greedy_pairs([(0, 1), (1, 0)], QPS)
    found = fabrics.run(
        fabrics.clos(2, PLANES, 2, 0), work, fabrics.mrc(qps=QPS), seed=seed, faults=faults,
        until_ns=(len(steps) + 1) * PHASE_NS, sample_ns=SAMPLE_NS, watch_flows=[t for g in tasks for t in g],
    )  # fmt: skip
    flow = np.asarray(found.series["flow_bytes"], dtype=np.float64)
    total = flow.sum(axis=1)
    width = PHASE_NS // SAMPLE_NS
    plateaus, gaps = [], []
    for n in range(len(steps) + 1):
        phase = total[n * width : (n + 1) * width]
        plateaus.append(float(np.mean(phase[int(width * SETTLE) :])) * 8 / SAMPLE_NS)
        ways = [flow[n * width : (n + 1) * width, way * QPS : (way + 1) * QPS].sum(axis=1) for way in (0, 1)]
        rates = [float(np.mean(way[int(width * SETTLE) :])) * 8 / SAMPLE_NS for way in ways]
        gaps.append(max(longest_below_ns(w, SAMPLE_NS, 0.5 * r) for w, r in zip(ways, rates, strict=True)))
    return {
        "plateaus": plateaus,
        "gaps_ns": gaps[1:],
        "series": [
            float(v) * 8 / SAMPLE_NS for v in total[: len(total) // 10 * 10].reshape(-1, 10).mean(axis=1)
        ],
        "totals": {k: int(v) for k, v in found.totals.items()},
    }


def judge_ports(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R8."""
    runs = [r for k, r in sorted(results.items()) if k.startswith("ports/steps/")]
    fours = [r for k, r in sorted(results.items()) if k.startswith("ports/four/")]
    verdict = Verdict()
    published = ("0.871", "0.748", "0.622", "0.500", "0.371", "0.250")
    shares = []
    for k in range(1, 7):
        share = float(np.mean([r["plateaus"][k] / r["plateaus"][0] for r in runs]))
        shares.append(share)
        want = (PLANES - k) / PLANES
        verdict.checks.append(
            between(f"{k} down, of start", share, want - 0.02, want + 0.02, published[k - 1])
        )
    four = [r["plateaus"][1] / r["plateaus"][0] for r in fours]
    notice_ns = PARAMS.rtt_ns  # half for the SACK that carries the ports, half for what is on its way
    verdict.extend(
        [
            between("four at once, of start", float(np.mean(four)), 0.48, 0.51, "0.497"),
            at_least("four back, of start", min(r["plateaus"][2] / r["plateaus"][0] for r in fours), 0.99, "1.00"),
            at_least("all back, of start", min(r["plateaus"][14] / r["plateaus"][0] for r in runs), 0.99, "1.00"),
            at_most(
                "longest gap after a failure, us", max(max(r["gaps_ns"][:6]) for r in runs) / 1e3,
                (notice_ns + 2 * PARAMS.rtt_ns) / 1e3, "1.1 s (CX8 remap)",
            ),
            equal("QP errors", sum(r["totals"]["qp_errors"] for r in [*runs, *fours]), 0, "0"),
            shown("7 down, of start", float(np.mean([r["plateaus"][7] / r["plateaus"][0] for r in runs])), "unstable"),
            shown("start, both ways, Gb/s", runs[0]["plateaus"][0], "1531"),
        ]
    )  # fmt: skip
    verdict.ours = f"{' '.join(f'{s:.3f}' for s in shares)}; four at once {np.mean(four):.3f}"
    verdict.note = "gap: longest time below half of the plateau that follows, per direction"
    verdict.series = {"ports_steps": runs[0]["series"], "ports_plateaus": runs[0]["plateaus"]}
    return verdict


def all_ports(left: int, seed: int) -> Measured:
    """Take all ports of the sender down but `left`, early, and see whether its QP gives up.

    Args:
        left: Ports that stay up, 0 or 1.
        seed: Of the EVs.
    """
    builder = Builder()
    send(builder, 0, 1, 64 << 20)
    faults = [Fault(200_000, "port_down", f"h0.p{p}") for p in range(1, PLANES + 1 - left)]
    found = fabrics.run(
        fabrics.clos(2, PLANES, 2, 0),
        builder.build(),
        fabrics.mrc(),
        seed=seed,
        faults=faults,
        until_ns=60_000_000_000,
    )
    return {
        "status": int(found.tasks["status"][0]),
        "qp_errors": int(found.totals["qp_errors"]),
        "sim_ns": int(found.sim_ns),
        "timeouts": int(found.totals["timeouts"]),
    }


def judge_all_ports(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R22."""
    none, one = results["all-ports/0"], results["all-ports/1"]
    checks = [
        at_least("all ports down: QPs in error", none["qp_errors"], 1, "QPs fail"),
        equal("all ports down: message failed", none["status"], 2),
        equal("one port left: QP errors", one["qp_errors"], 0, "0"),
        equal("one port left: message delivered", one["status"], 1),
        shown("all ports down: given up after, ms", none["sim_ns"] / 1e6),
    ]
    delivered = "delivered" if one["status"] == 1 else "not delivered"
    ours = f"all down: error after {none['sim_ns'] / 1e6:.0f} ms; one left: {delivered}"
    return Verdict(checks, ours)


def _cells_ports(effort: Effort) -> list[Cell]:
    seeds = max(1, effort.seeds // 10)
    cost = 15 * PHASE_NS * 1600 / 8 / PARAMS.mtu / 1e6 / 2
    return [
        Cell.of(f"ports/{case}/{seed}", ports, cost / (1 if case == "steps" else 4), case=case, seed=seed)
        for case in ("steps", "four")
        for seed in range(1, seeds + 1)
    ]


def _cells_all(effort: Effort) -> list[Cell]:
    return [Cell.of(f"all-ports/{left}", all_ports, 0.1, left=left, seed=1) for left in (0, 1)]


STUDIES = (Study("R8", _cells_ports, judge_ports), Study("R22", _cells_all, judge_all_ports))
