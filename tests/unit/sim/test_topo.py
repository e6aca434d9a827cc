"""The formulae of the paper's section 2 and figure 1 (R1), and what lies around them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from softmrc.errors import UsageError
from softmrc.topology import ClosPlan, Power, compare

PAPER = ClosPlan(asic_gbps=51_200, nic_gbps=800, planes=8, tiers=2)
THREE = ClosPlan(asic_gbps=51_200, nic_gbps=800, planes=1, tiers=3)


def test_two_tiers_of_eight_planes() -> None:
    assert (PAPER.radix, PAPER.nics, PAPER.t0, PAPER.t1, PAPER.t2) == (512, 131_072, 512, 256, 0)
    assert PAPER.switches == 6_144
    assert PAPER.port_gbps == 100
    assert (PAPER.longest_path, PAPER.nics_one_hop) == (3, 256)


def test_three_tiers_of_one_plane() -> None:
    assert (THREE.radix, THREE.nics, THREE.switches) == (64, 65_536, 5_120)
    assert THREE.switches_by_tier == (2_048, 2_048, 1_024)
    assert (THREE.longest_path, THREE.nics_one_hop) == (5, 32)


@pytest.mark.parametrize(
    ("planes", "radix", "nics", "t0", "t1", "switches"),
    [(8, 512, 131_072, 512, 256, 6_144), (4, 256, 32_768, 256, 128, 1_536), (1, 64, 2_048, 64, 32, 96)],
)
def test_the_table_of_two_tier_fabrics(
    planes: int, radix: int, nics: int, t0: int, t1: int, switches: int
) -> None:
    plan = ClosPlan(planes=planes, tiers=2)
    assert (plan.radix, plan.nics, plan.t0, plan.t1, plan.switches) == (radix, nics, t0, t1, switches)
    assert Fraction(plan.switches, plan.nics) == Fraction(3, 64)


def test_ratios_of_the_paper() -> None:
    ratio = compare(PAPER, THREE)["ratio"]
    assert ratio["switches_per_nic"] == pytest.approx(3 / 5, abs=1e-12)
    assert ratio["optics_per_nic"] == 2 / 3
    assert ratio["nics"] == 2


def test_capacity_lost() -> None:
    assert round(100 * PAPER.loss_fabric_link_in_plane, 1) == 0.4
    assert round(100 * THREE.loss_fabric_link_in_plane) == 3
    assert PAPER.loss_nic_link == 0.125
    assert ClosPlan(planes=4).loss_nic_link == 0.25
    assert THREE.loss_nic_link == 1.0
    assert PAPER.loss_fabric_link_free_planes == 1 / 2_048
    assert PAPER.loss_fabric_link_equal_planes == 1 / 256


def test_share_of_qps_on_one_t1() -> None:
    assert ClosPlan(planes=4, evs=128).qp_share_of_t1 == 0.25  # figure 8: about a quarter
    assert PAPER.qp_share_of_t1 == 0.0625
    assert ClosPlan(planes=8, evs=256).qp_share_of_t1 == 0.125
    assert ClosPlan(planes=1, evs=4_096).qp_share_of_t1 == 1.0


def test_one_and_four_tiers() -> None:
    one = ClosPlan(planes=1, tiers=1)
    assert (one.nics, one.switches, one.uplinks, one.longest_path) == (64, 1, 0, 1)
    four = ClosPlan(planes=1, tiers=4)
    assert (four.nics, four.longest_path) == (2 * 32**4, 7)
    assert four.nics > 100_000


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"planes": 0}, "planes is 1 to 64"),
        ({"tiers": 5}, "tiers is 1 to 4"),
        ({"nic_gbps": 700}, "even, whole number"),
        ({"asic_gbps": 2_400, "nic_gbps": 800, "planes": 1}, "even, whole number"),
    ],
)
def test_impossible_fabrics_are_refused(wrong: dict[str, int], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ClosPlan(**wrong)


def test_power_by_hand() -> None:
    # 64 NICs of 800 Gb/s on one switch: two ends each, one module of 800 Gb/s an end.
    plan = ClosPlan(planes=1, tiers=1)
    watts = Power(optic_w=10, switch_w=1_000).describe(plan)
    assert watts["optical_modules"] == 128
    assert watts["fabric_kw"] == pytest.approx(2.28)
    assert watts["fabric_w_per_nic"] == pytest.approx(2_280 / 64)
    copper = Power(optic_w=10, switch_w=1_000, copper_to_nic=True).describe(plan)
    assert copper["optical_modules"] == 0
    with pytest.raises(UsageError, match="watts"):
        Power(optic_w=-1)


def test_describe_is_complete() -> None:
    figures = PAPER.describe()
    assert figures["switches_by_tier"] == [512, 256]
    assert {"nics", "loss_nic_link", "qp_share_of_t1", "asic_gbps"} <= set(figures)
