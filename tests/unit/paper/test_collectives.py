"""R9, R10 and R14 on hand-made measurements, and what a measurement of a ring counts."""

from __future__ import annotations

import pytest

from softmrc.paper import collectives, gains
from softmrc.paper.collectives import LONE, OTHER, REPAIR, collective
from softmrc.paper.params import PARAMS, QUICK


def missed(verdict):
    return [check.name for check in verdict.missed()]


def ring(name, mb, loss, steps, gbps, repair=REPAIR):
    return {f"ring/{name}/{mb}/{loss:g}/{steps}/{repair}/1": {"gbps": gbps}}


def test_r9_takes_the_papers_values_and_no_worse():
    runs = {}
    for mb, rates in ((2, (24, 23, 23, 23)), (16, (104, 102, 96, 96)), (256, (380, 221, 350, 366))):
        for name, gbps in zip(("mrc1", "dcqcn1", "dcqcn8", "dcqcn16"), rates, strict=True):
            runs |= ring(name, mb, 0, dict(QUICK.ring)[mb], gbps)
    verdict = collectives.judge_ring(QUICK, runs)
    assert missed(verdict) == []
    bounds = [check.ours for check in verdict.checks if "even hashing" in check.name]
    # 4,096 of 4,198 wire bytes are payload; the fullest link of 8, 64 and 128 QPs a host leaves 0.54, 0.78, 0.83.
    assert bounds == pytest.approx([0.53, 0.76, 0.81], abs=0.015)
    runs |= ring("dcqcn16", 256, 0, 120, 290)
    assert missed(collectives.judge_ring(QUICK, runs)) == ["RoCE 16 QPs, of line", "MRC over RoCE 16 QPs"]


def test_r10_shows_one_qp_a_pair():
    cells = {cell.key: dict(cell.args) for cell in collectives._loss_cells(QUICK)}
    alone = [args for args in cells.values() if args["repair"] == LONE]
    assert sorted(args["loss"] for args in alone) == [0, 0.001, 0.01]
    runs = {key: {"gbps": 400.0 * (1 - 20 * args["loss"]) if args["transport"] == "mrc1" else 20.0}
            for key, args in cells.items()}  # fmt: skip
    verdict = collectives.judge_loss(QUICK, runs)
    kept = {
        check.name: check.ours
        for check in verdict.checks
        if "MRC keeps" in check.name and "one QP" in check.name
    }
    assert list(kept.values()) == pytest.approx([0.98, 0.8])
    assert OTHER != REPAIR


def test_a_ring_counts_its_second_half():
    # 128 KiB a host and step: one ring, one QP. Steps are alike and nothing is lost, so both halves take as long.
    args = {"kind": "ring", "transport": "mrc1", "mb": 8, "loss": 0.0, "seed": 1, "repair": REPAIR}
    few, more = collective(steps=4, **args), collective(steps=8, **args)
    assert few["totals"]["data_packets"] * 2 == more["totals"]["data_packets"]
    assert few["gbps"] == pytest.approx(more["gbps"], rel=0.1)
    assert few["gbps"] < PARAMS.mtu / (PARAMS.mtu + 102) * 400


def test_r14_takes_the_papers_values():
    def run(gbps, queue, pauses=0):
        return {"gbps": gbps, "queue": queue, "totals": {"pfc_pauses": pauses}}

    flat = [390.0] * gains.FLOWS
    growing = [4e3, 3e6, 3.5e6] + [4e6] * 7 + [22e6] * 5
    runs = {
        "gains/default": run(flat, growing, 9),
        "gains/aggressive": run([390.0, *[351.0] * 14], flat),
        "gains/most": run([390.0, *[312.0] * 14], flat),
        "gains/mrc": run([389.0] * 15, [9e5] * 15),
    }
    assert missed(gains.judge(QUICK, runs)) == []
    runs["gains/aggressive"] = run([390.0, *[280.0] * 14], flat)
    assert missed(gains.judge(QUICK, runs)) == [
        "aggressive gains: throughput lost",
        "most aggressive gains: lost, over aggressive",
    ]
