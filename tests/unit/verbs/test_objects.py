"""Lifetimes, attributes, queries and refusals of the verbs objects."""

from __future__ import annotations

import errno
import gc
import weakref

import numpy as np
import pytest
from tests.unit.verbs.conftest import WRITE_ACCESS, End, OpenEnd, connect, wait_wcs, write

from softmrc.errors import MrcError, UsageError, VerbsError
from softmrc.verbs import (
    CQ,
    MR,
    PD,
    QP,
    Access,
    Context,
    MrcCap,
    MrcQPAttr,
    PathMtu,
    PeerPlane,
    QPAttr,
    QPCap,
    QPHint,
    QPInitAttr,
    QPState,
    Rule,
    SoftQPAttr,
    WCStatus,
    query_version,
)


def test_parents_close_their_children_first() -> None:
    ctx = Context("test", ["127.0.0.1"], udp_port=0)
    pd = PD(ctx)
    cq = CQ(ctx, 8)
    qp = QP(pd, QPInitAttr(scq=cq, rcq=cq))
    buffer = bytearray(100)
    mr = MR(pd, buffer, WRITE_ACCESS)
    ctx.close()
    assert all(thing.closed for thing in (qp, mr, pd, cq, ctx))
    buffer.extend(b"free again")
    ctx.close()
    for make in (lambda: PD(ctx), lambda: CQ(ctx, 1), lambda: MR(pd, 1, 0)):
        with pytest.raises(UsageError, match="closed"):
            make()


def test_forgotten_children_are_given_back(open_end: OpenEnd) -> None:
    a = open_end("127.0.0.1")
    buffer = bytearray(100)
    mr = MR(a.pd, buffer, 0)
    gone = weakref.ref(mr)
    del mr
    gc.collect()
    assert gone() is None
    buffer.extend(b"x")
    qp = a.qp()
    del qp
    gc.collect()
    assert a.ctx.driver.qp_count() == 0
    a.pd.close()


def test_busy_things_stay(ends: tuple[End, End]) -> None:
    a, b = ends
    left, right = a.qp(), b.qp()
    with pytest.raises(VerbsError) as caught:
        a.cq.close()
    assert caught.value.errno == errno.EBUSY
    connect(left, right)
    b.ctx.add_rules([Rule(down=True)])
    write(left, a.mr, b.mr, 100)
    with pytest.raises(VerbsError) as caught:
        a.mr.close()
    assert caught.value.errno == errno.EBUSY
    assert not a.mr.closed
    assert isinstance(caught.value, OSError)
    assert isinstance(caught.value, MrcError)
    b.ctx.clear_rules()
    wait_wcs(a.cq, 1)
    a.mr.close()


def test_memory_that_cannot_be_registered(ends: tuple[End, End]) -> None:
    a, _ = ends
    for memory, access, words in (
        (b"fixed", WRITE_ACCESS, "read-only"),
        (b"fixed", Access.LOCAL_WRITE, "read-only"),
        (memoryview(bytearray(16))[::2], 0, "strides"),
        (np.zeros((4, 4), np.int32)[:, 1:], 0, r"strides \(16, 4\)"),
        (3.5, 0, "neither"),
        (-1, 0, "-1"),
    ):
        with pytest.raises(UsageError, match=words):
            MR(a.pd, memory, access)
    assert MR(a.pd, b"fixed", 0).read(5) == b"fixed"
    assert MR(a.pd, np.asfortranarray(np.ones((4, 4))), 0).length == 128
    with pytest.raises(VerbsError) as caught:
        MR(a.pd, bytearray(4), Access.REMOTE_WRITE)
    assert caught.value.errno == errno.EINVAL, "remote write needs local write, as in verbs"
    mr = MR(a.pd, 100, Access.LOCAL_WRITE)
    mr.write(b"abc", offset=97)
    assert mr.read(3, 97) == b"abc"
    for call in (lambda: mr.read(4, 97), lambda: mr.write(b"abc", offset=98), lambda: mr.read(-1)):
        with pytest.raises(UsageError, match="outside"):
            call()
    with pytest.raises(UsageError, match="read-only"):
        MR(a.pd, b"fixed", 0).write(b"x")


def test_what_the_device_says(ends: tuple[End, End]) -> None:
    a, _ = ends
    mrc = a.ctx.query_mrc_device()
    assert mrc.protocol_versions == 1
    assert (mrc.max_wimm, mrc.max_wimm_dest, mrc.max_mpr, mrc.mpr_resolution) == (4096, 4096, 32, 1)
    assert mrc.caps == MrcCap.TRIM_NACK | MrcCap.DYNAMIC_MPR
    assert a.ctx.query_device().max_msg_sz == 1 << 31
    assert query_version()[0] == 0x01000001
    assert [p["address"] for p in a.ctx.planes] == ["127.0.0.1", "127.0.0.2"]


