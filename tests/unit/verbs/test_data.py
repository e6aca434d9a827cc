"""Work requests and completions at the verbs level."""

from __future__ import annotations

import errno
import os
import select
import threading
from typing import Any

import pytest
from tests.unit.verbs.conftest import WRITE_ACCESS, End, connect, wait_wcs, write

from softmrc.errors import UsageError, VerbsError
from softmrc.verbs import (
    CQ,
    MR,
    QP,
    SGE,
    Access,
    CompChannel,
    QPInitAttr,
    QPState,
    RecvWR,
    SendFlags,
    SendWR,
    SoftQPAttr,
    WCOpcode,
    WCStatus,
    WROpcode,
)


def test_write_with_immediate(ends: tuple[End, End]) -> None:
    a, b = ends
    left, right = a.qp(), b.qp()
    connect(left, right)
    data = os.urandom(50_000)
    a.mr.write(data)
    right.post_recv(RecvWR(wr_id=77))
    write(left, a.mr, b.mr, len(data), imm=0xDEADBEEF, wr_id=5)
    (done,) = wait_wcs(a.cq, 1)
    assert (done.wr_id, done.status, done.opcode, done.qp_num) == (
        5,
        WCStatus.SUCCESS,
        WCOpcode.RDMA_WRITE,
        left.qp_num,
    )
    (note,) = wait_wcs(b.cq, 1)
    assert (note.wr_id, note.opcode, note.imm_data, note.byte_len) == (77, 129, 0xDEADBEEF, 50_000)
    assert note.with_imm
    assert b.mr.read(len(data)) == data
    assert a.cq.poll() == (0, [])


@pytest.mark.parametrize("qpn", [65_535, 65_536, 121_789, 0xFFFFFF, 16])
def test_every_width_of_qpn(ends: tuple[End, End], qpn: int) -> None:
    """B21."""
    a, b = ends
    left, right = a.qp(qpn=qpn), b.qp(qpn=qpn)
    assert left.qp_num == qpn
    connect(left, right)
    a.mr.write(qpn.to_bytes(4, "big") * 4000)
    write(left, a.mr, b.mr, 16_000)
    assert wait_wcs(a.cq, 1)[0].status is WCStatus.SUCCESS
    assert b.mr.read(16_000) == a.mr.read(16_000)


def test_qpn_refusals(ends: tuple[End, End]) -> None:
    a, _ = ends
    kept = a.qp(qpn=99)
    for qpn, why in ((99, errno.EEXIST), (2, errno.EINVAL), (1 << 24, errno.EINVAL)):
        with pytest.raises(VerbsError) as caught:
            a.qp(qpn=qpn)
        assert caught.value.errno == why
    kept.close()


def test_numbers_are_random() -> None:
    """Restart safety: QPNs, PSNs and keys of two incarnations differ."""
    from softmrc.verbs import PD, Context

    seen = set()
    for _ in range(3):
        with Context("test", ["127.0.0.1"], udp_port=0) as ctx, PD(ctx) as pd:
            cq = CQ(ctx, 4)
            qp = QP(pd, QPInitAttr(scq=cq, rcq=cq))
            seen.add((qp.qp_num, ctx.driver.random_psn(), MR(pd, 64, 0).rkey))
    assert len({n for n, _, _ in seen}) == len({p for _, p, _ in seen}) == len({k for _, _, k in seen}) == 3


@pytest.mark.parametrize("opcode", [2, 3, 4, 5, 6, 99])
def test_other_operations_do_not_exist(ends: tuple[End, End], opcode: int) -> None:
    a, b = ends
    left, right = a.qp(), b.qp()
    connect(left, right)
    with pytest.raises(VerbsError, match="MRC has no") as caught:
        left.post_send(SendWR(opcode=opcode))
    assert caught.value.errno == errno.EINVAL
    assert left.qp_state is QPState.RTS


