"""R2, R3, R4: seven senders to one host, and a victim to its idle neighbour (Figs 18 and 21).

4 racks of 4 hosts, 4 spines, 400 Gb/s links. Receivers are h0 (incast) and h1 (victim) of rack 0; the eight senders
are in the other racks.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from softmrc.paper import fabrics
from softmrc.paper.cell import Cell, Measured
from softmrc.paper.check import Check, Verdict, at_least, at_most, between, shown
from softmrc.paper.flows import send
from softmrc.paper.measure import jain, worst_window
from softmrc.paper.params import PARAMS, Effort
from softmrc.paper.study import Study
from softmrc.sim.builder import Builder
from softmrc.sim.workload import GREEDY

__all__ = ["STUDIES", "incast"]

# The paper does not say who sends. Shared: spread over the three other racks, which is judged. Apart: the victim has a
# rack to itself, which is shown.
PLACES = {
    "shared": ((4, 5, 6, 8, 9, 12, 13), (14, 1)),
    "apart": ((4, 5, 6, 7, 8, 9, 10), (12, 1)),
}
LINE = fabrics.LINE_C_GBPS
SAMPLES_PER_WINDOW = 8
WARM_NS = 5_000_000
DCQCN_WARM_NS = 60_000_000
"""Its rates take so long to recover from the start."""
SPINES = tuple(f"p1.t0-0.t1-{j}.down" for j in range(4))
SAMPLE_NS = round(PARAMS.window_packets * PARAMS.mtu * 8 / LINE / SAMPLES_PER_WINDOW)
SCOUT_BYTES = 10 * PARAMS.mtu


def incast(transport: str, place: str, seed: int, measured_ns: int, solo: bool) -> Measured:
    """Run the incast, or the victim alone, and return rates over the measured time.

    Before the greedy flows, each QP sends ten packets in a time slot of its own: the spine port that carries them
    is the one its hash chose.

    Args:
        transport: Short name, for instance "pfc8".
        place: Who sends, of `PLACES`.
        seed: Of hashes and EVs.
        measured_ns: Time measured after the warm-up.
        solo: Only the victim sends.
    """
    kind = fabrics.transport(transport)
    senders, victim_pair = PLACES[place]
    pairs = [victim_pair] if solo else [victim_pair, *((s, 0) for s in senders)]
    warm = DCQCN_WARM_NS if transport.startswith("dcqcn") and not solo else WARM_NS
    builder, tasks = Builder(), []
    single_path = not transport.startswith("mrc")
    slots = [(pair, qp) for pair in pairs for qp in range(kind.qps)] if single_path else []
    for slot, (pair, qp) in enumerate(slots):
        send(builder, *pair, SCOUT_BYTES, at_ns=slot * SAMPLE_NS, qp=qp)
    begin = len(slots) * SAMPLE_NS + SAMPLE_NS
    for pair in pairs:
        tasks.append([send(builder, *pair, GREEDY, at_ns=begin, qp=qp) for qp in range(kind.qps)])
    end = begin + warm + measured_ns
    found = fabrics.run(
        fabrics.cluster_d(), builder.build(), kind, seed=seed, until_ns=end, sample_ns=SAMPLE_NS,
        watch_flows=[t for group in tasks for t in group], watch_links=SPINES,
    )  # fmt: skip
    rates, victim = _rates(found, len(pairs), kind.qps, begin + warm)
    measured: dict[str, Any] = {
        "place": place,
        "victim": rates[0],
        "incast": rates[1:],
        "victim_series": victim,
        "sample_ns": SAMPLE_NS,
        "totals": {k: int(v) for k, v in found.totals.items()},
    }
    if single_path and not solo:
        sent = np.asarray(found.series["link_bytes"])[: len(slots)]
        measured["spine"] = [int(np.argmax(row)) for row in sent]
    return measured


def _rates(found: Any, pairs: int, qps: int, begin_ns: int) -> tuple[list[float], list[float]]:
    """Return Gb/s of each pair after `begin_ns`, and the victim's at each sample."""
    time = np.asarray(found.series["time_ns"])
    data = np.asarray(found.series["flow_bytes"], dtype=np.float64).reshape(len(time), pairs, qps).sum(axis=2)
    late = data[time - SAMPLE_NS >= begin_ns]
    series = late * 8.0 / SAMPLE_NS
    return [float(r) for r in series.mean(axis=0)], [float(r) for r in series[:, 0]]


