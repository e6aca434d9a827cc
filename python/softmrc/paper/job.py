"""R16, R17, R18: a synchronous training job while a T1 dies silently, links flap and NIC ports bounce (Figs 5-8).

A step is a computation on every host, one message from every host to every host of the other racks, and a barrier:
the slowest sets the pace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from softmrc.paper import fabrics
from softmrc.paper.cell import Cell, Measured
from softmrc.paper.check import Verdict, at_least, at_most, between, equal, shown
from softmrc.paper.events import ASSUMED_BAD, GOOD, EvChanges
from softmrc.paper.measure import losses
from softmrc.paper.params import PARAMS, Effort
from softmrc.paper.study import Study
from softmrc.sim.builder import Builder
from softmrc.sim.config import Fault
from softmrc.sim.workload import Workload

__all__ = ["STUDIES", "job"]

HOSTS, PER_T0, PLANES, T1S = 32, 8, 4, 128
MESSAGE = 32 * PARAMS.mtu
COMPUTE_NS = 100_000
SHORT = 6
"""Steps of an interval of R17 and R18."""
INTERVALS = 12
FAULT, HEAL = 3, 8
"""Intervals at whose start the fault comes and goes."""
FLAPS_PER_S = 4.2 / 60
"""Of the paper's fleet."""


