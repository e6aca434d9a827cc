"""Two devices in one process, and queue pairs between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from softmrc.verbs import (
    CQ,
    MR,
    PD,
    QP,
    SGE,
    WC,
    Access,
    Context,
    MrcQPAttr,
    PeerPlane,
    QPAttr,
    QPCap,
    QPInitAttr,
    SendWR,
    SoftQPAttr,
    WROpcode,
)

WRITE_ACCESS = Access.LOCAL_WRITE | Access.REMOTE_WRITE


@dataclass
class End:
    """One side: device, domain, queue and memory."""

    ctx: Context
    pd: PD
    cq: CQ
    mr: MR

    def qp(self, send: int = 16, recv: int = 16, qpn: int | None = None) -> QP:
        return QP(self.pd, QPInitAttr(scq=self.cq, rcq=self.cq, cap=QPCap(send, recv), qpn=qpn))


def wait_wcs(cq: CQ, count: int, seconds: float = 30.0) -> list[WC]:
    """Poll until `count` completions came."""
    end = time.monotonic() + seconds
    out: list[WC] = []
    while len(out) < count:
        assert time.monotonic() < end, f"{len(out)} of {count} completions: {out}"
        out += cq.poll(count - len(out))[1]
        time.sleep(0.0005)
    return out


def connect(
    left: QP,
    right: QP,
    *,
    mrc: tuple[MrcQPAttr | None, MrcQPAttr | None] = (None, None),
    soft: SoftQPAttr | None = None,
    psn: int = 0xFFFFFE,
) -> None:
    """Bring both to RTS; every plane of one talks to the plane of the same number of the other."""
    for (mine, other), attr in zip(((left, right), (right, left)), mrc, strict=True):
        planes = [PeerPlane(p["port"], p["address"], p["udp_port"]) for p in other.ctx.planes]
        mine.to_init(QPAttr(qp_access_flags=WRITE_ACCESS), attr)
        extra = SoftQPAttr(**vars(soft)) if soft else SoftQPAttr()
        extra.peer_planes = planes
        mine.to_rtr(QPAttr(dest_qp_num=other.qp_num, rq_psn=psn), None, extra)
        mine.to_rts(QPAttr(sq_psn=psn), MrcQPAttr(timeout=12), SoftQPAttr(min_ack_timeout_ns=4_000_000))


def write(qp: QP, source: MR, target: MR, length: int, *, imm: int | None = None, wr_id: int = 1) -> None:
    """Post one write of the first bytes of a region."""
    opcode = WROpcode.RDMA_WRITE if imm is None else WROpcode.RDMA_WRITE_WITH_IMM
    wr = SendWR(wr_id, opcode, 1 if length else 0, imm or 0, [SGE(source.buf, length, source.lkey)])
    wr.set_wr_rdma(target.rkey, target.iova)
    qp.post_send(wr)


OpenEnd = Callable[..., End]


@pytest.fixture
def open_end() -> Iterator[OpenEnd]:
    """Open devices on loopback planes; closed at the end."""
    opened: list[Context] = []

    def make(*planes: str, name: str = "test", strict: bool = False, memory: int = 1 << 16) -> End:
        ctx = Context(name, planes, udp_port=0, strict=strict)
        opened.append(ctx)
        pd = PD(ctx)
        return End(ctx, pd, CQ(ctx, 256), MR(pd, memory, WRITE_ACCESS))

    yield make
    for ctx in reversed(opened):
        ctx.close()


@pytest.fixture
def ends(open_end: OpenEnd) -> tuple[End, End]:
    return open_end("127.0.0.1", "127.0.0.2"), open_end("127.0.0.3", "127.0.0.4")
