from __future__ import annotations

import pytest

from softmrc.demo.plan import RECOVERY_S, RUN_MIN_S, Times, make_plan, plane_addresses


@pytest.mark.parametrize("seconds", [RUN_MIN_S, 5.0, 6.0, 30.0])
def test_everything_fits_into_a_run(seconds):
    t = Times.of(seconds)
    assert 0 < t.cut < t.heal < t.lossy < t.black < t.black_end <= t.lossy_end < t.end
    assert t.heal + RECOVERY_S + 0.2 < t.end
    assert t.heal - t.cut >= 0.8
    assert t.black_end - t.black >= 0.3


@pytest.mark.parametrize("seed", range(50))
def test_harm_hits_three_planes(seed):
    plan = make_plan(seed, 8, 16, 6.0, ipv6=True)
    h = plan.harm
    assert len({h.cut_plane, h.lossy_plane, h.black_plane}) == 3
    assert plan == make_plan(seed, 8, 16, 6.0, ipv6=True)
    assert plan.pinned_addresses() == (plan.addresses[h.cut_plane - 1],)


def test_addresses():
    assert plane_addresses(3, ipv6=True) == ("127.0.0.1", "127.0.0.2", "::1")
    assert plane_addresses(3, ipv6=False) == ("127.0.0.1", "127.0.0.2", "127.0.0.3")
