"""Objects that nobody refers to any more while the device still uses them."""

from __future__ import annotations

import gc
import weakref

import pytest
from tests.unit.verbs.conftest import WRITE_ACCESS, End, connect, write

from softmrc.verbs import CQ, MR, QP, QPCap, QPInitAttr, Rule


def _forget_in_use(a: End, b: End) -> tuple[QP, bytearray]:
    """Post a write that cannot be acknowledged, and drop the region it reads."""
    left, right = a.qp(), b.qp()
    connect(left, right)
    a.ctx.add_rules([Rule(down=True)])
    memory = bytearray(100)
    source = MR(a.pd, memory, WRITE_ACCESS)
    write(left, source, b.mr, 100)
    gone = weakref.ref(source)
    del source
    gc.collect()
    assert gone() is not None
    with pytest.raises(BufferError):
        memory.append(0)
    return left, memory


def test_a_forgotten_region_in_use_does_not_keep_the_domain(ends: tuple[End, End]) -> None:
    a, b = ends
    left, memory = _forget_in_use(a, b)
    a.pd.close()
    assert left.closed
    assert a.pd.closed
    memory.append(0)


def test_a_forgotten_region_is_given_back_with_its_queue_pair(ends: tuple[End, End]) -> None:
    a, b = ends
    left, memory = _forget_in_use(a, b)
    left.close()
    memory.append(0)
    assert left.closed


def test_a_forgotten_region_is_given_back_when_the_next_is_made(ends: tuple[End, End]) -> None:
    a, b = ends
    left, memory = _forget_in_use(a, b)
    left.to_reset()
    MR(a.pd, 100, 0)
    memory.append(0)
    assert not left.closed


def test_a_forgotten_completion_queue_goes_after_its_queue_pair(ends: tuple[End, End]) -> None:
    a, _ = ends
    cq = CQ(a.ctx, 16)
    attr = QPInitAttr(scq=cq, rcq=cq, cap=QPCap(max_send_wr=1, max_recv_wr=1))
    qp = QP(a.pd, attr)
    handle = cq.handle
    attr.scq = attr.rcq = a.cq  # the last references to the queue
    del cq
    gc.collect()
    qp.close()
    other = CQ(a.ctx, 16)  # opening a sibling gives the forgotten one back
    assert other.handle != handle
    assert CQ(a.ctx, 16).handle == handle