def _share(cell: Measured) -> tuple[float, int, bool]:
    """Return the victim's rate, the incast flows on its spine, and whether C/4/n holds for its case (1 QP).

    C/4/n is max-min sharing when every spine carries incast and the flows on the victim's spine come through ports of
    their own: from different racks, none of them the victim's unless it is the only one.
    """
    senders, victim = PLACES[cell["place"]]
    mine, others = cell["spine"][0], cell["spine"][1:]
    racks = [sender // 4 for sender, spine in zip(senders, others, strict=True) if spine == mine]
    apart = len(set(racks)) == len(racks) and (len(racks) == 1 or victim[0] // 4 not in racks)
    return float(cell["victim"]), len(racks), apart and len(set(others)) == 4


def _cells(effort: Effort, names: Sequence[str]) -> list[Cell]:
    cells = []
    for name in names:
        warm = DCQCN_WARM_NS if name.startswith("dcqcn") else WARM_NS
        measured = effort.incast_mrc_ns if name.startswith("mrc") else effort.incast_ns
        cost = 2 * (measured + warm) * LINE / 8 / PARAMS.mtu / 1e6
        # Hashing decides for RoCE; MRC hardly varies, and DCQCN's runs are long.
        seeds = effort.seeds if name.startswith("pfc") else effort.seeds_dear + 1
        for place in PLACES:
            cells += [
                Cell.of(f"incast/{name}/{place}/{seed}", incast, cost, transport=name, place=place, seed=seed,
                        measured_ns=measured, solo=False)
                for seed in range(1, (seeds if place == "shared" else max(1, seeds // 2)) + 1)
            ]  # fmt: skip
        cells.append(Cell.of(f"incast/{name}/solo", incast, cost / 4, transport=name, place="shared", seed=1,
                             measured_ns=effort.incast_ns // 4, solo=True))  # fmt: skip
    return cells


def of(results: Mapping[str, Measured], name: str, place: str = "shared") -> tuple[list[Measured], float]:
    """Return the runs of a transport over seeds in one placement, and its victim's solo rate."""
    runs = [r for k, r in sorted(results.items()) if k.startswith(f"incast/{name}/{place}/")]
    return runs, float(results[f"incast/{name}/solo"]["victim"])


def _apart(results: Mapping[str, Measured], names: Sequence[str]) -> list[Check]:
    """Return the victim's mean in the other placement, shown beside the judged one."""
    checks = []
    for name in names:
        runs, solo = of(results, name, "apart")
        checks.append(
            shown(f"{name}, victim's rack apart: mean of solo", _mean([r["victim"] for r in runs]) / solo)
        )
    return checks


def worst(run: Measured) -> float:
    """Return the victim's worst window of 5,000 packets' time, in Gb/s."""
    return worst_window(run["victim_series"], SAMPLES_PER_WINDOW) / SAMPLES_PER_WINDOW


def _bottleneck(runs: Sequence[Measured], solo: float) -> float:
    return statistics.fmean(sum(run["incast"]) for run in runs) / solo


def judge_mrc(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R2."""
    verdict = Verdict()
    means = {}
    for name, paper in (("mrc1", "0.997, 0.989, 1.000, 0.97"), ("mrc8", "0.997, 0.985, 1.000, 0.97")):
        runs, solo = of(results, name)
        shares = paper.split(", ")
        means[name] = statistics.fmean(run["victim"] for run in runs) / solo
        verdict.extend(
            [
                at_least(f"{name}: victim of solo, mean", means[name], 0.98, shares[0]),
                at_least(
                    f"{name}: victim of solo, worst window", min(map(worst, runs)) / solo, 0.96, shares[1]
                ),
                at_least(
                    f"{name}: Jain of the incast",
                    statistics.fmean(jain(r["incast"]) for r in runs),
                    0.995,
                    shares[2],
                ),
                at_least(f"{name}: bottleneck busy", _bottleneck(runs, solo), 0.95, shares[3]),
                shown(f"{name}: victim solo, Gb/s", solo, "389-395"),
            ]
        )
        verdict.series[name] = list(runs[0]["victim_series"])
    verdict.checks.append(
        between("victim, 8 QPs over 1 QP", means["mrc8"] / means["mrc1"], 0.98, 1.02, "1.00")
    )
    verdict.extend(_apart(results, ("mrc1", "mrc8")))
    verdict.ours = f"victim {100 * means['mrc1']:.1f} % (1 QP), {100 * means['mrc8']:.1f} % (8 QPs) of solo"
    return verdict


def judge_pfc(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R3."""
    runs, solo = of(results, "pfc1")
    many, many_solo = of(results, "pfc8")
    shares = [_share(run) for run in [*runs, *of(results, "pfc1", "apart")[0]]]
    ratios = [rate / (LINE / 4 / n) for rate, n, exact in shares if n and exact]
    shared = [run["victim"] * LINE / solo for run in runs if _share(run)[1]]
    eight = [run["victim"] * LINE / many_solo for run in many]
    nan = float("nan")
    checks = [
        between("1 QP: victim over C/4/n, mean where ports are shared so", _mean(ratios), 0.85, 1.15, "0.97"),
        shown("1 QP: runs of that kind", float(len(ratios))),
        shown("1 QP: share of them within 15 %", _mean([abs(r - 1) <= 0.15 for r in ratios])),
        between("1 QP: victim when sharing a spine, of 400", _mean(shared), 25, 100, "97"),
        between("8 QPs: victim, of 400", _mean(eight), 25, 100, "25"),
        at_least("1 QP: bottleneck busy", _bottleneck(runs, solo), 0.95, "0.98"),
        at_least("8 QPs: bottleneck busy", _bottleneck(many, many_solo), 0.95, "0.98"),
        shown("1 QP: runs that share a spine", float(len(shared))),
        shown("1 QP: smallest victim, of 400", min(shared) if shared else nan, "87"),
        at_least("PFC pauses in every run", min(r["totals"]["pfc_pauses"] for r in [*runs, *many]), 1),
        *_apart(results, ("pfc1", "pfc8")),
    ]
    ours = f"victim {_mean(shared):.0f} (1 QP, sharing), {_mean(eight):.0f} (8 QPs) of 400"
    series = {"pfc1": list(runs[0]["victim_series"]), "pfc8": list(many[0]["victim_series"])}
    return Verdict(checks, ours, series=series)


def judge_dcqcn(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R4."""
    one, solo = of(results, "dcqcn1")
    many, many_solo = of(results, "dcqcn8")
    sharing = [run for run in one if _share(run)[1]]
    one_loss = 1 - _mean([run["victim"] for run in sharing]) / solo
    many_loss = 1 - _mean([run["victim"] for run in many]) / many_solo
    many_worst = min(map(worst, many)) / many_solo
    mrc_runs, mrc_solo = of(results, "mrc1")
    mrc = _mean([run["victim"] for run in mrc_runs]) / mrc_solo
    checks: list[Check] = [
        between("1 QP: victim loses, mean of runs that share", one_loss, 0.10, 0.35, "0.18"),
        shown("1 QP: victim loses, worst window", 1 - min(map(worst, sharing), default=solo) / solo, "0.27"),
        at_most("8 QPs over 1 QP: mean loss", many_loss / one_loss if one_loss else float("inf"), 1, "0.44"),
        at_most("8 QPs: worst window of solo", many_worst, 0.5, "0.16"),
        shown("8 QPs: mean loss", many_loss, "0.08"),
        at_least("PFC pauses, 1 QP, mean", _mean([r["totals"]["pfc_pauses"] for r in one]), 1, "some"),
        at_least("PFC pauses, 8 QPs, mean", _mean([r["totals"]["pfc_pauses"] for r in many]), 1, "some"),
        at_least(
            "MRC's victim over the better of the two", mrc / max(1 - one_loss, 1 - many_loss), 1, "1.08"
        ),
        shown("1 QP: bottleneck busy", _bottleneck(one, solo), "0.98"),
        shown("8 QPs: bottleneck busy", _bottleneck(many, many_solo), "0.98"),
    ]
    changes = f"{0 - round(100 * one_loss)} % (1 QP), {0 - round(100 * many_loss)} % (8 QPs)"
    ours = f"victim {changes}, worst of 8 QPs {100 * many_worst:.0f} % of solo"
    series = {"dcqcn1": list(one[0]["victim_series"]), "dcqcn8": list(many[0]["victim_series"])}
    return Verdict(checks, ours, series=series)


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else float("nan")


STUDIES = (
    Study("R2", lambda effort: _cells(effort, ("mrc1", "mrc8")), judge_mrc),
    Study("R3", lambda effort: _cells(effort, ("pfc1", "pfc8")), judge_pfc),
    Study("R4", lambda effort: _cells(effort, ("dcqcn1", "dcqcn8", "mrc1")), judge_dcqcn),
)
