"""Profiles, EV states, events and probes through the controller level (reference 12)."""

from __future__ import annotations

import errno
import itertools
import time
from collections.abc import Iterator

import pytest
from tests.unit.verbs.conftest import End, connect, open_end, wait_wcs, write

from softmrc import Endpoint, ctl
from softmrc.errors import UsageError, VerbsError
from softmrc.verbs import MrcQPAttr, QPState

__all__ = ["open_end"]

_names = (f"ctl-{n}" for n in itertools.count())


@pytest.fixture
def name() -> str:
    """A device nobody else uses: profiles outlive contexts."""
    return next(_names)


@pytest.fixture
def controller(name: str) -> Iterator[ctl.Controller]:
    with ctl.Controller(name) as c:
        yield c


def generated(c: ctl.Controller, profile_id: int = 13, count: int = 8) -> None:
    c.modify_ev_fmt_profile(
        profile_id, ctl.EvFmtProfile(mode=ctl.EvFmtMode.UDP, fields=[8, 8]), state="online"
    )
    fields = [ctl.EvField(8, min_val=0xC0, max_val=0xC7, mask=0xFF), ctl.EvField.variable(8)]
    c.modify_ev_profile(
        profile_id,
        ctl.EvProfile(fmt_id=profile_id, mode=ctl.EvMode.GEN, ev_count=count, min_active=2, fields=fields),
        state="online",
    )


@pytest.fixture
def ends(open_end: object, name: str) -> tuple[End, End]:
    return open_end("127.0.0.1", "127.0.0.2", name=name), open_end("127.0.0.3", "127.0.0.4")  # type: ignore[operator]


def test_the_sketch(controller: ctl.Controller) -> None:
    c = controller
    c.modify_ev_fmt_profile(13, ctl.EvFmtProfile(mode=ctl.EvFmtMode.STEV, fields=[8, 4, 4]), state="online")
    c.modify_ev_profile(
        13, ctl.EvProfile(fmt_id=13, mode=ctl.EvMode.GEN, ev_count=64, min_active=8), state="online"
    )
    c.modify_cc_profile(1, ctl.CcProfile("uet-1.0-nscc", target_delay_ns=6_000), state="online")
    c.set_ev_state(13, ev=0x1A2B, state=ctl.EvState.DENIED)
    assert c.query_ev_state(13, 0x1A2B) is ctl.EvState.DENIED
    assert c.query_ev_fmt_profile(13)["state"] == ctl.ProfileState.ONLINE
    assert c.query_ev_profile(13)["count"] == 64
    assert c.query_cc_profile(1)["algorithm"] == "uet-1.0-nscc"
    assert c.poll_ev_events(16) == []
    with pytest.raises(UsageError, match="16 bits"):
        c.set_ev_state(13, ev=1 << 16, state=ctl.EvState.DENIED)


def test_states_walk_one_step_at_a_time(controller: ctl.Controller) -> None:
    generated(controller)
    for target in ("offline", "online", "offline", "init"):
        controller.modify_ev_profile(13, state=target)
        assert controller.query_ev_profile(13)["state"] == ctl.ProfileState.of(target)
    with pytest.raises(VerbsError):
        controller.modify_ev_profile(13, state="online")  # INIT forgot everything
    controller.modify_ev_fmt_profile(13, state="init")
    generated(controller)
    with pytest.raises(VerbsError) as caught:
        controller.modify_ev_fmt_profile(13, state="offline")
    assert caught.value.errno == errno.EBUSY, "an ONLINE profile names it"
    with pytest.raises(UsageError):
        controller.modify_ev_profile(13, state="sleeping")
    with pytest.raises(VerbsError) as caught:
        controller.modify_cc_profile(5, ctl.CcProfile("no-such-algorithm"), state="online")
    assert caught.value.errno == errno.EINVAL


def test_a_queue_pair_needs_online_profiles(controller: ctl.Controller, ends: tuple[End, End]) -> None:
    a, _ = ends
    qp = a.qp()
    for attr in (MrcQPAttr(ev_profile_id=13), MrcQPAttr(cc_profile_id=1)):
        with pytest.raises(VerbsError) as caught:
            qp.to_init(None, attr)
        assert caught.value.errno == errno.EINVAL
    assert qp.qp_state is QPState.RESET
    controller.modify_cc_profile(1, ctl.CcProfile("fixed-window", max_cwnd=50_000), state="offline")
    with pytest.raises(VerbsError):
        qp.to_init(None, MrcQPAttr(cc_profile_id=1))


