"""Rates under hashing, by hand."""

from __future__ import annotations

import statistics

import pytest

from softmrc.paper.hashing import fullest_link, max_min, permutation_means


def test_a_link_with_twelve_of_eight_qps_leaves_two_thirds():
    # Three flows put four of their eight QPs each on one link: 8 / 12 each; a fourth flow uses it with none.
    flows = [{"hot": 4 / 8, f"own{i}": 4 / 8} for i in range(3)] + [{"other": 1.0}]
    assert max_min(flows) == pytest.approx([2 / 3, 2 / 3, 2 / 3, 1])


def test_what_a_slow_flow_leaves_goes_to_others():
    # Two flows share "a" (1/2 each) with one that "b" holds at 1/4: 3/8 each.
    flows = [{"a": 1.0}, {"a": 1.0}, {"a": 1.0, "b": 4.0}]
    assert max_min(flows) == pytest.approx([3 / 8, 3 / 8, 1 / 4])


def test_one_qp_of_the_permutation_is_the_published_theory():
    # paper-like fabric: 59 % mean, sd 10 %.
    means = permutation_means(1, 400, in_step=True)
    assert statistics.fmean(means) == pytest.approx(0.59, abs=0.02)
    assert statistics.stdev(means) == pytest.approx(0.10, abs=0.015)


def test_eight_qps_are_faster_on_their_own_than_in_step():
    in_step = permutation_means(8, 100, in_step=True)
    alone = permutation_means(8, 20, in_step=False)
    assert statistics.fmean(in_step) == pytest.approx(0.72, abs=0.03)
    assert statistics.fmean(alone) == pytest.approx(0.95, abs=0.02)


def test_the_fullest_link_of_a_ring():
    assert fullest_link(1, 1, hosts=1, per_rack=1) == 1
    # One flow a host: the fullest of 64 uplinks carries three or four.
    assert fullest_link(1, 300) == pytest.approx(0.29, abs=0.02)
    assert fullest_link(8, 300) < fullest_link(128, 300)
