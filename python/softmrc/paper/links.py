"""R7 and R13: T0-T1 links and a T1 fail below a running transfer (Figs 9c, 9d, 11 and 19)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from softmrc.paper import fabrics
from softmrc.paper.cell import Cell, Measured
from softmrc.paper.check import Verdict, at_least, between, equal, shown
from softmrc.paper.flows import greedy_pairs
from softmrc.paper.measure import rebin
from softmrc.paper.params import PARAMS, Effort
from softmrc.paper.study import Study
from softmrc.sim.config import Fault

__all__ = ["STUDIES", "spine_links", "uplinks"]

PLANES = 8
T1S = 16
QPS = 4
FAILED_ONE_BY_ONE = 20
FAILED_AT_ONCE = 8
SAMPLES = 20


def uplinks(case: str, seed: int, bin_rtts: int) -> Measured:
    """Run a cross-T1 pair both ways while links fail, and return its rate in bins of `bin_rtts` round trips.

    Args:
        case: "a", 20 uplinks one by one; "b", 8 at once, restored later; "c", one T1, restored later.
        seed: Of the EVs and of which links fail.
        bin_rtts: Length of a bin.
    """
    bin_ns = bin_rtts * PARAMS.rtt_ns
    rng = np.random.default_rng(seed)
    places = [(int(n) // T1S + 1, int(n) % T1S) for n in rng.permutation(PLANES * T1S)]
    before, fault_bins, after = 3, 8, 4
    faults: list[Fault] = []
    start = before * bin_ns
    if case == "a":
        gap = fault_bins * bin_ns // FAILED_ONE_BY_ONE
        faults = [_down(start + n * gap, *places[n]) for n in range(FAILED_ONE_BY_ONE)]
    elif case == "b":
        faults = [_down(start, *places[n]) for n in range(FAILED_AT_ONCE)]
        faults += [_up(start + fault_bins * bin_ns, *places[n]) for n in range(FAILED_AT_ONCE)]
    else:
        plane, t1 = places[0]
        faults = [
            Fault(start, "switch_down", f"p{plane}.t1-{t1}"),
            Fault(start + fault_bins * bin_ns, "switch_up", f"p{plane}.t1-{t1}"),
        ]
    work, tasks = greedy_pairs([(0, 1), (1, 0)], QPS)
    found = fabrics.run(
        fabrics.clos(2, PLANES, 1, T1S), work, fabrics.mrc(qps=QPS), seed=seed, faults=faults,
        until_ns=(before + fault_bins + after) * bin_ns, sample_ns=bin_ns // SAMPLES,
        watch_flows=[t for group in tasks for t in group],
    )  # fmt: skip
    total = np.asarray(found.series["flow_bytes"], dtype=np.float64).sum(axis=1)
    bins = [float(b) * 8 / bin_ns for b in rebin(total, SAMPLES)]
    return {
        "bins": bins,
        "before": before,
        "until": before + fault_bins,
        "totals": {k: int(v) for k, v in found.totals.items()},
    }


def _down(at: int, plane: int, t1: int) -> Fault:
    return Fault(at, "link_down", f"p{plane}.t0-0.t1-{t1}")


def _up(at: int, plane: int, t1: int) -> Fault:
    return Fault(at, "link_up", f"p{plane}.t0-0.t1-{t1}")


def _parts(run: Measured) -> tuple[float, list[float], list[float]]:
    """Return the rate before the fault, and the bins during and after it over that rate."""
    bins, first, until = run["bins"], run["before"], run["until"]
    base = float(np.mean(bins[1:first]))
    return base, [b / base for b in bins[first:until]], [b / base for b in bins[until:]]


def judge_uplinks(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R7."""
    runs = {
        case: [r for k, r in sorted(results.items()) if k.startswith(f"uplinks/{case}/")] for case in "abc"
    }
    worst = {c: min(min(_parts(r)[1] + _parts(r)[2]) for r in runs[c]) for c in "abc"}
    median_b = min(float(np.median(_parts(r)[1])) for r in runs["b"])
    steady_c = min(float(np.mean(_parts(r)[1][1:])) for r in runs["c"])
    restored = min(float(np.mean(_parts(r)[2][1:])) for c in "bc" for r in runs[c])
    errors = sum(r["totals"]["qp_errors"] for c in "abc" for r in runs[c])
    checks = [
        at_least("(a) 20 links one by one: worst bin", worst["a"], 0.98, "0.991"),
        at_least("(b) 8 links at once: worst bin", worst["b"], 0.95, "0.96"),
        at_least("(b) median during", median_b, 0.99, "1.00"),
        at_least("(c) T1 down: steady", steady_c, 0.99, "0.997"),
        at_least("(c) T1 down: worst bin", worst["c"], 0.97, "0.983"),
        at_least("restored", restored, 0.99, "1.00"),
        equal("QP errors", errors, 0, "0"),
        shown("both directions before, Gb/s", _parts(runs["a"][0])[0], "1533"),
    ]
    ours = (
        f"worst bins {worst['a']:.3f} (a), {worst['b']:.3f} (b), {worst['c']:.3f} (c); steady {steady_c:.3f}"
    )
    note = f"bin = {effort.bin_rtts} round trips of 13.1 us"
    return Verdict(checks, ours, note, {f"uplinks_{c}": runs[c][0]["bins"] for c in "abc"})