def test_profiles_reach_the_queue_pair(controller: ctl.Controller, ends: tuple[End, End]) -> None:
    a, b = ends
    generated(controller)
    controller.modify_cc_profile(1, ctl.CcProfile("fixed-window", max_cwnd=50_000), state="online")
    left, right = a.qp(), b.qp()
    connect(left, right, mrc=(MrcQPAttr(ev_profile_id=13, cc_profile_id=1), None))
    paths = left.path_stats()
    active = [p for p in paths if p["active"]]
    assert len(active) == 8
    assert sorted(p["plane"] for p in active) == [1] * 4 + [2] * 4
    assert all(0xC000 <= p["ev"] <= 0xC7FF for p in paths)
    write(left, a.mr, b.mr, 60_000)
    assert wait_wcs(a.cq, 1)[0].status == 0
    assert left.stats()["cwnd"] == 50_000
    assert controller.query_ev_profile(13)["users"] == controller.query_cc_profile(1)["users"] == 1
    _, mrc = left.query()
    assert (mrc.ev_profile_id, mrc.cc_profile_id) == (13, 1)
    for busy in (controller.modify_ev_profile, controller.modify_cc_profile):
        with pytest.raises(VerbsError) as caught:
            busy(13 if busy == controller.modify_ev_profile else 1, state="offline")
        assert caught.value.errno == errno.EBUSY
    left.close()
    controller.modify_ev_profile(13, state="init")
    controller.modify_cc_profile(1, state="init")


def test_auto_profiles_use_the_planes_own_evs(controller: ctl.Controller, ends: tuple[End, End]) -> None:
    a, b = ends
    controller.modify_ev_profile(2, ctl.EvProfile(mode=ctl.EvMode.AUTO, ev_count=6), state="online")
    left, right = a.qp(), b.qp()
    connect(left, right, mrc=(MrcQPAttr(ev_profile_id=2), None))
    active = [p for p in left.path_stats() if p["active"]]
    assert len(active) == 6
    own = {ev for plane in a.ctx.planes for ev in plane["evs"]}
    assert all(p["ev"] in own for p in active)


def test_denied_evs_are_left_at_once_and_stay_left(controller: ctl.Controller, ends: tuple[End, End]) -> None:
    a, b = ends
    generated(controller)
    first, second, peers = a.qp(), a.qp(), (b.qp(), b.qp())
    connect(first, peers[0], mrc=(MrcQPAttr(ev_profile_id=13), None))
    victim = next(p for p in first.path_stats() if p["active"])
    entry = ctl.EvEntry(victim["ev"].to_bytes(2, "big"), victim["plane"])
    controller.set_ev_state(13, entry, ctl.EvState.DENIED)
    write(first, a.mr, b.mr, 60_000)
    wait_wcs(a.cq, 1)
    row = next(p for p in first.path_stats() if p["ev"] == victim["ev"])
    assert (row["state"], row["sent"]) == ("denied", 0)
    connect(second, peers[1], mrc=(MrcQPAttr(ev_profile_id=13), None))
    later = [
        p["state"] for p in second.path_stats() if p["ev"] == victim["ev"] and p["plane"] == victim["plane"]
    ]
    assert all(state == "denied" for state in later)
    controller.set_ev_state(13, entry, ctl.EvState.GOOD)
    assert next(p for p in first.path_stats() if p["ev"] == victim["ev"])["state"] == "good"
    with pytest.raises(VerbsError) as caught:
        controller.set_ev_state(13, ctl.EvEntry(b"\x01\x01", 1), ctl.EvState.DENIED)
    assert caught.value.errno == errno.ENOENT


def test_explicit_profiles(controller: ctl.Controller, ends: tuple[End, End]) -> None:
    a, b = ends
    controller.modify_ev_fmt_profile(4, ctl.EvFmtProfile(ctl.EvFmtMode.UDP, [16]), state="online")
    evs = [ctl.EvEntry((50_000 + i).to_bytes(2, "big"), 1 + i % 2) for i in range(4)]
    controller.modify_ev_profile(
        4,
        ctl.EvProfile(fmt_id=4, mode=ctl.EvMode.EXPLICIT, ev_count=4, min_active=1, evs=evs),
        state="online",
    )
    assert [(e.value[:2], e.port) for e in controller.query_ev_array(4)] == [(e.value, e.port) for e in evs]
    left = a.qp()
    right = b.qp()
    connect(left, right, mrc=(MrcQPAttr(ev_profile_id=4), None))
    held = {(p["ev"], p["plane"]) for p in left.path_stats()}
    assert held <= {(50_000 + i, 1 + i % 2) for i in range(4)}
    ev, plane = sorted(held)[0]
    controller.replace_ev(
        4, ctl.EvEntry(ev.to_bytes(2, "big"), plane), ctl.EvEntry((51_000).to_bytes(2, "big"), plane)
    )
    assert (51_000, plane) in {(p["ev"], p["plane"]) for p in left.path_stats()}
    write(left, a.mr, b.mr, 60_000)
    assert wait_wcs(a.cq, 1)[0].status == 0