def _training(steps: int) -> tuple[Workload, np.ndarray, list[int]]:
    """Return the job, the send tasks of each step, and the barrier task of each step."""
    builder = Builder()
    pairs = [(s, d) for s in range(HOSTS) for d in range(HOSTS) if d // PER_T0 != s // PER_T0]
    source, target = np.array(pairs).T
    hosts = np.arange(HOSTS)
    barriers: list[int] = []
    sends = []
    for _ in range(steps):
        work = builder.computes(hosts, COMPUTE_NS, after=[barriers[-1:]] if barriers else None)
        sends.append(builder.sends(source, target, MESSAGE, after=work[source]))
        barriers.append(builder.barrier(sends[-1]))
    return builder.build(), np.array(sends), barriers


def _pace(step_ns: float, steps: int) -> list[int]:
    """Return the starts of the intervals of `steps` steps each."""
    return [round(n * steps * step_ns) for n in range(INTERVALS + 1)]


def job(case: str, seed: int, steps: int, step_ns: float, remap_ns: int = 0) -> Measured:
    """Run the job with one kind of trouble and return steps an interval, losses and EV changes.

    Args:
        case: "clean"; "t1", a T1 drops everything silently; "flaps", one T0-T1 link after another goes down for
            half an interval; "ports", a port of three hosts bounces.
        seed: Of the EVs and of what fails.
        steps: Steps of an interval at full pace.
        step_ns: Length of a step without trouble, which places the faults.
        remap_ns: Time a NIC needs to move QPs off a dead port.
    """
    work, sends, barriers = _training(INTERVALS * steps)
    edges = _pace(step_ns, steps)
    rng = np.random.default_rng(seed)
    faults = _faults(case, edges, rng)
    found = fabrics.run(
        fabrics.clos(HOSTS, PLANES, PER_T0, T1S), work, fabrics.mrc(port_remap_ns=remap_ns), seed=seed, faults=faults,
        until_ns=20_000_000_000, sample_ns=max(1, round(step_ns * steps)),
    )  # fmt: skip
    ends = np.asarray(found.tasks["acked_ns"], dtype=np.float64)[barriers]
    lost = np.asarray(found.flows["rtx"])[sends].reshape(len(sends), -1)
    changes = EvChanges(found.ev_events)
    posted = np.asarray(found.tasks["posted_ns"], dtype=np.float64)[sends[:, 0]]
    return {
        "ends_ns": [float(e) for e in ends],
        "lost": lost.tolist(),
        "posted_ns": [float(p) for p in posted],
        "fault_ns": float(edges[FAULT]),
        "heal_ns": float(edges[HEAL]),
        "edges_ns": [float(e) for e in edges],
        "lost_series": [float(d) for d in losses(found.series)],
        "bad_ns": changes.when(state=ASSUMED_BAD),
        "demoted_qps": len({ev[:3] for ev in changes.distinct(state=ASSUMED_BAD)}),
        "good_ns": changes.when(state=GOOD),
        "totals": {k: int(v) for k, v in found.totals.items()},
    }


def _faults(case: str, edges: Sequence[int], rng: np.random.Generator) -> list[Fault]:
    if case == "t1":
        name = f"p{rng.integers(1, PLANES + 1)}.t1-{rng.integers(T1S)}"
        return [Fault(edges[FAULT], "switch_down", name), Fault(edges[HEAL], "switch_up", name)]
    if case == "flaps":
        out = []
        for begin, end in pairwise(edges[1:]):
            link = f"p{rng.integers(1, PLANES + 1)}.t0-{rng.integers(HOSTS // PER_T0)}.t1-{rng.integers(T1S)}"
            out += [Fault(begin, "link_down", link), Fault(begin + (end - begin) // 2, "link_up", link)]
        return out
    if case == "ports":
        out = []
        quarter = (edges[FAULT + 1] - edges[FAULT]) // 4
        for bounce in range(4):
            for host in (0, 9, 18):
                at = edges[FAULT] + bounce * quarter
                out += [
                    Fault(at, "port_down", f"h{host}.p2"),
                    Fault(at + quarter // 2, "port_up", f"h{host}.p2"),
                ]
        return out
    return []


def step_ns(found: Measured, steps: int) -> float:
    """Return the median length of a step of a run without trouble."""
    return float(np.median(np.diff(found["ends_ns"])))


def rates(found: Measured, edges: Sequence[float]) -> list[float]:
    """Return steps ended in each interval per ns, counting the parts of steps that cross an edge."""
    ends = np.concatenate(([0.0], np.asarray(found["ends_ns"])))
    done = np.interp(np.asarray(edges), ends, np.arange(len(ends)))
    return [float(r) for r in np.diff(done) / np.diff(edges)]


STEP_NS = 193_000.0
"""Nominal length of a step; it only places the faults."""


def _cell(case: str, steps: int, seed: int, remap_ns: int = 0) -> Cell:
    packets = INTERVALS * steps * HOSTS * (HOSTS - PER_T0) * (MESSAGE // PARAMS.mtu) / 1e6
    return Cell.of(f"job/{case}/{steps}/{remap_ns}/{seed}", job, packets, case=case, seed=seed, steps=steps,
                   step_ns=STEP_NS, remap_ns=remap_ns)  # fmt: skip


def _relative(found: Measured, clean: Measured) -> list[float]:
    """Return the job's rate in each whole interval over that of the clean run."""
    usable = [e for e in found["edges_ns"] if e <= min(found["ends_ns"][-1], clean["ends_ns"][-1])]
    return [a / b for a, b in zip(rates(found, usable), rates(clean, usable), strict=True)]


def _port_cells() -> list[Cell]:
    return [_cell("ports", SHORT, 1, remap) for remap in REMAPS_NS]


def judge_t1(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R16."""
    clean, found = (results[f"job/{case}/{effort.job_steps}/0/1"] for case in ("clean", "t1"))
    relative = _relative(found, clean)
    posted, lost = np.array(found["posted_ns"]), np.array(found["lost"])
    during = np.logical_and(posted >= found["fault_ns"] - STEP_NS, posted < found["heal_ns"])
    again = float(np.mean(lost[during].sum(axis=0) > 0))
    share = found["demoted_qps"] / lost.shape[1]
    expected = PARAMS.evs / (PLANES * T1S)
    drops = found["lost_series"]
    later = max(drops[FAULT + 1 : HEAL]) / max(drops[FAULT], 1e-9)
    returned = sum(t > found["heal_ns"] for t in found["good_ns"])
    before = float(np.mean(relative[1:FAULT]))
    checks = [
        between(
            "share of QPs that lost a data packet (an EV left)",
            share,
            expected - 0.03,
            expected + 0.03,
            "~0.25",
        ),
        at_most("job rate in the interval of the fault, of before", relative[FAULT] / before, 0.99, "0.81"),
        at_least(
            "job rate after it while the T1 is dead, worst",
            min(relative[FAULT + 1 : HEAL]) / before,
            0.98,
            "0.986",
        ),
        at_most("losses of a later interval over the first", later, 0.10, "0.07"),
        at_least("packets lost in the first interval", drops[FAULT], 1),
        at_least("job rate when the T1 is back, worst", min(relative[HEAL:]) / before, 0.98, "no effect"),
        at_least("EVs that came back by probes", float(returned), 1),
        equal("QP errors", found["totals"]["qp_errors"], 0, "0"),
        shown("EVs that left", float(len(found["bad_ns"]))),
        shown("share of QPs that sent anything again (SACKs are lost, too)", again),
    ]
    ours = (
        f"{100 * share:.1f} % of QPs touched; job {100 * (relative[FAULT] / before - 1):.0f} % for one interval, then "
        f"{100 * min(relative[FAULT + 1 : HEAL]) / before:.1f} %; later drops {100 * later:.0f} %"
    )
    note = f"interval = {effort.job_steps} steps (paper: one minute); T1s {T1S} a plane as on Cluster A"
    return Verdict(checks, ours, note, {"job_t1": relative, "job_drops": drops})


def judge_flaps(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R17."""
    clean, found = (results[f"job/{case}/{SHORT}/0/1"] for case in ("clean", "flaps"))
    flaps = INTERVALS - 1
    extra = max(found["ends_ns"][-1] - clean["ends_ns"][-1], 0.0)
    lost = np.array(found["lost"])
    posted = np.array(found["posted_ns"])
    which = np.searchsorted(np.array(found["edges_ns"]), posted + STEP_NS, side="right")
    per_flap = np.array([lost[which == n].sum(axis=0) for n in range(2, INTERVALS + 1)])
    touched = per_flap[per_flap > 0]
    nan = float("nan")
    checks = [
        at_most(
            "job rate lost at the paper's 4.2 flaps a minute",
            extra / flaps / 1e9 * FLAPS_PER_S,
            0.005,
            "no effect",
        ),
        at_most(
            "lost per affected QP and flap, median",
            float(np.median(touched)) if len(touched) else nan,
            1,
            "1",
        ),
        at_most(
            "lost per affected QP and flap, p99",
            float(np.quantile(touched, 0.99)) if len(touched) else nan,
            4,
        ),
        shown("time lost to a flap, us", extra / flaps / 1e3),
        shown("QPs affected by a flap, mean", float(np.mean((per_flap > 0).sum(axis=1)))),
        shown("job time over that without flaps", found["ends_ns"][-1] / clean["ends_ns"][-1]),
        equal("QP errors", found["totals"]["qp_errors"], 0, "0"),
    ]
    ours = f"{extra / flaps / 1e3:.0f} us lost to a flap; {checks[1].ours:.0f} packet(s) per affected QP (median)"
    note = f"one flap in {SHORT} steps; the job's loss is scaled to 4.2 flaps a minute"
    return Verdict(checks, ours, note)


REMAPS_NS = (0, 100_000, 1_000_000, 3_000_000)


def judge_ports(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R18."""
    clean = results[f"job/clean/{SHORT}/0/1"]
    curve: dict[int, list[float]] = {
        r: _relative(results[f"job/ports/{SHORT}/{r}/1"], clean) for r in REMAPS_NS
    }
    lost = {remap: 1 - min(rel[FAULT : FAULT + 2]) for remap, rel in curve.items()}
    errors = sum(results[f"job/ports/{SHORT}/{r}/1"]["totals"]["qp_errors"] for r in REMAPS_NS)
    checks: list[Any] = [
        at_most("instant remap: job loss while bouncing", lost[0], 0.25, "0.24-0.27 with seconds of remap"),
        at_least(
            "instant remap: rate an interval after",
            min(curve[0][FAULT + 2 :], default=float("nan")),
            0.98,
            "1",
        ),
        equal("QP errors", errors, 0, "0"),
        *(shown(f"remap {r / 1e6:g} ms: job loss", lost[r]) for r in REMAPS_NS[1:]),
    ]
    ours = "job loss " + ", ".join(f"{100 * lost[r]:.0f} % (remap {r / 1e6:g} ms)" for r in REMAPS_NS)
    note = f"time is scaled: an interval of {SHORT} steps (about 1 ms) stands for the paper's 30 s"
    return Verdict(checks, ours, note, {"remap": [(r / 1e6, lost[r]) for r in REMAPS_NS]})


STUDIES = (
    Study("R16", lambda effort: [_cell(case, effort.job_steps, 1) for case in ("clean", "t1")], judge_t1),
    Study("R17", lambda effort: [_cell(case, SHORT, 1) for case in ("clean", "flaps")], judge_flaps),
    Study("R18", lambda effort: [_cell("clean", SHORT, 1), *_port_cells()], judge_ports),
)
