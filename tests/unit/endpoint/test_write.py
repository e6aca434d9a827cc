"""Writes: bytes arrive, in order where order is promised, whatever their size and alignment."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.unit.endpoint.conftest import Joined

from softmrc import CompletionError, PeerError, RemoteWindow, UsageError


def test_bytes_arrive_and_the_immediate_says_so(joined: Joined) -> None:
    data = os.urandom(1 << 20)
    transfer = joined.client.write(data, joined.client.remote_window_sync(20), imm=7)
    assert transfer.result(20) == len(data)
    assert transfer.done()
    assert transfer.exception() is None
    note = joined.server.recv_notification(20)
    assert (note.imm, note.length) == (7, len(data))
    assert joined.memory == data


def test_unaligned_buffers_and_tails(joined: Joined) -> None:
    """B66."""
    source = bytearray(os.urandom(16384))
    region = joined.client.register(source, writable=False)
    window = joined.client.remote_window_sync(20)
    expected = bytearray(len(joined.memory))
    transfers, at = [], 0
    rng = random.Random(66)
    for offset in range(1, 64):
        for tail in range(1, 8):
            length = rng.choice((0, 64, 4096, 8192)) + tail
            transfers.append(
                joined.client.write(region, window, at + offset, length=length, local_offset=offset)
            )
            expected[at + offset : at + offset + length] = source[offset : offset + length]
            at += (offset + length + 63) // 64 * 64
            if at > len(expected) - 16384:
                at = 0
                for t in transfers:
                    t.result(20)
    for t in transfers:
        t.result(20)
    assert joined.memory == expected


def test_zero_length_writes_keep_their_place(joined: Joined) -> None:
    """B20 at the simple level."""
    window = joined.client.remote_window_sync(20)
    data = os.urandom(9000)
    joined.client.write(data, window, imm=1)
    joined.client.write(b"", window)
    joined.client.write(b"", window, offset=17, imm=2)
    last = joined.client.write(data[::-1], window, offset=9000, imm=3)
    assert last.result(20) == 9000
    notes = [joined.server.recv_notification(20) for _ in range(3)]
    assert [(n.imm, n.length) for n in notes] == [(1, 9000), (2, 0), (3, 9000)]
    assert joined.memory[:18000] == data + data[::-1]
    assert not any(joined.memory[18000:])


def test_more_writes_than_any_queue_holds(join: Callable[..., Joined]) -> None:
    """Order of immediates beyond send queue, receive queue and WIMM window."""
    j = join(send_depth=4, notification_depth=8, max_wimm=16)
    window = j.client.remote_window_sync(20)
    transfers = [j.client.write(bytes([i % 251]), window, offset=i, imm=i) for i in range(1000)]
    seen = [j.server.recv_notification(10).imm for _ in range(1000)]
    assert seen == list(range(1000))
    assert all(t.result(20) == 1 for t in transfers)
    assert j.memory[:1000] == bytes(i % 251 for i in range(1000))


def test_split_messages_carry_the_immediate_last(joined: Joined, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined.client._outbox, "max_message", 10_000)
    data = os.urandom(95_000)
    joined.client.write(data, joined.client.remote_window_sync(20), imm=9).result(20)
    note = joined.server.recv_notification(20)
    assert (note.imm, note.length) == (9, 5_000)
    assert joined.memory[:95_000] == data
    assert joined.server.stats().counters["rx.messages_done"] == 10
    joined.client.write(data[:20_000], joined.client.remote_window_sync(20), imm=10).result(20)
    assert joined.server.recv_notification(20).length == 10_000


def test_both_directions_at_once(open_endpoint: Callable[..., Any]) -> None:
    a, b = open_endpoint("127.0.0.1"), open_endpoint("127.0.0.2")
    mine, yours = bytearray(1 << 20), bytearray(1 << 20)
    listener = b.listen(0, expose=yours)
    client = a.connect_sync("127.0.0.2", listener.port, expose=mine)
    server = listener.accept(20)
    left, right = os.urandom(1 << 20), os.urandom(1 << 20)
    going = [
        client.write(left, client.remote_window_sync(20)),
        server.write(right, server.remote_window_sync(20)),
    ]
    assert [t.result(20) for t in going] == [1 << 20, 1 << 20]
    assert yours == left
    assert mine == right


def test_asyncio_face(open_endpoint: Callable[..., Any]) -> None:
    a, b = open_endpoint("127.0.0.1"), open_endpoint("127.0.0.2")
    memory = bytearray(100_000)

    async def receive(listener: Any) -> list[int]:
        async for conn in listener:
            return [note.imm async for note in conn.notifications()]
        return []

    async def run() -> list[int]:
        async with b.listen(0, expose=memory) as listener:
            receiver = asyncio.create_task(receive(listener))
            async with await a.connect("127.0.0.2", listener.port) as conn:
                window = await conn.remote_window()
                done = await asyncio.gather(
                    *(conn.write(b"x" * 100, window, offset=i * 100, imm=i) for i in range(100))
                )
                assert done == [100] * 100
            return await asyncio.wait_for(receiver, 10)

    assert asyncio.run(run()) == list(range(100))
    assert memory[:10_000] == b"x" * 10_000


def test_what_does_not_fit_is_refused(joined: Joined) -> None:
    window = joined.client.remote_window_sync(20)
    for arguments in (
        {"offset": window.length},
        {"offset": -1},
        {"length": 5},
        {"local_offset": 4},
        {"imm": 1 << 32},
        {"imm": -1},
    ):
        with pytest.raises(UsageError):
            joined.client.write(b"abc", window, **arguments)
    with pytest.raises(UsageError, match="strides"):
        joined.client.write(np.zeros((8, 8), np.uint8)[:, ::2], window)
    assert joined.client.write(b"abc", window).result(20) == 3


def test_read_only_memory_is_never_writable(joined: Joined) -> None:
    with pytest.raises(UsageError, match="read-only"):
        joined.client.register(b"constant")
    frozen = np.zeros(16, np.uint8)
    frozen.flags.writeable = False
    with pytest.raises(UsageError, match="read-only"):
        joined.client.register(frozen)
    region = joined.client.register(b"constant", writable=False)
    with pytest.raises(UsageError, match="writable=False"):
        _ = region.descriptor
    assert joined.client.write(region, joined.client.remote_window_sync(20)).result(20) == 8


def test_memory_is_kept_while_registered(joined: Joined) -> None:
    buffer = bytearray(4096)
    region = joined.client.register(buffer)
    with pytest.raises(BufferError):
        buffer.extend(b"grow")
    region.release()
    region.release()
    buffer.extend(b"grow")
    data = bytearray(b"y" * 500_000)
    transfer = joined.client.write(data, joined.client.remote_window_sync(20))
    reference = bytes(data)
    del data
    transfer.result(20)
    assert joined.memory[:500_000] == reference


class OnlyDlpack:
    """What a tensor offers: DLPack, no buffer protocol."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **kwargs: Any) -> object:
        return self._array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def test_dlpack_arrays(joined: Joined) -> None:
    values = np.arange(5000, dtype=np.float32)
    joined.client.write(OnlyDlpack(values), joined.client.remote_window_sync(20)).result(20)
    assert joined.memory[:20_000] == values.tobytes()
    target = np.zeros(100, np.int64)
    region = joined.server.register(OnlyDlpack(target))
    joined.client.write(np.arange(100, dtype=np.int64), region.descriptor).result(20)
    assert (target == np.arange(100)).all()
    with pytest.raises(UsageError, match="strides"):
        joined.client.write(OnlyDlpack(np.zeros((8, 8))[:, ::2]), joined.client.remote_window_sync(20))
    with pytest.raises(UsageError, match="neither"):
        joined.client.register(object())


