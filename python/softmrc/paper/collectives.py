"""R9, R10, R11: ring all-reduce and all-to-all of 64 hosts, without and with random loss (Figs 16 and 17).

MRC: 4 planes x 100 Gb/s, 1 QP, 256 EVs. RoCE: one plane of 400 Gb/s, ECMP, PFC and DCQCN, 1, 8 or 16 QPs. Leaf-spine
of 8 x 8 x 8; the ring crosses leaves at every hop. Loss takes packets that arrive at a NIC, data and ACKs alike.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from softmrc.paper import fabrics
from softmrc.paper.cell import Cell, Measured
from softmrc.paper.check import Check, Verdict, at_least, at_most, between, shown
from softmrc.paper.flows import all_to_all, crossing_order, ring
from softmrc.paper.hashing import fullest_link
from softmrc.paper.params import PARAMS, Effort
from softmrc.paper.study import Study
from softmrc.sim.config import Fault, Mrc, Rocev2

__all__ = ["STUDIES", "collective"]

HOSTS = 64
MB = 1 << 20
LINE = fabrics.LINE_C_GBPS
COMPARED_MB = 256
"""Size at which both ways of repair are shown."""
REPAIR, OTHER = PARAMS.repairs
ROCE_HEADERS = 102
"""Wire bytes of a packet beside its payload: Ethernet, IPv6 and UDP 86, BTH 12, iCRC 4."""
DRAWS = 300
"""Of hashes, for what hashing alone leaves."""
LONE = "lone"
"""Repair by timers, one ring and so one QP a pair, with the API's example of MPR."""


def qps_of(transport: str) -> int:
    """Return the QPs a pair of a transport's short name."""
    return int(transport.lstrip("abcdefghijklmnopqrstuvwxyz"))