@pytest.mark.parametrize(
    "bad",
    [
        MrcQPAttr(mpr_dest=0),
        MrcQPAttr(mpr_dest=33),
        MrcQPAttr(max_wimm_dest=0),
        MrcQPAttr(max_wimm_dest=4097),
        QPAttr(path_mtu=17),
        QPAttr(rq_psn=1 << 24),
        QPAttr(dest_qp_num=1),
        SoftQPAttr(peer_planes=[]),
        SoftQPAttr(peer_planes=[PeerPlane(9, "127.0.0.3", 1)]),
        SoftQPAttr(peer_planes=[PeerPlane(1, "::1", 1)]),
    ],
)
def test_bad_attributes_at_rtr(ends: tuple[End, End], bad: object) -> None:
    a, _ = ends
    qp = a.qp()
    qp.to_init()
    attr = QPAttr(dest_qp_num=100, rq_psn=0, path_mtu=PathMtu.MTU_1024)
    mrc, soft = MrcQPAttr(), SoftQPAttr(peer_planes=[PeerPlane(1, "127.0.0.3", 1)])
    for target in (attr, mrc, soft):
        if type(bad) is type(target):
            vars(target).update({k: v for k, v in vars(bad).items() if v is not None})
    with pytest.raises(VerbsError) as caught:
        qp.to_rtr(attr, mrc, soft)
    assert caught.value.errno == errno.EINVAL
    assert qp.qp_state is QPState.INIT


def test_transitions(ends: tuple[End, End]) -> None:
    a, b = ends
    qp, peer = a.qp(), b.qp()
    assert qp.qp_state is QPState.RESET
    for skip in (QPState.RTR, QPState.RTS):
        with pytest.raises(VerbsError):
            qp.modify(QPAttr(qp_state=skip, dest_qp_num=5, rq_psn=0, sq_psn=0, dgid="127.0.0.3"))
    qp.to_init()
    with pytest.raises(VerbsError):
        qp.modify(
            QPAttr(qp_state=QPState.RTR, cur_qp_state=QPState.RTS, dest_qp_num=5, rq_psn=0, dgid="127.0.0.3")
        )
    qp.to_reset()
    connect(qp, peer)
    attr, mrc = qp.query()
    assert (attr.qp_state, attr.dest_qp_num, attr.path_mtu) == (QPState.RTS, peer.qp_num, 1024)
    assert (attr.rq_psn, attr.sq_psn, attr.dgid) == (0xFFFFFE, 0xFFFFFE, "127.0.0.3")
    assert mrc.timeout == 12
    qp.modify(QPAttr(), MrcQPAttr(mpr=16))
    assert qp.query()[1].mpr == 16
    qp.to_err()
    assert qp.qp_state is QPState.ERR


def test_dgid_is_a_peer_with_one_plane(ends: tuple[End, End]) -> None:
    a, _ = ends
    qp = a.qp()
    qp.to_init()
    qp.to_rtr(QPAttr(dest_qp_num=100, rq_psn=0, dgid="127.0.0.3", path_mtu=PathMtu.IBV_MTU_4096))
    attr = qp.query()[0]
    assert (attr.dgid, attr.path_mtu) == ("127.0.0.3", 4096)
    qp.to_reset()
    qp.to_init()
    with pytest.raises(UsageError, match="not an IP address"):
        qp.to_rtr(QPAttr(dest_qp_num=100, rq_psn=0, dgid="nonsense"))


def test_attributes_without_meaning(open_end: OpenEnd) -> None:
    """Reference 10.2: ignored by default, EINVAL in strict mode."""
    useless = QPAttr(
        port_num=1, retry_cnt=7, rnr_retry=7, min_rnr_timer=12, max_rd_atomic=1, alt_path=object()
    )
    lax = open_end("127.0.0.1").qp()
    lax.to_init(useless)
    assert lax.qp_state is QPState.INIT
    strict = open_end("127.0.0.2", strict=True).qp()
    with pytest.raises(VerbsError, match="port_num, retry_cnt") as caught:
        strict.to_init(useless)
    assert caught.value.errno == errno.EINVAL
    strict.to_init(QPAttr(qp_access_flags=WRITE_ACCESS))


