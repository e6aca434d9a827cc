"""R5: eight flows from two racks to the other two, in random order, over four fully loaded spines (Fig 20)."""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from softmrc.paper import fabrics
from softmrc.paper.cell import Cell, Measured
from softmrc.paper.check import Verdict, at_least, at_most, between, shown
from softmrc.paper.flows import greedy_pairs
from softmrc.paper.hashing import permutation_means
from softmrc.paper.measure import clusters_at_fractions
from softmrc.paper.params import PARAMS, Effort
from softmrc.paper.study import Study

__all__ = ["STUDIES", "permutation"]

WARM_NS = 1_000_000
SAMPLE_NS = 100_000
DRAWS = 1000
NAMES = ("pfc1", "pfc8", "dcqcn8", "mrc1", "mrc8")


def permutation(transport: str, seed: int, measured_ns: int, solo: bool) -> Measured:
    """Run eight endless flows, or one alone, and return each one's Gb/s, ascending.

    Args:
        transport: Short name, for instance "pfc1".
        seed: Of the pairing, hashes and EVs.
        measured_ns: Time measured after the warm-up.
        solo: Only h0 sends, to h8.
    """
    targets = list(range(8, 16))
    random.Random(seed).shuffle(targets)
    pairs = [(0, 8)] if solo else list(enumerate(targets))
    kind = fabrics.transport(transport)
    work, tasks = greedy_pairs(pairs, kind.qps)
    found = fabrics.run(
        fabrics.cluster_d(), work, kind, seed=seed, until_ns=WARM_NS + measured_ns, sample_ns=SAMPLE_NS,
        watch_flows=[t for group in tasks for t in group],
    )  # fmt: skip
    time = np.asarray(found.series["time_ns"])
    data = np.asarray(found.series["flow_bytes"], dtype=np.float64).reshape(len(time), len(pairs), kind.qps)
    late = data.sum(axis=2)[time - SAMPLE_NS >= WARM_NS]
    rates = sorted(float(r) for r in late.mean(axis=0) * 8.0 / SAMPLE_NS)
    return {"rates": rates, "totals": {k: int(v) for k, v in found.totals.items()}}


def _cells(effort: Effort) -> list[Cell]:
    cost = 8 * (effort.permutation_ns + WARM_NS) * fabrics.LINE_C_GBPS / 8 / PARAMS.mtu / 1e6
    cells = []
    for name in NAMES:
        seeds = effort.seeds if not name.startswith("mrc") else max(2, effort.seeds // 2)
        cells += [
            Cell.of(f"permutation/{name}/{seed}", permutation, cost, transport=name, seed=seed,
                    measured_ns=effort.permutation_ns, solo=False)
            for seed in range(1, seeds + 1)
        ]  # fmt: skip
        cells.append(Cell.of(f"permutation/{name}/solo", permutation, cost / 8, transport=name, seed=1,
                             measured_ns=effort.permutation_ns, solo=True))  # fmt: skip
    return cells


def _fractions(results: Mapping[str, Measured], name: str) -> list[list[float]]:
    line = results[f"permutation/{name}/solo"]["rates"][0]
    runs: list[list[float]] = []
    while (key := f"permutation/{name}/{len(runs) + 1}") in results:
        runs.append([rate / line for rate in results[key]["rates"]])
    return runs


def _mean(runs: Sequence[Sequence[float]]) -> float:
    return statistics.fmean(rate for run in runs for rate in run)


def judge(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R5."""
    found = {name: _fractions(results, name) for name in NAMES}
    one = found["pfc1"]
    flat = [rate for run in one for rate in run]
    worst = {name: min(min(run) for run in found[name]) for name in NAMES}
    full = statistics.fmean(min(run) >= 0.97 for run in one)
    theory = permutation_means(PARAMS.roce_qps_small, DRAWS, in_step=True)
    checks = [
        between("RoCE PFC 1 QP: mean of line", _mean(one), 0.50, 0.70, "0.62"),
        at_least(
            "RoCE PFC 1 QP: share of flows near 1, 1/2, 1/3, 1/4", clusters_at_fractions(flat), 0.8, "1"
        ),
        at_most("RoCE PFC 1 QP: share of runs with all at line", full, 0.02, "0.0015 (theory)"),
        between("RoCE PFC 8 QPs: mean of line", _mean(found["pfc8"]), 0.75, 0.92, "0.82"),
        at_least("MRC 1 QP: slowest flow of line", worst["mrc1"], 0.97, "0.995"),
        at_least("MRC 8 QPs: slowest flow of line", worst["mrc8"], 0.97, "line rate"),
        shown("RoCE PFC 8 QPs: best run", max(map(statistics.fmean, found["pfc8"])), "0.82 (one run)"),
        shown("8 QPs in step, even hashing: mean (theory)", statistics.fmean(theory)),
        shown("8 QPs in step, even hashing: standard deviation of a run", statistics.stdev(theory)),
        shown(
            "8 QPs in step, even hashing: share of runs >= 0.75", statistics.fmean(m >= 0.75 for m in theory)
        ),
        shown(
            "8 QPs in step, even hashing: share of runs >= 0.82", statistics.fmean(m >= 0.82 for m in theory)
        ),
        shown(
            "8 QPs each on its own, even hashing: mean (theory)",
            statistics.fmean(permutation_means(8, DRAWS // 10, in_step=False)),
        ),
        shown("RoCE DCQCN 8 QPs: mean of line", _mean(found["dcqcn8"]), "1.00"),
        shown("RoCE PFC 1 QP: slowest flow, mean of runs", statistics.fmean(map(min, one)), "0.41 (theory)"),
    ]
    ours = (
        f"RoCE PFC {100 * _mean(one):.0f} % (1 QP), {100 * _mean(found['pfc8']):.0f} % (8 QPs); "
        f"MRC slowest flow {100 * worst['mrc1']:.1f} %"
    )
    return Verdict(checks, ours, series={name: found[name][0] for name in NAMES})


STUDIES = (Study("R5", _cells, judge),)
