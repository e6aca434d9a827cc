"""R1, R19, R20: the formulae of the fabric, the latency of two hops, and the fit of send/recv (Figs 1 and 15)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from softmrc.paper import digitised, fabrics
from softmrc.paper.cell import Cell, Measured
from softmrc.paper.check import Verdict, at_most, between, equal, shown
from softmrc.paper.flows import send
from softmrc.paper.params import Effort
from softmrc.paper.study import Study
from softmrc.sim.builder import Builder
from softmrc.topology import ClosPlan

__all__ = ["STUDIES", "fit_send_recv", "latency"]


def judge_size(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R1."""
    flat = ClosPlan(asic_gbps=51_200, nic_gbps=800, planes=8, tiers=2, evs=128)
    deep = ClosPlan(asic_gbps=51_200, nic_gbps=800, planes=1, tiers=3)
    cluster_a = ClosPlan(asic_gbps=51_200, nic_gbps=800, planes=4, tiers=2, evs=128)
    exact: list[tuple[str, float, float]] = [
        ("8 planes: radix", flat.radix, 512),
        ("8 planes: NICs", flat.nics, 131_072),
        ("8 planes: T0s a plane", flat.t0, 512),
        ("8 planes: T1s a plane", flat.t1, 256),
        ("8 planes: switches", flat.switches, 6144),
        ("8 planes: NICs one hop away", flat.nics_one_hop, 256),
        ("8 planes: switches on the longest path", flat.longest_path, 3),
        ("4 planes: NICs", cluster_a.nics, 32_768),
        ("4 planes: switches", cluster_a.switches, 1536),
        ("three tiers: NICs", deep.nics, 65_536),
        ("three tiers: switches", deep.switches, 5120),
        ("three tiers: switches on the longest path", deep.longest_path, 5),
        ("switches per NIC, 2 over 3 tiers", round(flat.switches_per_nic / deep.switches_per_nic, 12), 0.6),
        ("optics per NIC, 2 over 3 tiers", flat.optics_ends_per_nic / deep.optics_ends_per_nic, 4 / 6),
        ("one T0-T1 link, % of its plane", round(100 * flat.loss_fabric_link_in_plane, 1), 0.4),
        ("one T0-T1 link with three tiers, %", round(100 * deep.loss_fabric_link_in_plane), 3),
        ("one NIC-T0 link", flat.loss_nic_link, 0.125),
        ("share of QPs on one T1, 4 planes, 128 EVs", cluster_a.qp_share_of_t1, 0.25),
    ]
    verdict = Verdict([equal(name, got, want, f"{want:g}") for name, got, want in exact])
    verdict.ours = (
        f"{flat.nics:,} NICs; switches {flat.switches_per_nic / deep.switches_per_nic:.2f}, optics 0.67"
    )
    return verdict


def latency(seed: int) -> Measured:
    """Return one-way latency of a 2-byte message below a T0 and across a T1, in ns."""
    builder = Builder()
    tasks = [send(builder, 0, 1, 2), send(builder, 0, 2, 2, at_ns=1_000_000)]
    found = fabrics.run(
        fabrics.clos(4, 8, 2, 4), builder.build(), fabrics.mrc(), seed=seed, until_ns=3_000_000
    )
    took = [float(found.tasks["delivered_ns"][t] - found.tasks["posted_ns"][t]) for t in tasks]
    return {"local": took[0], "cross": took[1]}


def judge_latency(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R19."""
    local, cross = results["latency"]["local"], results["latency"]["cross"]
    checks = [
        between("cross-T1 minus T0-local, us", (cross - local) / 1e3, 1.45 * 0.98, 1.45 * 1.02, "1.45"),
        shown("T0-local, us (calibrated)", local / 1e3, "5.09"),
        shown("cross-T1, us (calibrated)", cross / 1e3, "6.54"),
    ]
    return Verdict(
        checks, f"{local / 1e3:.2f} and {cross / 1e3:.2f} us", "calibration of the model, not a result"
    )


def fit_send_recv() -> dict[str, Any]:
    """Fit S/(S/bw + t0) to the published points; S/rate is linear in S.

    Returns:
        "bw" in Gb/s, "t0" in us, and "worst", the largest relative error of the seven points.
    """
    size = np.array([mb * (1 << 20) * 8 for mb in digitised.FIG15_GBPS], dtype=np.float64)  # bits
    rate = np.array(list(digitised.FIG15_GBPS.values()), dtype=np.float64)  # Gb/s: bits a ns
    # Relative errors count: each equation is divided by its own time.
    time = size / rate
    matrix = np.stack([size / time, 1.0 / time], axis=1)
    (slope, t0), *_ = np.linalg.lstsq(matrix, np.ones(len(time)), rcond=None)
    fitted = size / (size * slope + t0)
    return {"bw": float(1 / slope), "t0": float(t0) / 1e3, "worst": float(np.max(np.abs(fitted / rate - 1)))}


def judge_send_recv(effort: Effort, results: Mapping[str, Measured]) -> Verdict:
    """Judge R20."""
    fit = fit_send_recv()
    checks = [
        at_most("largest error of the fit", fit["worst"], 0.05),
        shown("bw, Gb/s", fit["bw"], "750"),
        shown("t0, us", fit["t0"]),
    ]
    return Verdict(
        checks,
        f"bw {fit['bw']:.0f} Gb/s, t0 {fit['t0']:.0f} us",
        "a fit to the published points, no run of ours",
    )


STUDIES = (
    Study("R1", lambda effort: [], judge_size),
    Study("R19", lambda effort: [Cell.of("latency", latency, 0.01, seed=1)], judge_latency),
    Study("R20", lambda effort: [], judge_send_recv),
)