def test_events_of_a_lost_path(controller: ctl.Controller, ends: tuple[End, End]) -> None:
    a, b = ends
    generated(controller)
    left = a.qp()
    right = b.qp()
    connect(left, right, mrc=(MrcQPAttr(ev_profile_id=13), None))
    victim = next(p for p in left.path_stats() if p["active"])
    a.ctx.add_rules([{"ev": victim["ev"], "plane": victim["plane"], "down": True}])
    seen: list[ctl.EvEvent] = []
    end = time.monotonic() + 20
    while not seen:
        assert time.monotonic() < end
        write(left, a.mr, b.mr, 60_000)
        wait_wcs(a.cq, 1)
        seen = of_ev(controller.poll_ev_events(16), victim)
    assert (seen[0].profile_id, seen[0].state, seen[0].drop_count) == (13, ctl.EvState.ASSUMED_BAD, 0)
    a.ctx.clear_rules()
    while seen[-1].state is not ctl.EvState.GOOD:
        assert time.monotonic() < end + 20
        time.sleep(0.002)
        seen += of_ev(controller.poll_ev_events(16), victim)


def of_ev(events: list[ctl.EvEvent], path: dict[str, int]) -> list[ctl.EvEvent]:
    """The events of one path: on a busy machine another one may be left for a moment, too."""
    wanted = path["ev"].to_bytes(2, "big"), path["plane"]
    return [e for e in events if (e.ev.value[:2], e.ev.port) == wanted]


def test_probes(controller: ctl.Controller, ends: tuple[End, End]) -> None:
    a, b = ends
    left, right = a.qp(), b.qp()
    connect(left, right)
    there = b.ctx.planes[0]
    rtts = controller.probe(there["address"], timeout=4, udp_port=there["udp_port"])
    assert set(rtts) == set(a.ctx.planes[0]["evs"])
    assert all(rtt is not None and 0 < rtt < 4e9 for rtt in rtts.values())
    dead = next(iter(rtts))
    a.ctx.add_rules([{"ev": dead, "down": True}])
    for _ in range(5):  # a busy machine is late once, and for any of them; a path that is down always
        again = controller.probe(there["address"], rtts, timeout=0.5, udp_port=there["udp_port"])
        silent = [ev for ev, rtt in again.items() if rtt is None]
        if silent == [dead]:
            break
        assert dead in silent
    assert silent == [dead]
    for bad in ({"timeout": 5.0}, {"timeout": -1}):
        with pytest.raises(UsageError):
            controller.probe(there["address"], **bad)


def test_a_device_must_be_open_once(controller: ctl.Controller) -> None:
    with pytest.raises(UsageError, match="open 0 times"):
        controller.probe("127.0.0.1")


def test_only_this_process(name: str) -> None:
    with pytest.raises(VerbsError) as caught:
        ctl.Controller(name, pid=1)
    assert caught.value.errno == errno.EPERM
    with pytest.raises(VerbsError, match="only devices of this process") as caught:
        ctl.Controller(name, pid=1, privileged=True)
    assert caught.value.errno == errno.ENOTSUP


def test_the_simple_level_takes_profiles(controller: ctl.Controller, name: str) -> None:
    generated(controller)
    with (
        Endpoint("127.0.0.1", "127.0.0.2", device=name, ev_profile=13) as a,
        Endpoint("127.0.0.3", "127.0.0.4") as b,
    ):
        memory = bytearray(100_000)
        conn = a.connect_sync("127.0.0.3", b.listen(0, expose=memory).port)
        conn.write(b"p" * 100_000, conn.remote_window_sync(20)).result(20)
        assert memory == b"p" * 100_000
        assert all(0xC000 <= p.ev <= 0xC7FF for p in conn.stats().paths)
        assert controller.query_ev_profile(13)["users"] == 2
    assert controller.query_ev_profile(13)["users"] == 0