def channels_of(chunk: int, repair: str) -> int:
    """Return how many rings share a chunk."""
    return 1 if repair == LONE else max(1, min(PARAMS.channels, chunk // PARAMS.channel_bytes))


def collective(
    kind: str, transport: str, mb: int, loss: float, steps: int, seed: int, repair: str
) -> Measured:
    """Run a collective and return its bus bandwidth.

    Args:
        kind: "ring" (all-reduce) or "alltoall".
        transport: "mrc1", "dcqcn1", ... as in `fabrics.transport`.
        mb: Size as nccl-tests counts it, MiB.
        loss: Probability that a packet is lost as it arrives at a NIC.
        steps: Ring steps to run, of 126, which are alike. The first half warms up, as in nccl-tests, which runs a
            collective five times before it measures: DCQCN takes milliseconds to recover from a common start.
        seed: Of hashes, EVs and losses.
        repair: How losses are repaired: "timer" or "fast", see `Params.repairs`; or `LONE`.
    """
    is_mrc = transport.startswith("mrc")
    size, measured = mb * MB, steps - steps // 2
    rings = channels_of(size // HOSTS, repair) if kind == "ring" else 1
    qps = rings * qps_of(transport)
    choice: Mrc | Rocev2
    if is_mrc:
        mpr = PARAMS.mpr_published if repair == LONE else PARAMS.mpr
        choice = fabrics.mrc(qps=qps, evs=PARAMS.evs_collective, fast_loss=repair == "fast", mpr=mpr)
    else:
        choice = replace(fabrics.roce(qps, dcqcn=True), options={"heed_naks": repair == "fast"})
    if kind == "ring":
        work, rounds = ring(
            crossing_order(HOSTS, 8), size // HOSTS, (steps - measured, measured), qps_of(transport), rings,
            PARAMS.host_step_ns,
        )  # fmt: skip
    else:
        work = all_to_all(HOSTS, size, choice.qps)
        rounds = [np.arange(work.n)]
    faults = [Fault(0, "link_loss", f"h{h}", loss, "down") for h in range(HOSTS)] if loss else []
    found = fabrics.run(
        fabrics.cluster_c(4 if is_mrc else 1), work, choice, seed=seed, faults=faults, until_ns=60_000_000_000
    )
    if found.stopped != "done":
        raise RuntimeError(f"the collective did not end: stopped by {found.stopped} after {found.sim_ns} ns")
    ends = [float(found.tasks["delivered_ns"][ids].max()) for ids in rounds]
    moved = size / HOSTS * measured if kind == "ring" else size * (HOSTS - 1) / HOSTS
    took = ends[-1] - (ends[-2] if len(ends) > 1 else 0.0)
    return {
        "gbps": moved * 8 / took,
        "end_ns": ends[-1],
        "totals": {k: int(v) for k, v in found.totals.items()},
    }


def _packets(kind: str, mb: int, steps: int) -> float:
    """Return millions of packets."""
    share = steps if kind == "ring" else HOSTS - 1
    return mb * MB / HOSTS * share * HOSTS / PARAMS.mtu / 1e6


def _cell(kind: str, name: str, mb: int, loss: float, steps: int, seed: int, repair: str = REPAIR) -> Cell:
    key = f"{kind}/{name}/{mb}/{loss:g}/{steps}/{repair}/{seed}"
    cost = _packets(kind, mb, steps) * (1 + 20 * loss)
    return Cell.of(key, collective, cost, kind=kind, transport=name, mb=mb, loss=loss, steps=steps, seed=seed,
                   repair=repair)  # fmt: skip


def _mean(
    results: Mapping[str, Measured],
    kind: str,
    name: str,
    mb: int,
    loss: float,
    steps: int,
    repair: str = REPAIR,
) -> float:
    """Return the mean bus bandwidth over the seeds."""
    start = f"{kind}/{name}/{mb}/{loss:g}/{steps}/{repair}/"
    found = [float(r["gbps"]) for key, r in results.items() if key.startswith(start)]
    return statistics.fmean(found) if found else float("nan")


ROCE = ("dcqcn1", f"dcqcn{PARAMS.roce_qps_small}", f"dcqcn{PARAMS.roce_qps_large}")
ONE, EIGHT, SIXTEEN = ROCE
PLOT = (("mrc", "mrc1"), ("roce1", ONE), ("roce16", SIXTEEN))


def _ring_cells(effort: Effort) -> list[Cell]:
    cells = []
    largest = effort.ring[-1][0]
    for mb, steps in effort.ring:
        for name in ("mrc1", *ROCE):
            if name == EIGHT and mb != largest:
                continue
            # Hash collisions vary from seed to seed; MRC and small sizes hardly do.
            seeds = effort.seeds_dear if mb == largest and name != "mrc1" else 1
            cells += [_cell("ring", name, mb, 0, steps, seed) for seed in range(1, seeds + 1)]
    return cells


def judge_ring(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R9."""
    steps = dict(effort.ring)
    large = effort.ring[-1][0]

    def at(name: str, mb: int) -> float:
        return _mean(results, "ring", name, mb, 0, steps[mb])

    mrc, one, eight, sixteen = (at(name, large) for name in ("mrc1", *ROCE))
    payload = PARAMS.mtu / (PARAMS.mtu + ROCE_HEADERS)
    checks: list[Check] = [
        at_least(f"MRC at {large} MB, of line", mrc / LINE, 0.93, "0.95"),
        between("RoCE 1 QP, of line", one / LINE, 0.30, 0.65, "0.55"),
        between("RoCE 16 QPs, of line", sixteen / LINE, 0.85, 0.95, "0.91"),
        at_most("RoCE 16 QPs over 8", sixteen / eight, 1.2, "little"),
        at_least("MRC over RoCE 1 QP", mrc / one, 1.5, "1.7"),
        between("MRC over RoCE 16 QPs", mrc / sixteen, 1.0, 1.25, "1.04-1.25"),
    ]
    for name in ROCE:
        qps = qps_of(name)
        bound = fullest_link(channels_of(large * MB // HOSTS, REPAIR) * qps, DRAWS) * payload
        checks.append(shown(f"what even hashing leaves of line, {qps} QPs, equal bytes each", bound))
    for mb in (size for size in steps if size <= 16):
        values = [at(name, mb) for name in ("mrc1", ONE, SIXTEEN)]
        checks.append(
            at_most(f"{mb} MB: largest over smallest of the three", max(values) / min(values), 1.10, "1.08")
        )
    ours = f"{100 * mrc / LINE:.0f} / {100 * one / LINE:.0f} / {100 * sixteen / LINE:.0f} % of line"
    note = f"{PARAMS.channels} rings side by side; of the largest size {steps[large]} steps, half of them to warm up"
    series = {f"allreduce/{label}/0": [(mb, at(name, mb)) for mb in steps] for label, name in PLOT}
    return Verdict(checks, ours, note, series)


def _loss_cells(effort: Effort) -> list[Cell]:
    cells = []
    for mb, steps in effort.ring_loss:
        for loss in (0, 0.001, 0.01):
            for name in ("mrc1", ONE, SIXTEEN):
                cells.append(_cell("ring", name, mb, loss, steps, 1))
                if mb == COMPARED_MB:
                    cells.append(_cell("ring", name, mb, loss, steps, 1, OTHER))
    top, steps = effort.ring_loss[-1]
    cells += [_cell("ring", "mrc1", top, loss, steps, 1, LONE) for loss in (0, 0.001, 0.01)]
    mb, steps = effort.ring_largest
    return [*cells, *(_cell("ring", "mrc1", mb, loss, steps, 1) for loss in (0, 0.001))]


def judge_loss(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R10."""
    steps = dict(effort.ring_loss)

    def at(name: str, mb: int, loss: float, repair: str = REPAIR) -> float:
        return _mean(results, "ring", name, mb, loss, steps[mb], repair)

    def kept(name: str, mb: int, loss: float, repair: str = REPAIR) -> float:
        return at(name, mb, loss, repair) / at(name, mb, 0, repair)

    largest, largest_steps = effort.ring_largest
    at_largest = [_mean(results, "ring", "mrc1", largest, p, largest_steps) for p in (0.001, 0)]
    sizes = list(steps)
    top = sizes[-1]
    checks: list[Check] = [
        at_least("0.1 %: MRC keeps at 256 MB", kept("mrc1", COMPARED_MB, 0.001), 0.5, "0.48"),
        at_least(f"0.1 %: MRC keeps at {largest} MB", at_largest[0] / at_largest[1], 0.85, "0.89"),
        between(f"1 %: MRC keeps at {top} MB", kept("mrc1", top, 0.01), 0.2, 0.5, "0.28"),
    ]
    for mb in sizes:
        for loss, low in ((0.001, 2), (0.01, 5)):
            best = max(at(ONE, mb, loss), at(SIXTEEN, mb, loss))
            paper = "4.6+" if loss == 0.001 else "13+"
            checks.append(
                at_least(
                    f"{100 * loss:g} %, {mb} MB: MRC over the better RoCE",
                    at("mrc1", mb, loss) / best,
                    low,
                    paper,
                )
            )
        checks.append(
            at_most(f"0.1 %, {mb} MB: RoCE 16 QPs over 1", at(SIXTEEN, mb, 0.001) / at(ONE, mb, 0.001), 1.0)
        )
    for loss in (0.001, 0.01):
        for label, name in PLOT:
            text = f"fast repair, 256 MB, {100 * loss:g} %: {label} keeps"
            checks.append(shown(text, kept(name, COMPARED_MB, loss, OTHER)))
    heeded = at(SIXTEEN, COMPARED_MB, 0.001, OTHER) / at(ONE, COMPARED_MB, 0.001, OTHER)
    checks.append(shown("fast repair, 256 MB, 0.1 %: RoCE 16 QPs over 1", heeded))
    for loss, share, gbps in ((0.001, "0.58", "220"), (0.01, "0.28", "106; 146-151 from 2 GB on")):
        text = f"one QP a pair, MPR {128 * PARAMS.mpr_published:,}, {top} MB, {100 * loss:g} %: MRC"
        checks.append(shown(f"{text} keeps", kept("mrc1", top, loss, LONE), share))
        checks.append(shown(f"{text}, Gb/s", at("mrc1", top, loss, LONE), gbps))
    ours = (
        f"MRC keeps {kept('mrc1', 256, 0.001):.2f} (0.1 %, 256 MB), {at_largest[0] / at_largest[1]:.2f} (0.1 %, "
        f"{largest} MB), {kept('mrc1', top, 0.01):.2f} (1 %, {top} MB)"
    )
    timers = f"{PARAMS.loss_timer_ns / 1e3:g} us MRC, {PARAMS.roce_rto_ns / 1e6:g} ms RoCE"
    note = (
        f"{steps[top]} to {steps[sizes[0]]} of 126 steps, half to warm up; judged with losses repaired by timers only "
        f"({timers}), as the paper's curves imply; inferred losses and NAKs beside it"
    )
    series = {
        f"allreduce/{label}/{100 * loss:g}": [(mb, at(name, mb, loss)) for mb in steps]
        for label, name in PLOT
        for loss in (0.001, 0.01)
    }
    return Verdict(checks, ours, note, series)


def _alltoall_cells(effort: Effort) -> list[Cell]:
    return [
        _cell("alltoall", name, mb, loss, 1, 1)
        for mb in effort.alltoall_mb
        for loss in (0, 0.001, 0.01)
        for name in ("mrc1", ONE, SIXTEEN)
    ]


def judge_alltoall(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R11."""

    def at(name: str, mb: int, loss: float) -> float:
        return _mean(results, "alltoall", name, mb, loss, 1)

    small, large = effort.alltoall_mb[0], effort.alltoall_mb[-1]
    roce_kept = max(at(name, small, 0.001) / at(name, small, 0) for name in (ONE, SIXTEEN))
    best = max(at(ONE, large, 0.01), at(SIXTEEN, large, 0.01))
    checks = [
        between(
            f"no loss, {large} MB: MRC over RoCE 1 QP",
            at("mrc1", large, 0) / at(ONE, large, 0),
            1.05,
            1.2,
            "1.10",
        ),
        between(
            "no loss: MRC over RoCE 16 QPs", at("mrc1", large, 0) / at(SIXTEEN, large, 0), 1.1, 1.3, "1.22"
        ),
        at_least(
            f"0.1 %, {small} MB: MRC keeps", at("mrc1", small, 0.001) / at("mrc1", small, 0), 0.45, "0.54"
        ),
        at_most(f"0.1 %, {small} MB: RoCE keeps", roce_kept, 0.2, "0.08"),
        at_least(
            f"0.1 %, {large} MB: RoCE 1 QP keeps",
            at(ONE, large, 0.001) / at(ONE, large, 0),
            0.9,
            "0.99 at 16 GB",
        ),
        at_least(f"1 %, {large} MB: MRC over the better RoCE", at("mrc1", large, 0.01) / best, 1.5, "1.9"),
    ]
    ours = (
        f"MRC/RoCE {at('mrc1', large, 0) / at(ONE, large, 0):.2f} (1 QP), "
        f"{at('mrc1', large, 0) / at(SIXTEEN, large, 0):.2f} (16 QPs); 1 % loss {at('mrc1', large, 0.01) / best:.1f}x"
    )
    series = {
        f"alltoall/{label}/{100 * loss:g}": [(mb, at(name, mb, loss)) for mb in effort.alltoall_mb]
        for label, name in PLOT
        for loss in (0, 0.001, 0.01)
    }
    return Verdict(checks, ours, f"largest size run is {large} MB, the paper's is 16,384 MB", series)


STUDIES = (
    Study("R9", _ring_cells, judge_ring),
    Study("R10", _loss_cells, judge_loss),
    Study("R11", _alltoall_cells, judge_alltoall),
)