def test_bad_creations(ends: tuple[End, End]) -> None:
    a, _ = ends
    for attr in (
        QPInitAttr(scq=a.cq, rcq=a.cq, cap=QPCap(max_send_sge=2)),
        QPInitAttr(scq=a.cq, rcq=a.cq, cap=QPCap(max_inline_data=64)),
        QPInitAttr(scq=a.cq, rcq=a.cq, cap=QPCap(max_send_wr=0)),
        QPInitAttr(scq=a.cq, rcq=a.cq, protocol_version=2),
    ):
        with pytest.raises(VerbsError) as caught:
            QP(a.pd, attr)
        assert caught.value.errno == errno.EINVAL
    for cqe, vector in ((0, 0), (1 << 23, 0), (1, 1)):
        with pytest.raises(VerbsError):
            CQ(a.ctx, cqe, None, None, vector)
    for planes in ([], ["nonsense"]):
        with pytest.raises((UsageError, VerbsError)):
            Context("test", planes, udp_port=0)
    with pytest.raises(UsageError, match="unknown member 'colour'"):
        Context("test", ["127.0.0.1"], udp_port=0, colour="blue")


def test_hints(ends: tuple[End, End]) -> None:
    a, _ = ends
    hint = QPHint(a.ctx, qps_per_peer=2, incast=32, vendor=b"v")
    qp = a.qp()
    qp.to_init(None, MrcQPAttr(hint=hint))
    with pytest.raises(VerbsError) as caught:
        hint.close()
    assert caught.value.errno == errno.EBUSY
    qp.to_reset()
    hint.close()
    for change in ({"peers": 0}, {"incast": 1 << 32}, {"vendor": bytes(129)}):
        with pytest.raises(VerbsError):
            QPHint(a.ctx, **change)


def test_rules_are_checked(ends: tuple[End, End]) -> None:
    a, _ = ends
    for bad in (
        {"drop": 1.5},
        {"drop": -0.1},
        {"delay": -1},
        {"direction": "up"},
        {"plane": 300},
        {"colour": 1},
    ):
        with pytest.raises(UsageError):
            a.ctx.add_rules([bad])
    first, second = a.ctx.add_rules([{"plane": 1, "drop": 0.5}, Rule(ev=5, jitter=0.001)])
    assert first != second
    a.ctx.clear_rules()


def test_ports_go_down_and_come_back(ends: tuple[End, End]) -> None:
    a, b = ends
    left, right = a.qp(), b.qp()
    connect(left, right)
    a.ctx.set_port_up(1, False)
    write(left, a.mr, b.mr, 50_000)
    assert wait_wcs(a.cq, 1)[0].status is WCStatus.SUCCESS
    assert {p["plane"] for p in left.path_stats() if p["sent"]} == {2}
    assert {p["state"] for p in left.path_stats() if p["plane"] == 1} == {"assumed_bad"}
    kinds = {(e["kind"], e["port"], e["up"]) for e in iter(lambda: a.ctx.get_async_event(0), None)}
    assert ("port_local", 1, False) in kinds
    with pytest.raises(VerbsError):
        a.ctx.set_port_up(7, True)


def test_stats(ends: tuple[End, End]) -> None:
    a, b = ends
    left, right = a.qp(), b.qp()
    connect(left, right)
    write(left, a.mr, b.mr, 50_000)
    wait_wcs(a.cq, 1)
    stats = left.stats()
    assert stats["counters"]["tx.data"] >= 49
    assert stats["state"] == QPState.RTS
    assert b.ctx.stats()["data_rx"] >= 49
    assert set(b.ctx.stats()["drops"]) >= {"bad_icrc", "bad_qpn", "truncated"}


def test_attributes_of_the_driver_come_back_as_given(ends: tuple[End, End]) -> None:
    """Experiments and settings for simulated fabrics, which the verbs do not name."""
    a, b = ends
    qp, peer = a.qp(), b.qp()
    driver = a.ctx.driver
    planes = [PeerPlane(p["port"], p["address"], p["udp_port"]) for p in peer.ctx.planes]
    qp.to_init(QPAttr(qp_access_flags=WRITE_ACCESS))
    qp.to_rtr(QPAttr(dest_qp_num=peer.qp_num, rq_psn=1), None, SoftQPAttr(peer_planes=planes))
    given = {
        "reverse_probe_min_ns": 25_000,
        "fast_loss": False,
        "extra_sacks": False,
        "delay_mark_ns": 30_000,
    }
    driver.modify_qp(qp.qp_num, {"state": int(QPState.RTS), "sq_psn": 1, **given})
    back = driver.query_qp(qp.qp_num)
    assert given.items() <= back.items()
    with pytest.raises(OSError, match=r"Errno 22"):  # not on a live queue pair
        driver.modify_qp(qp.qp_num, {"reverse_probe_min_ns": 1})
