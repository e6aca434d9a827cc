"""Criteria on hand-made measurements: the paper's own values meet them, what they exclude does not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from softmrc.paper import arithmetic, classify, digitised, incast, job, permutation, planes, ports, ramp
from softmrc.paper.events import ASSUMED_BAD, GOOD, EvChanges
from softmrc.paper.params import QUICK


def missed(verdict):
    return [check.name for check in verdict.missed()]


def victim(rate: float, flows: list[float], worst: float | None = None, **more):
    series = [rate] * 40
    series[8:16] = [rate if worst is None else worst] * 8
    return {"place": "shared", "victim": rate, "incast": flows, "victim_series": series,
            "totals": {"pfc_pauses": 5}, **more}  # fmt: skip


def test_r2_takes_the_papers_values_and_no_worse():
    runs = {}
    for name in ("mrc1", "mrc8"):
        for place in ("shared", "apart"):
            runs[f"incast/{name}/{place}/1"] = victim(388.9, [55.4] * 7, 386)
        runs[f"incast/{name}/solo"] = {"victim": 390.0}
    assert missed(incast.judge_mrc(QUICK, runs)) == []
    runs["incast/mrc1/shared/1"] = victim(388.9, [55.4] * 7, 370)
    assert missed(incast.judge_mrc(QUICK, runs)) == ["mrc1: victim of solo, worst window"]
    runs["incast/mrc1/shared/1"] = victim(388.9, [37, 80, 55, 55, 55, 55, 50])
    assert missed(incast.judge_mrc(QUICK, runs)) == ["mrc1: Jain of the incast"]


def test_r3_formula_of_the_shared_spine():
    # h4, h5, h6 | h8, h9 | h12, h13 on spines 0, 1, 2 | 1, 3 | 2, 3; the victim (rack 3) is on spine 1 with h5 and h8.
    lone = {"spine": [1, 0, 1, 2, 1, 3, 2, 3]}
    _, n, exact = incast._share(victim(50, [50] * 7, **lone))
    assert (n, exact) == (2, True)
    # Both flows of its spine from one rack, or one from its own: the formula does not hold.
    assert incast._share(victim(50, [50] * 7, spine=[0, 0, 0, 1, 2, 3, 1, 2]))[1:] == (2, False)
    assert incast._share(victim(50, [50] * 7, spine=[0, 0, 1, 2, 3, 1, 0, 2]))[1:] == (2, False)
    assert incast._share(victim(390, [50] * 7, spine=[0, 1, 1, 2, 3, 1, 1, 2]))[1] == 0


def test_r3_takes_the_papers_values():
    runs = {}
    for place in ("shared", "apart"):
        runs[f"incast/pfc1/{place}/1"] = victim(97, [49] * 6 + [97], spine=[0, 0, 1, 2, 3, 1, 2, 3])
        runs[f"incast/pfc8/{place}/1"] = victim(26, [55.6] * 7)
    runs |= {"incast/pfc1/solo": {"victim": 390.0}, "incast/pfc8/solo": {"victim": 390.0}}
    assert missed(incast.judge_pfc(QUICK, runs)) == []
    runs["incast/pfc8/shared/1"] = victim(200, [55.6] * 7)
    assert missed(incast.judge_pfc(QUICK, runs)) == ["8 QPs: victim, of 400"]


def test_r5_takes_the_papers_flows():
    runs = {}
    for name in permutation.NAMES:
        runs[f"permutation/{name}/solo"] = {"rates": [392.0]}
        flows = digitised.FIG20_FLOWS.get(name, (392,) * 8)
        runs[f"permutation/{name}/1"] = {"rates": sorted(flows)}
    assert missed(permutation.judge(QUICK, runs)) == []
    runs["permutation/mrc1/1"] = {"rates": [370.0] + [390.0] * 7}
    assert missed(permutation.judge(QUICK, runs)) == ["MRC 1 QP: slowest flow of line"]


def test_r8_takes_the_papers_plateaus():
    up = [*range(8, 0, -1), *range(2, 9)]
    plateaus = [digitised.FIG9A_GBPS.get(n, 190.0) for n in up]
    totals = {"qp_errors": 0}
    runs = {
        "ports/steps/1": {"plateaus": plateaus, "gaps_ns": [0.0] * 14, "series": [], "totals": totals},
        "ports/four/1": {"plateaus": [1532, 761, 1538], "gaps_ns": [0.0] * 2, "series": [], "totals": totals},
    }
    assert missed(ports.judge_ports(QUICK, runs)) == []
    runs["ports/steps/1"]["gaps_ns"][2] = 1e6
    assert missed(ports.judge_ports(QUICK, runs)) == ["longest gap after a failure, us"]


def test_r15_decay():
    assert ramp.decay([0, 1000, 100, 10, 1, 1, 1, 1]) == 1000
    assert ramp.decay([5, 5, 5, 5]) == 1
    assert math.isinf(ramp.decay([5, 0, 0, 0]))
    assert ramp.decay([0, 0, 0, 0]) == 1


def test_job_rates_count_parts_of_steps():
    found = {"ends_ns": [100, 200, 400, 500]}
    assert job.rates(found, [0, 200, 300, 400]) == pytest.approx([0.01, 0.005, 0.005])


def test_r21_wants_equal_planes():
    runs = {}
    for ablation, cross, gone in ((False, 1.0, 0.75), (True, 1.4, 0.95)):
        runs[f"cross/0/{ablation}"] = {"rates": [776.0]}
        for x in planes.CROSS:
            runs[f"cross/{x:g}/{ablation}"] = {"rates": [8 * (97 - x) * cross, x]}
        for n in (0, *planes.MISSING):
            share = 1.0 if not n else gone if n == 1 else gone - 0.25
            runs[f"missing/{n}/{ablation}"] = {"rates": [776.0 * share] * 4}
    assert missed(planes.judge(QUICK, runs)) == []
    runs["missing/1/False"] = {"rates": [776.0 * 0.88] * 4}
    assert missed(planes.judge(QUICK, runs)) == ["1 of 4 uplinks gone: of line"]


def test_r23_blames_no_trim():
    totals = {"trims": 9, "trims_last_hop": 9, "ev_bad": 0, "drops_queue": 0}
    runs = {"trimming/fabric": {"totals": dict(totals)}, "trimming/last hop": {"totals": dict(totals)},
            "dead-t1/1": {"last_us": 30, "first_bad_us": 30, "demoted": 1}}  # fmt: skip
    assert missed(classify.judge(QUICK, runs)) == []
    runs["trimming/last hop"]["totals"]["ev_bad"] = 1
    runs["dead-t1/1"]["last_us"] = 80
    assert len(missed(classify.judge(QUICK, runs))) == 2


def test_r20_fits():
    fit = arithmetic.fit_send_recv()
    assert 740 < fit["bw"] < 780
    assert fit["worst"] < 0.05


def test_ev_changes():
    def column(values, dtype):
        return np.array(values, dtype=dtype)

    changes = EvChanges(
        {
            "at_ns": column([10, 20, 500, 900], np.int64),
            "host": column([0, 1, 0, 0], np.uint32),
            "peer": column([1, 0, 1, 1], np.uint32),
            "qp": column([0, 0, 0, 0], np.uint32),
            "plane": column([1, 2, 1, 1], np.uint8),
            "tag": column([7, 7, 7, 8], np.uint32),
            "state": column([ASSUMED_BAD, ASSUMED_BAD, GOOD, ASSUMED_BAD], np.uint8),
        }
    )
    assert changes.when(state=ASSUMED_BAD, host=0) == [10, 900]
    assert changes.when(state=ASSUMED_BAD, plane=2) == [20]
    assert changes.distinct(state=ASSUMED_BAD, host=0) == {(0, 1, 0, 1, 7), (0, 1, 0, 1, 8)}
    assert changes.shortest_absence_ns() == 490