def spine_links(case: str, seed: int, phase_ns: int) -> Measured:
    """Run a pair across four spines while uplinks fail, and return the mean rate of each phase.

    Args:
        case: "a", uplinks at NIC rate; "b", at a quarter of it; "c", a quarter, two fail at once.
        seed: Of the EVs.
        phase_ns: Length of a phase; its second half is measured.
    """
    uplink = fabrics.LINE_C_GBPS / (1 if case == "a" else 4)
    plans: dict[str, list[tuple[str, tuple[int, ...]]]] = {
        "a": [("link_down", (0,)), ("link_down", (1,)), ("link_down", (2,))],
        "b": [("link_down", (0,)), ("link_down", (1,)), ("link_down", (2,)),
              ("link_up", (2,)), ("link_up", (1,)), ("link_up", (0,))],
        "c": [("link_down", (0, 1)), ("link_up", (0, 1))],
    }  # fmt: skip
    steps = plans[case]
    faults = [
        Fault((n + 1) * phase_ns, kind, f"p1.t0-0.t1-{spine}")
        for n, (kind, spines) in enumerate(steps)
        for spine in spines
    ]
    sample = 100_000
    work, tasks = greedy_pairs([(0, 1)], 1)
    found = fabrics.run(
        fabrics.clos(2, 1, 1, 4, gbps=fabrics.LINE_C_GBPS, uplink_gbps=uplink), work, fabrics.mrc(), seed=seed,
        faults=faults, until_ns=(len(steps) + 1) * phase_ns, sample_ns=sample, watch_flows=tasks[0],
    )  # fmt: skip
    flow = np.asarray(found.series["flow_bytes"], dtype=np.float64)[:, 0] * 8 / sample
    width = phase_ns // sample
    phases = [flow[n * width : (n + 1) * width] for n in range(len(steps) + 1)]
    settled = float(np.mean(phases[1][len(phases[1]) // 2 :]))
    slow = np.flatnonzero(np.abs(phases[1] - settled) > 0.05 * settled)
    return {
        "phases": [float(np.mean(p[len(p) // 2 :])) for p in phases],
        "series": [float(v) for v in flow],
        "settle_ns": float((slow[-1] + 1) * sample) if len(slow) else 0.0,
        "totals": {k: int(v) for k, v in found.totals.items()},
    }


def judge_spines(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R13."""
    a, b, c = (results[f"spines/{case}"] for case in "abc")
    line = a["phases"][0]  # the same NIC without a bottleneck
    fractions = [rate / line for rate in b["phases"][1:4]]
    checks: list[Any] = [
        at_least("(a) three of four links gone, of line", a["phases"][3] / line, 0.98, "0.99"),
        *(
            between(f"(b) {n} of four slow links gone", got, want - 0.02, want + 0.02, paper)
            for n, got, want, paper in zip(
                (1, 2, 3), fractions, (0.75, 0.5, 0.25), ("0.745", "0.497", "0.247"), strict=True
            )
        ),
        shown("(b) all four slow links, of line", b["phases"][0] / line, "0.99"),
        at_least("(b) all back", b["phases"][6] / line, 0.98, "0.99"),
        between("(c) two at once", c["phases"][1] / line, 0.48, 0.52, "0.497"),
        shown("(c) settled after, us", c["settle_ns"] / 1e3, "<= 900,000"),
        at_least("(c) all back", c["phases"][2] / line, 0.98, "0.99"),
        shown("line, Gb/s", line, "384"),
    ]
    ours = f"(b) {' / '.join(f'{100 * f:.1f}' for f in fractions)} %, (c) {100 * c['phases'][1] / line:.1f} %"
    return Verdict(
        checks, ours, "time is simulated: phases of milliseconds, not seconds", {"spines_b": b["series"]}
    )


def _cells_uplinks(effort: Effort) -> list[Cell]:
    seeds = max(1, effort.seeds // 10)
    cost = 15 * effort.bin_rtts * PARAMS.rtt_ns * 1600 / 8 / PARAMS.mtu / 1e6
    return [
        Cell.of(f"uplinks/{case}/{seed}", uplinks, cost, case=case, seed=seed, bin_rtts=effort.bin_rtts)
        for case in "abc"
        for seed in range(1, seeds + 1)
    ]


def _cells_spines(effort: Effort) -> list[Cell]:
    phase = 50_000_000
    cost = 6 * phase * 400 / 8 / PARAMS.mtu / 1e6
    return [Cell.of(f"spines/{case}", spine_links, cost, case=case, seed=1, phase_ns=phase) for case in "abc"]


STUDIES = (Study("R7", _cells_uplinks, judge_uplinks), Study("R13", _cells_spines, judge_spines))