def test_bad_work_requests(ends: tuple[End, End]) -> None:
    a, b = ends
    left, right = a.qp(), b.qp()
    sge = SGE(a.mr.buf, 10, a.mr.lkey)
    with pytest.raises(VerbsError):
        left.post_send(SendWR(num_sge=1, sg=[sge]))  # not RTS
    connect(left, right)
    for wr, words in (
        (SendWR(num_sge=2, sg=[sge, sge]), "one scatter/gather"),
        (SendWR(num_sge=1), "sg is empty"),
        (SendWR(num_sge=1, sg=[sge], send_flags=SendFlags.INLINE), "inline"),
        (SendWR(num_sge=1, sg=[SGE(a.mr.buf, (1 << 31) + 1, a.mr.lkey)]), "2\\^31"),
    ):
        with pytest.raises(VerbsError, match=words) as caught:
            left.post_send(wr)
        assert caught.value.errno == errno.EINVAL
    good = [SendWR(1, WROpcode.RDMA_WRITE), SendWR(2, WROpcode.SEND), SendWR(3, WROpcode.RDMA_WRITE)]
    with pytest.raises(VerbsError) as caught:
        left.post_send(good)
    assert caught.value.bad_wr is good[1]  # type: ignore[attr-defined]
    assert [wc.wr_id for wc in wait_wcs(a.cq, 1)] == [1]


def test_a_full_queue_is_enomem(ends: tuple[End, End]) -> None:
    a, b = ends
    left, right = a.qp(send=4, recv=4), b.qp()
    connect(left, right)
    b.ctx.add_rules([{"down": True}])
    for _ in range(4):
        write(left, a.mr, b.mr, 100)
    with pytest.raises(VerbsError, match="queue is full") as caught:
        write(left, a.mr, b.mr, 100)
    assert caught.value.errno == errno.ENOMEM
    for _ in range(4):
        left.post_recv(RecvWR())
    with pytest.raises(VerbsError) as caught:
        left.post_recv(RecvWR())
    assert caught.value.errno == errno.ENOMEM


def test_to_err_flushes(ends: tuple[End, End]) -> None:
    a, b = ends
    left, right = a.qp(), b.qp()
    connect(left, right)
    b.ctx.add_rules([{"down": True}])
    for i in range(3):
        write(left, a.mr, b.mr, 100, wr_id=i)
    left.post_recv(RecvWR(wr_id=9))
    left.to_err()
    wcs = wait_wcs(a.cq, 4)
    assert {wc.status for wc in wcs} == {WCStatus.WR_FLUSH_ERR}
    assert sorted(wc.wr_id for wc in wcs) == [0, 1, 2, 9]
    left.to_reset()
    assert left.qp_state is QPState.RESET


def test_retries_end(ends: tuple[End, End]) -> None:
    from softmrc.verbs import MrcQPAttr, PeerPlane, QPAttr

    a, b = ends
    left, right = a.qp(), b.qp()
    planes = [PeerPlane(p["port"], p["address"], p["udp_port"]) for p in b.ctx.planes]
    left.to_init()
    left.to_rtr(QPAttr(dest_qp_num=right.qp_num, rq_psn=0), None, SoftQPAttr(peer_planes=planes))
    left.to_rts(QPAttr(sq_psn=0), MrcQPAttr(timeout=8, linear_cnt=1, exp_cnt=0))
    write(left, a.mr, b.mr, 100)  # right is still in RESET and says nothing
    (wc,) = wait_wcs(a.cq, 1)
    assert wc.status is WCStatus.RETRY_EXC_ERR is WCStatus.IBV_WC_RETRY_EXC_ERR
    events = iter(lambda: a.ctx.get_async_event(0), None)
    assert left.qp_num in {e["qpn"] for e in events if e["kind"] == "qp_error"}


@pytest.mark.parametrize("how", ["key", "range", "access", "pd"])
def test_access_is_checked(ends: tuple[End, End], how: str) -> None:
    from softmrc.verbs import PD

    a, b = ends
    left, right = a.qp(), b.qp()
    connect(left, right)
    local = MR(b.pd, 4096, Access.LOCAL_WRITE)
    foreign_pd = PD(b.ctx)
    foreign = MR(foreign_pd, 4096, WRITE_ACCESS)
    rkey, addr = {
        "key": (b.mr.rkey ^ 0x10, b.mr.iova),
        "range": (b.mr.rkey, b.mr.iova + b.mr.length - 50),
        "access": (local.rkey, local.iova),
        "pd": (foreign.rkey, foreign.iova),
    }[how]
    wr = SendWR(1, WROpcode.RDMA_WRITE, 1, 0, [SGE(a.mr.buf, 100, a.mr.lkey)])
    wr.set_wr_rdma(rkey, addr)
    left.post_send(wr)
    (wc,) = wait_wcs(a.cq, 1)
    assert wc.status is WCStatus.REM_ACCESS_ERR


