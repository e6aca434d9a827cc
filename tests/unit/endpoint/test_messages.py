"""Control messages over MRC itself."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.endpoint.conftest import Joined

from softmrc import PeerError, UsageError
from softmrc.endpoint import mailbox as mb
from softmrc.endpoint.offer import MailboxOffer
from softmrc.verbs import PD, Context


@pytest.mark.parametrize("size", [0, 1, 16383, 16384, 16385, 700_001])
def test_any_size(joined: Joined, size: int) -> None:
    data = os.urandom(size)
    assert joined.client.send_message(data).result(20) == size
    assert joined.server.recv_message_sync(10) == data


def test_many_messages_to_a_slow_reader(joined: Joined) -> None:
    sent = [os.urandom(i % 500) for i in range(300)]
    transfers = [joined.client.send_message(m) for m in sent]
    back = [joined.server.send_message(m) for m in sent]
    assert not transfers[-1].wait(0.05), "the ring is full: a reader that takes nothing holds the writer back"
    assert [joined.server.recv_message_sync(10) for _ in sent] == sent
    assert [joined.client.recv_message_sync(10) for _ in sent] == sent
    assert all(t.wait(10) for t in transfers + back)


def test_too_long_is_refused(joined: Joined) -> None:
    with pytest.raises(UsageError, match="16777216"):
        joined.client.send_message(bytes(mb.MAX_MAIL + 1))


def test_immediates_of_the_application_are_its_own(joined: Joined) -> None:
    window = joined.client.remote_window_sync(20)
    for imm in (0, 1 << 30, 1 << 31, 0xFFFFFFFF):
        joined.client.write(b"", window, imm=imm)
        joined.client.send_message(imm.to_bytes(4, "big"))
    assert [joined.server.recv_notification(20).imm for _ in range(4)] == [0, 1 << 30, 1 << 31, 0xFFFFFFFF]
    assert [int.from_bytes(joined.server.recv_message_sync(20), "big") for _ in range(4)] == [
        0,
        1 << 30,
        1 << 31,
        0xFFFFFFFF,
    ]


@given(st.lists(st.tuples(st.integers(0, (1 << 32) - 1), st.integers(0, 1 << 20)), max_size=20))
def test_a_hostile_peer_can_only_fail(writes: list[tuple[int, int]]) -> None:
    box = _box()
    delivered = 0

    def deliver(kind: mb.Kind, data: bytes) -> None:
        nonlocal delivered
        assert len(data) <= mb.MAX_MAIL
        delivered += 1

    for imm, length in writes:
        try:
            box.on_received(imm, length, deliver)
        except PeerError:
            break
    assert delivered <= len(writes)


def test_rules_of_the_mailbox() -> None:
    def nothing(kind: mb.Kind, data: bytes) -> None:
        raise AssertionError(f"delivered {kind} {data!r}")

    with pytest.raises(PeerError, match="credits"):
        _box().on_received(2 << 30 | 1, 0, nothing)
    with pytest.raises(PeerError, match="order"):
        _box().on_received(1, 5, nothing)
    with pytest.raises(PeerError, match="large"):
        _box().on_received(0, mb.SLOT_SIZE + 1, nothing)
    box = _box()
    box.on_received(1 << 29, 10, nothing)
    with pytest.raises(PeerError, match="mixed"):
        box.on_received(1 << 30 | 1, 10, nothing)


_shared: list[object] = []


def _box() -> mb.Mailbox:
    if not _shared:
        ctx = Context("mailbox test", ["127.0.0.1"], udp_port=0)
        _shared.extend((PD(ctx), ctx))
    pd = _shared[0]
    assert isinstance(pd, PD)
    box = mb.Mailbox(pd)
    box.connect(MailboxOffer(addr=0x1000, rkey=1, slots=mb.SLOTS, slot_size=mb.SLOT_SIZE))
    return box


@pytest.fixture(autouse=True, scope="module")
def _close_shared() -> object:
    yield
    for thing in reversed(_shared):
        if isinstance(thing, Context):
            thing.close()
    _shared.clear()