def test_a_bad_key_fails_the_transfer_and_then_the_connection(joined: Joined) -> None:
    window = joined.client.remote_window_sync(20)
    good = joined.client.write(b"good", window)
    bad = joined.client.write(b"bad", RemoteWindow(window.addr, window.rkey ^ 1, window.length))
    later = joined.client.write(b"later", window)
    assert good.result(20) == 4
    with pytest.raises(CompletionError, match="refused the access"):
        bad.result(20)
    with pytest.raises(PeerError, match="earlier write failed"):
        later.result(20)
    with pytest.raises(PeerError, match="broke the connection"):
        joined.server.recv_notification(10)
    assert joined.client.closed


def test_windows_travel_as_json_and_may_be_exposed_later(joined: Joined) -> None:
    target = bytearray(64)
    region = joined.client.register(target)
    joined.client.expose(region)
    window = joined.server.remote_window_sync(20)
    assert RemoteWindow.from_json(window.to_json()) == window == region.descriptor
    joined.server.write(b"z" * 64, window).result(20)
    assert target == b"z" * 64
    for bad in (None, {}, {"addr": -1, "rkey": 0, "length": 0}, {"addr": True, "rkey": 0, "length": 0}):
        with pytest.raises(UsageError):
            RemoteWindow.from_json(bad)


def test_stats_name_every_path(joined: Joined) -> None:
    joined.client.write(bytes(1 << 20), joined.client.remote_window_sync(20)).result(20)
    stats = joined.client.stats()
    assert stats.state == "open"
    assert stats.bytes_written == 1 << 20
    assert {p.plane for p in stats.paths} == {1, 2}
    assert len({p.ev for p in stats.paths}) == 32
    # A machine that lets the ends wait may have them leave a path for a while.
    assert all(p.state in ("good", "skip", "assumed_bad") and p.active for p in stats.paths)
    assert all(p.sent > 0 for p in stats.paths if p.state == "good")
    assert any(p.state == "good" for p in stats.paths)
    assert sum(p.sent for p in stats.paths) >= (1 << 20) // joined.client.pmtu
    joined.client.close()
    assert joined.client.stats().bytes_written == 1 << 20