def test_memory_of_others_is_not_sent(ends: tuple[End, End]) -> None:
    a, b = ends
    left, right = a.qp(), b.qp()
    connect(left, right)
    wr = SendWR(1, WROpcode.RDMA_WRITE, 1, 0, [SGE(a.mr.buf + a.mr.length - 10, 100, a.mr.lkey)])
    wr.set_wr_rdma(b.mr.rkey, b.mr.iova)
    left.post_send(wr)
    assert wait_wcs(a.cq, 1)[0].status is WCStatus.LOC_PROT_ERR


def test_iova(ends: tuple[End, End]) -> None:
    a, b = ends
    left, right = a.qp(), b.qp()
    connect(left, right)
    target = MR(b.pd, 4096, WRITE_ACCESS, iova=0x1000)
    assert target.iova == 0x1000
    a.mr.write(b"at 0x1000")
    write(left, a.mr, target, 9)
    assert wait_wcs(a.cq, 1)[0].status is WCStatus.SUCCESS
    assert target.read(9) == b"at 0x1000"


def test_notification_by_channel(ends: tuple[End, End]) -> None:
    a, b = ends
    one, two = CompChannel(a.ctx), CompChannel(a.ctx)
    cq1, cq2 = CQ(a.ctx, 16, "context", one), CQ(a.ctx, 16, None, two)
    assert cq1.cq_context == "context"
    qps = [QP(a.pd, QPInitAttr(scq=cq, rcq=cq)) for cq in (cq1, cq2)]
    peers = [b.qp() for _ in qps]
    for qp, peer in zip(qps, peers, strict=True):
        connect(qp, peer)
    cq1.req_notify()
    cq2.req_notify()
    assert one.get_cq_event(timeout=0) is None
    write(qps[1], a.mr, b.mr, 10)
    # Whoever looks first carries the news to its owner; nobody's wake-up is lost.
    assert one.get_cq_event(timeout=0.3) is None
    assert two.get_cq_event(cq2, timeout=20) is cq2
    cq2.ack_events(1)
    assert wait_wcs(cq2, 1)[0].status is WCStatus.SUCCESS
    write(qps[1], a.mr, b.mr, 10)
    wait_wcs(cq2, 1)
    assert two.get_cq_event(timeout=0) is None, "one notification for one request"
    got: list[Any] = []
    waiter = threading.Thread(target=lambda: got.append(one.get_cq_event(timeout=30)))
    waiter.start()
    write(qps[0], a.mr, b.mr, 10)
    waiter.join(30)
    assert got == [cq1]
    cq1.req_notify()
    cq2.req_notify()
    write(qps[0], a.mr, b.mr, 10)
    assert select.select([one.fd], [], [], 20)[0] == [one.fd]
    with pytest.raises(UsageError, match="another CQ"):
        one.get_cq_event(cq2, timeout=20)


def test_solicited_only(ends: tuple[End, End]) -> None:
    a, b = ends
    channel = CompChannel(b.ctx)
    cq = CQ(b.ctx, 16, None, channel)
    left, right = a.qp(), QP(b.pd, QPInitAttr(scq=cq, rcq=cq))
    connect(left, right)
    right.post_recv([RecvWR(1), RecvWR(2)])
    cq.req_notify(solicited_only=True)
    write(left, a.mr, b.mr, 10, imm=1)
    wait_wcs(cq, 1)
    assert channel.get_cq_event(timeout=0.05) is None
    wr = SendWR(2, WROpcode.RDMA_WRITE_WITH_IMM, 1, 2, [SGE(a.mr.buf, 10, a.mr.lkey)])
    wr.send_flags = SendFlags.SIGNALED | SendFlags.SOLICITED
    wr.set_wr_rdma(b.mr.rkey, b.mr.iova)
    left.post_send(wr)
    assert channel.get_cq_event(timeout=20) is cq


def test_unsignaled_writes_complete_silently(ends: tuple[End, End]) -> None:
    a, b = ends
    left, right = a.qp(), b.qp()
    connect(left, right)
    silent = SendWR(1, WROpcode.RDMA_WRITE, 1, 0, [SGE(a.mr.buf, 10, a.mr.lkey)], send_flags=0)
    silent.set_wr_rdma(b.mr.rkey, b.mr.iova)
    left.post_send(silent)
    write(left, a.mr, b.mr, 10, wr_id=2)
    assert [wc.wr_id for wc in wait_wcs(a.cq, 1)] == [2]
    assert a.cq.poll(10) == (0, [])
