"""Plans, rows, offers and reports: own mistakes are usage errors, those of the peer are refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softmrc.errors import PeerError, UsageError
from softmrc.perf import Local, Plan, Row, region_for
from softmrc.perf.agree import agree_pmtu, read_pairs
from softmrc.perf.offer import PerfOffer
from softmrc.perf.plan import MAX_REGION
from softmrc.perf.result import MAX_BINS, bins_for_peer, jain, read_report

PLAN = Plan(size=4096, region=65536, qps=2, depth=16).to_json()
PLANE = {"number": 1, "address": "10.0.0.1", "udp_port": 4791, "mtu": 9000, "rcvbuf": 1 << 20}
OFFER = {
    "planes": [PLANE], "qps": [[17, 5], [18, 6]], "addr": 4096, "rkey": 7, "length": 65536, "pmtu": 8960, "mpr_dest": 8,
    "host": "x",
}  # fmt: skip
REPORT = dict.fromkeys(
    ("bytes", "messages", "ns", "cpu_process_us", "cpu_host_us", "rtx", "qp_errors", "assumed_bad", "not_good",
     "local_rx_drops", "errors"), 1
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "wrong",
    [
        {"op": "read"}, {"qps": 0}, {"qps": 2049}, {"depth": 0}, {"depth": 8193}, {"size": 0},
        {"region": MAX_REGION + 1}, {"size": 8192, "region": 4096}, {"qps": 2048, "depth": 129},
        {"op": "lat", "qps": 2}, {"op": "lat", "both": True},
        {"op": "idle", "both": True}, {"ev_run": 4097}, {"ev_run": -1},
    ],
)  # fmt: skip
def test_a_plan_that_cannot_be(wrong):
    with pytest.raises(UsageError):
        Plan(**wrong)
    with pytest.raises(PeerError, match="impossible"):
        Plan.from_json({**Plan().to_json(), **wrong})


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": 0}, {"size": MAX_REGION + 1}, {"iters": -1}, {"duration": -1.0}, {"duration": 1e9},
        {"duration": float("nan")}, {"iters": 0},
    ],
)  # fmt: skip
def test_a_row_that_cannot_be(wrong):
    with pytest.raises(UsageError):
        Row(**{"size": 8, **wrong})


@pytest.mark.parametrize(
    "wrong", [{"evs": 0}, {"spin_us": -1}, {"progress": "x"}, {"batching": "x"}, {"pmtu": 100}]
)
def test_a_local_wish_that_cannot_be(wrong):
    with pytest.raises(UsageError):
        Local(planes=("127.0.0.1",), **wrong)


def test_plans_and_rows_survive_the_channel():
    plan = Plan.from_json(PLAN)
    assert plan.to_json() == PLAN
    row = Row(size=4096, iters=3, duration=1.5)
    assert Row.from_json(row.to_json(), plan) == row
    with pytest.raises(PeerError):
        Row.from_json(Row(size=4097, iters=1).to_json(), plan)


def test_regions():
    assert region_for(8, 1, None) == 4096
    assert region_for(1 << 20, 4, None) == 4 << 20
    assert region_for(1 << 20, 4096, None) == 64 << 20
    assert region_for(128 << 20, 4, None) == 128 << 20
    assert region_for(1 << 20, 1, 4096) == 1 << 20


@given(JSON, st.sampled_from(sorted(PLAN)))
def test_hostile_plans_are_refused_or_sound(junk, field):
    for data in (junk, {**PLAN, field: junk}):
        try:
            plan = Plan.from_json(data)
        except PeerError:
            continue
        assert plan.region <= MAX_REGION
        assert plan.qps * plan.depth <= 1 << 18


@given(JSON, st.sampled_from(sorted(OFFER)), st.sampled_from(sorted(PLANE)))
def test_hostile_offers_are_refused_or_sound(junk, field, inner):
    for data in (
        junk,
        {**OFFER, field: junk},
        {**OFFER, "planes": [{**PLANE, inner: junk}]},
        {**OFFER, "qps": [junk, junk]},
    ):
        try:
            offer = PerfOffer.from_json(data, 2)
        except PeerError:
            continue
        assert len(offer.qps) == 2
        assert 1 <= offer.length <= MAX_REGION


def test_offers_survive_the_channel():
    offer = PerfOffer.from_json(OFFER, 2)
    assert PerfOffer.from_json(json.loads(json.dumps(offer.to_json())), 2) == offer
    for wrong in ({"planes": [PLANE, PLANE]}, {"planes": []}, {"qps": [[17, 5]]}, {"qps": [[17, 5], [1, 1]]}):
        with pytest.raises(PeerError):
            PerfOffer.from_json({**OFFER, **wrong}, 2)


@pytest.mark.parametrize(
    ("address", "mtu", "wanted", "agreed"),
    [
        ("10.0.0.1", 9000, 8960, 8896), ("fd00::1", 1500, 8960, 1408), ("10.0.0.1", 65536, 8960, 8960),
        ("fd00::1", 9000, 4096, 4096), ("fd00::1", 0, 8960, 1408), ("10.0.0.1", 1500, 1000, 960),
    ],
)  # fmt: skip
def test_pmtu(address, mtu, wanted, agreed):
    plane = {**PLANE, "address": address, "mtu": mtu}
    ours = PerfOffer.from_json({**OFFER, "planes": [plane]}, 2)
    theirs = PerfOffer.from_json({**OFFER, "planes": [plane], "pmtu": wanted}, 2)
    assert agree_pmtu(ours, theirs, [(1, 1)], {1: mtu or 1500}) == agreed
    assert agree_pmtu(theirs, ours, [(1, 1)], {1: mtu or 1500}) == agreed
    assert agree_pmtu(ours, theirs, [(1, 1)], {1: 1000}) == min(agreed, 896)


def test_pairs_a_client_may_choose():
    two = {**OFFER, "planes": [PLANE, {**PLANE, "number": 2}, {**PLANE, "number": 3, "address": "fd00::1"}]}
    offer = PerfOffer.from_json(two, 2)
    assert read_pairs([[1, 2], [3, 3]], offer, offer) == [(1, 2), (3, 3)]
    for wrong in (
        None,
        [],
        [1],
        [[1]],
        [[1, 2, 3]],
        [["1", 2]],
        [[True, 1]],
        [[1, 1], [1, 2]],
        [[1, 4]],
        [[1, 3]],
    ):
        with pytest.raises(PeerError):
            read_pairs(wrong, offer, offer)


def test_pmtu_too_small():
    offer = PerfOffer.from_json({**OFFER, "planes": [{**PLANE, "mtu": 300}]}, 2)
    with pytest.raises(PeerError, match="256 are needed"):
        agree_pmtu(offer, offer, [(1, 1)], {1: 300})


@given(JSON, st.sampled_from(sorted(REPORT)), st.sampled_from(["start_ns", "width_ns", "bytes", "rest"]))
def test_hostile_reports_are_refused_or_sound(junk, field, inner):
    bins = {"start_ns": 1, "width_ns": 1, "bytes": [1], "rest": 0}
    for data in (
        {**REPORT, field: junk},
        {**REPORT, "arrived": junk},
        {**REPORT, "arrived": {**bins, inner: junk}},
    ):
        try:
            report = read_report(data)
        except PeerError:
            continue
        assert report["bytes"] >= 0
        assert report["arrived"] is None or len(report["arrived"]["bytes"]) <= MAX_BINS


@given(st.integers(0, 3 * MAX_BINS + 5))
def test_bins_fit_into_a_message_and_add_up(count):
    made = bins_for_peer({"start_ns": 5, "width_ns": 100, "bytes": list(range(count)), "rest": 7})
    assert len(made["bytes"]) <= MAX_BINS
    assert sum(made["bytes"]) + made["rest"] == sum(range(count)) + 7
    assert read_report({**REPORT, "arrived": made})["arrived"] == made


def test_depth_follows_size():
    plan = Plan(depth=128, size=1 << 23, region=1 << 23)
    assert [plan.depth_for(n) for n in (1, 1 << 19, 1 << 20, 1 << 23, 1 << 30)] == [128, 128, 64, 8, 2]
    assert Plan(depth=1).depth_for(1 << 30) == 1
    many = Plan(depth=128, qps=1024, size=1 << 23, region=1 << 23)
    assert [many.depth_for(n) for n in (1, 512, 4096, 1 << 16, 1 << 23)] == [128, 128, 16, 1, 1]


def test_jain():
    assert jain([5, 5, 5]) == pytest.approx(1.0)
    assert jain([9, 0, 0]) == pytest.approx(1 / 3)
    assert jain([0, 0]) == 1.0
