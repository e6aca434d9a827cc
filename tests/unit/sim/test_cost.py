"""What incidents cost, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.sim.outcomes import fault, outcome, workload

from softmrc.errors import UsageError
from softmrc.sim.result import Rates, Result
from softmrc.sim.result.cost import baseline, of_incidents
from softmrc.sim.result.curve import RateCurve, from_samples, from_steps
from softmrc.sim.result.incidents import conditions, incidents

SECOND = 1_000_000_000


def curve(*rates: float) -> RateCurve:
    """One bin a second."""
    return RateCurve(np.arange(len(rates) + 1, dtype=np.int64) * SECOND, np.array(rates, np.float64), "Gb/s")


def test_money_by_hand() -> None:
    # Half the rate for two seconds is one second of 3,600 GPUs: one GPU-hour.
    found = incidents([fault(2 * SECOND, "link_down", "a"), fault(4 * SECOND, "link_up", "a")], 6 * SECOND)
    rates = Rates(gpus=3_600, usd_per_gpu_hour=2.0, kw_per_gpu=1.0, pue=1.5, usd_per_kwh=0.1)
    section = of_incidents(curve(10, 10, 5, 5, 10, 10), found, rates, hosts=8)
    assert section["baseline"] == 10
    (row,) = section["incidents"]
    assert row["lost_s"] == 1
    assert (row["gpu_hours"], row["usd"]) == (1, 2)
    assert (row["energy_kwh"], row["energy_usd"]) == (1.5, 0.15)
    assert (row["recovered"], row["worst_rate"]) == (True, 5)
    assert section["total"]["usd"] == 2


def test_a_slow_recovery_counts_until_the_rate_is_back() -> None:
    found = incidents([fault(2 * SECOND, "port_down", "h3"), fault(3 * SECOND, "port_up", "h3")], 8 * SECOND)
    section = of_incidents(curve(10, 10, 0, 5, 9, 10, 10, 10), found, Rates(gpus=1), hosts=1)
    (row,) = section["incidents"]
    assert row["lost_s"] == pytest.approx(1 + 0.5 + 0.1)
    assert row["window_ns"] == [2 * SECOND, 5 * SECOND]


def test_what_nobody_repairs_costs_to_the_end() -> None:
    found = incidents([fault(1 * SECOND, "switch_down", "p1.t1-0")], 4 * SECOND)
    assert found[0].repaired_ns is None
    (row,) = of_incidents(curve(10, 9, 9, 9), found, Rates(), hosts=4)["incidents"]
    assert row["lost_s"] == pytest.approx(0.3)
    assert row["recovered"] is False


def test_two_incidents_share_no_second() -> None:
    faults = [
        fault(SECOND + SECOND // 2, "link_down", "a"),
        fault(SECOND + 6 * SECOND // 10, "link_up", "a"),
        fault(SECOND + 7 * SECOND // 10, "link_down", "b"),
        fault(SECOND + 8 * SECOND // 10, "link_up", "b"),
    ]
    section = of_incidents(curve(10, 4, 10, 10), incidents(faults, 4 * SECOND), Rates(), hosts=1)
    assert len(section["incidents"]) == 2
    assert section["total"]["lost_s"] == pytest.approx(0.6)


def test_gaining_costs_nothing() -> None:
    found = incidents([fault(SECOND, "link_down", "a"), fault(2 * SECOND, "link_up", "a")], 3 * SECOND)
    assert of_incidents(curve(10, 12, 12), found, Rates(), hosts=1)["total"]["lost_s"] == 0


def test_flows_that_are_done_are_no_outage() -> None:
    # Half of the flows is done after 2 s; the other half goes on at full speed but for one second at half of it.
    times = np.arange(1, 6, dtype=np.int64) * SECOND
    counted = np.array([16, 16, 8, 4, 8], np.int64) * 1_000_000_000 // 8
    made = from_samples(times, counted, np.zeros(2, np.int64), np.array([2, 5]) * SECOND)
    found = incidents([fault(3 * SECOND, "link_down", "a"), fault(4 * SECOND, "link_up", "a")], 5 * SECOND)
    section = of_incidents(made, found, Rates(), hosts=2)
    assert section["baseline"] == 8
    assert section["total"]["lost_s"] == 0.25  # half the speed of half the flows for a second


def test_no_baseline_is_said_not_guessed() -> None:
    found = incidents([fault(10, "link_down", "a")], 2 * SECOND)
    section = of_incidents(curve(10, 10), found, Rates(), hosts=1)
    assert section["baseline"] is None
    assert "no whole sample" in section["note"]
    assert baseline(curve(0, 0, 5), []) is None


def test_overlapping_faults_are_one_incident() -> None:
    faults = [fault(10, "link_down", "a"), fault(20, "link_down", "b"), fault(30, "link_up", "a")]
    found = incidents([*faults, fault(40, "link_up", "b"), fault(50, "port_down", "h1")], 100)
    assert [(i.start_ns, i.repaired_ns) for i in found] == [(10, 40), (50, None)]
    assert found[0].faults == (("link_down", 2, ("a", "b")),)


def test_a_reboot_ends_by_itself_and_a_loss_by_the_next_level() -> None:
    faults = [
        fault(10, "switch_reboot", "p1.t1-3", 25),
        fault(60, "link_loss", "x", 0.1),
        fault(80, "link_loss", "x"),
    ]
    assert [(i.start_ns, i.repaired_ns) for i in incidents(faults, 100)] == [(10, 35), (60, 80)]


def test_what_is_broken_from_the_start_is_a_condition() -> None:
    faults = [fault(0, "link_down", f"p1.t0-{i}.t1-0") for i in range(9)] + [fault(500, "link_up", "other")]
    assert incidents(faults, 1_000) == []
    assert conditions(faults) == (("link_down", 9, tuple(f"p1.t0-{i}.t1-0" for i in range(4))),)


def test_curves() -> None:
    steps = from_steps(np.array([SECOND, 3 * SECOND, 3 * SECOND]), 0)
    assert steps.rates.tolist() == [1.0, 0.5]
    # Two flows; the second is done in the middle of the second interval, nothing is open in the fourth.
    done = np.array([300, 150])
    samples = from_samples(
        np.array([100, 200, 300, 400]), np.array([2_000, 1_500, 500, 0]), np.array([0, 0]), done
    )
    assert samples.rates.tolist() == [80.0, 80.0, 40.0]
    assert samples.weights is not None
    assert samples.weights.tolist() == [1.0, 0.75, 0.5]
    assert samples.touched(100, 101) == slice(1, 2)
    assert samples.touched(0, 200) == slice(0, 2)


def test_a_job_is_judged_by_its_steps() -> None:
    steps = [(str(i), [i]) for i in range(5)]
    work = workload(sends=[(0, 1, 1)] * 5, steps=steps)
    ends = [SECOND - 10, 2 * SECOND - 10, 4 * SECOND - 10, 5 * SECOND - 10, 6 * SECOND - 10]
    faults = [fault(2 * SECOND + 5, "port_down", "h0.p1"), fault(3 * SECOND, "port_up", "h0.p1")]
    made = Result(
        name="job",
        transport="mrc",
        settings={},
        workload=work,
        outcome=outcome(work, ends),
        faults=faults,
        rates=Rates(gpus=7_200, usd_per_gpu_hour=1.0),
    )
    cost = made.document()["cost"]
    assert cost["unit"] == "steps/s"
    assert cost["incidents"][0]["lost_s"] == 1  # the step of two seconds lost one
    assert cost["total"]["usd"] == 2


def test_without_samples_the_cost_is_unknown() -> None:
    work = workload(sends=[(0, 1, 1)])
    made = Result(
        name="x",
        transport="mrc",
        settings={},
        workload=work,
        outcome=outcome(work, [1_000]),
        faults=[fault(10, "link_down", "a")],
    )
    cost = made.document()["cost"]
    assert "[sample]" in cost["note"]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"gpu": 1}, "cost.gpu is unknown"),
        ({"gpus": 0}, "cost.gpus is 1 or more"),
        ({"gpus": 1.5}, "whole number"),
        ({"pue": 0.9}, "cost.pue is 1 or more"),
        ({"usd_per_kwh": "cheap"}, "is a number"),
        ({"usd_per_gpu_hour": float("nan")}, "0 or more"),
        ({"gpus_per_host": 0}, "more than 0"),
    ],
)
def test_rates_out_of_range(table: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Rates.from_table(table)


def test_defaults_name_their_sources() -> None:
    assert set(Rates().to_json()["sources"]) == {"usd_per_gpu_hour", "kw_per_gpu", "pue", "usd_per_kwh"}
    assert "pue" not in Rates.from_table({"pue": 1.1}).to_json()["sources"]
    assert Rates(gpus_per_host=4).of(3_600, hosts=2)["gpu_hours"] == 8
