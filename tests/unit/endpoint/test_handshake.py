"""Set-up: versions, capabilities, tokens, and strangers that must cost little and learn nothing."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.endpoint.conftest import Opener

from softmrc import PeerError, UsageError
from softmrc.endpoint import handshake, listener, proof
from softmrc.endpoint.exchange import MAX_MESSAGE
from softmrc.endpoint.handshake import Handshake
from softmrc.endpoint.offer import Hello, Offer, decode


class Pipe:
    """An exchange in memory; keeps what passed, and may change it."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes] = asyncio.Queue()
        self.other: Pipe = self
        self.log: list[bytes] = []
        self.meddle: Callable[[bytes], bytes] = lambda message: message

    async def send(self, message: bytes) -> None:
        self.log.append(message)
        self.other.queue.put_nowait(self.meddle(message))

    async def recv(self) -> bytes:
        return await self.queue.get()

    async def close(self) -> None:
        return


def pipes() -> tuple[Pipe, Pipe]:
    left, right = Pipe(), Pipe()
    left.other, right.other = right, left
    return left, right


async def shake(first: dict[str, Any], second: dict[str, Any]) -> list[BaseException | None]:
    left, right = pipes()
    ends = [
        Handshake(left, initiator=True, **{"software": "left 1", "token": None, **first}),
        Handshake(right, initiator=False, **{"software": "right 2", "token": None, **second}),
    ]
    async with asyncio.timeout(5):
        results = await asyncio.gather(*(end.open() for end in ends), return_exceptions=True)
    return [r if isinstance(r, BaseException) else None for r in results]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({"versions": 2}, {}, ["no common protocol version", "left 1 speaks V2", "right 2 speaks V1"]),
        ({}, {"versions": 0}, ["no common protocol version", "speaks none"]),
        ({"requires": ("warp",)}, {}, ["left 1 requires warp", "right 2 lacks"]),
        ({}, {"requires": ("warp",)}, ["right 2 requires warp", "left 1 lacks"]),
        ({"token": b"a"}, {"token": b"b"}, ["wrong token"]),
        ({}, {"token": b"b"}, ["token"]),
        ({"token": b"a"}, {}, ["token"]),
    ],
)
def test_a_mismatch_is_a_clear_error_on_both_sides(
    first: dict[str, Any], second: dict[str, Any], words: list[str]
) -> None:
    for error in asyncio.run(shake(first, second)):
        assert isinstance(error, PeerError)
        for word in words:
            assert word in str(error)


def test_what_fits_is_accepted() -> None:
    assert asyncio.run(shake({"versions": 3}, {"versions": 1})) == [None, None]
    assert asyncio.run(shake({"token": b"a"}, {"token": b"a"})) == [None, None]


def test_a_changed_message_is_noticed() -> None:
    async def run() -> BaseException:
        left, right = pipes()
        a = Handshake(left, initiator=True, software="l", token=b"t")
        b = Handshake(right, initiator=False, software="r", token=b"t")
        await asyncio.gather(a.open(), b.open())
        left.meddle = lambda message: message.replace(b"4791", b"4792")
        await a.send({"type": "offer", "port": 4791})
        with pytest.raises(PeerError, match="changed on its way") as caught:
            await b.recv("offer")
        return caught.value

    asyncio.run(run())


@pytest.mark.parametrize(
    "made_up", [str, lambda _: "0" * 64, lambda _: "", lambda _: None, lambda _: "\u00e9", lambda _: 5]
)
def test_a_made_up_proof_is_useless(made_up: Callable[[str], object]) -> None:
    async def run() -> None:
        left, right = pipes()
        b = Handshake(right, initiator=False, software="r", token=b"t")
        task = asyncio.create_task(b.open())
        hello = Hello(
            software="x", versions=1, capabilities=("mailbox-1",), requires=(), nonce="0" * 64, auth=True
        )
        await left.send(json.dumps(hello.to_json()).encode())
        theirs = decode(await left.recv())
        await left.send(json.dumps({"type": "proof", "mac": made_up(theirs["nonce"])}).encode())
        with pytest.raises(PeerError, match="wrong token"):
            await task

    asyncio.run(run())


def test_over_any_exchange(open_endpoint: Opener) -> None:
    """The channel is pluggable; here a pair of queues."""
    a, b = open_endpoint("127.0.0.1"), open_endpoint("127.0.0.2")

    async def run() -> None:
        left, right = pipes()
        client, server = await asyncio.gather(
            a.connect_over(left, initiator=True, token="t"), b.connect_over(right, initiator=False, token="t")
        )
        await client.send_message(b"hello")
        assert await server.recv_message() == b"hello"
        assert client.peer_generation == b.generation

    asyncio.run(run())


def _tcp(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.3", port), timeout=10)


def _frame(message: object) -> bytes:
    body = json.dumps(message).encode()
    return struct.pack(">I", len(body)) + body


def _read_all(sock: socket.socket) -> bytes:
    out = b""
    try:
        while piece := sock.recv(65536):
            out += piece
    except ConnectionResetError:
        pass
    return out


HELLO = {
    "type": "hello", "software": "x", "versions": 1, "capabilities": ["mailbox-1"], "requires": [],
    "nonce": "0" * 64, "auth": True,
}  # fmt: skip


def test_a_stranger_learns_nothing(open_endpoint: Opener) -> None:
    ep = open_endpoint("127.0.0.3")
    with ep.listen(0, expose=bytearray(10), token="right") as server:
        for proof in ({"type": "proof", "mac": "0" * 64}, {"type": "offer"}, HELLO):
            with _tcp(server.port) as sock:
                sock.sendall(_frame(HELLO) + _frame(proof))
                said = _read_all(sock)
            assert b"hello" in said
            for secret in (b"qpn", b"psn", b"rkey", b"addr", b"generation", b"127.0.0"):
                assert secret not in said
        assert ep.ctx.driver.qp_count() == 0
        assert len(server.refused) == 3
        a = open_endpoint("127.0.0.1")
        for token in ("wrong", None):
            with pytest.raises(PeerError, match="token"):
                a.connect_sync("127.0.0.3", server.port, token=token)
        conn = a.connect_sync("127.0.0.3", server.port, token=b"right")
        conn.send_message(b"in")
        assert server.accept(20).recv_message_sync(20) == b"in"
    with pytest.raises(UsageError, match="empty token"):
        ep.listen(0, token="")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">I", MAX_MESSAGE + 1),
        _frame([1, 2]),
        _frame({"type": "offer"}),
        _frame({**HELLO, "nonce": 5}),
        _frame({**HELLO, "versions": True}),
        _frame({**HELLO, "capabilities": ["x" * 1000]}),
        struct.pack(">I", 40) + b"[" * 40,
    ],
)
def test_garbage_is_refused_at_once(
    open_endpoint: Opener, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="softmrc")  # commands that ran before may have quieted it
    ep = open_endpoint("127.0.0.3")
    with ep.listen(0) as server:
        with _tcp(server.port) as sock:
            sock.sendall(sent)
            _read_all(sock)
        assert len(server.refused) == 1
        peer, reason = server.refused[0]
        assert peer not in reason
        said = [r.getMessage() for r in caplog.records if "refused" in r.getMessage()]
        assert len(said) == 1
        assert said[0].count(peer) == 1
        conn = open_endpoint("127.0.0.1").connect_sync("127.0.0.3", server.port)
        assert conn.send_message(b"x").result(20) == 1


def test_silence_is_cut_off(open_endpoint: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HANDSHAKE_SECONDS", 0.2)
    with open_endpoint("127.0.0.3").listen(0) as server, _tcp(server.port) as sock:
        assert _read_all(sock) == b""
        assert "0.2 s" in server.refused[0][1]


def test_strangers_are_few_at_a_time(open_endpoint: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "MAX_HANDSHAKES", 4)
    monkeypatch.setattr(listener, "_EVICT_AFTER", 0.3)
    with open_endpoint("127.0.0.3").listen(0) as server:
        idle = [_tcp(server.port) for _ in range(4)]
        # All places are taken; the real peer is told to come again, the oldest stranger makes room for it.
        conn = open_endpoint("127.0.0.1").connect_sync("127.0.0.3", server.port, timeout=5)
        assert conn.send_message(b"x").result(20) == 1
        assert any("made room" in reason for _, reason in server.refused)
        for sock in idle:
            sock.close()


def test_many_peers_at_once(open_endpoint: Opener) -> None:
    """B65 in small: more peers than places."""
    server = open_endpoint("127.0.0.3").listen(0)
    client = open_endpoint("127.0.0.1", notification_depth=8, send_depth=8)

    async def run() -> None:
        conns = await asyncio.gather(
            *(client.connect("127.0.0.3", server.port, timeout=30) for _ in range(100))
        )
        assert len({c._data.qp_num for c in conns}) == 100

    asyncio.run(run())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 1 << 65) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
GOOD: dict[str, Any] = {
    "name": "n", "generation": "g", "pmtu": 4096, "mpr_dest": 8, "max_wimm_dest": 128,
    "dynamic_mpr": False, "trim_nack": True, "svc_time": False, "window": {"addr": 1, "rkey": 2, "length": 3},
    "planes": [{"number": 1, "address": "127.0.0.1", "udp_port": 5, "mtu": 1500, "rcvbuf": 1}],
    "data": {"qpn": 16, "psn": 0}, "mail": {"qpn": 17, "psn": 0xFFFFFF},
    "mailbox": {"addr": 0, "rkey": 0, "slots": 32, "slot_size": 16384},
}  # fmt: skip


def _paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [at, *(path for key, inner in children for path in _paths(inner, (*at, key)))]


def _put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = _put(copy[path[0]], path[1:], new)
    return copy


def test_the_good_offer_is_good() -> None:
    offer = Offer.from_json(GOOD)
    assert Offer.from_json(json.loads(json.dumps(offer.to_json()))) == offer


@given(st.sampled_from([p for p in _paths(GOOD) if p]), JSON)
def test_a_hostile_offer_is_refused_or_well_formed(path: tuple[Any, ...], new: Any) -> None:
    try:
        offer = Offer.from_json(_put(GOOD, path, new))
    except PeerError:
        return
    assert 3 <= offer.data.qpn <= 0xFFFFFF
    assert 0 <= offer.data.psn <= 0xFFFFFF
    assert all(1 <= p.udp_port <= 65535 for p in offer.planes)


@given(st.binary(max_size=200))
def test_any_bytes_may_come(data: bytes) -> None:
    try:
        message = decode(data)
    except PeerError:
        return
    assert isinstance(message["type"], str)


def test_tcp_may_die_once_the_connection_is_up(open_endpoint: Opener) -> None:
    a, b = open_endpoint("127.0.0.1"), open_endpoint("127.0.0.3")
    server = b.listen(0, expose=bytearray(10))
    client = a.connect_sync("127.0.0.3", server.port)
    conn = server.accept(20)
    server.close()
    client.write(b"still here", client.remote_window_sync(20), imm=1).result(20)
    assert conn.recv_notification(20).imm == 1


def test_udp_that_does_not_pass_is_said_at_set_up(
    open_endpoint: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "PROOF_SECONDS", 0.5)
    a, b = open_endpoint("127.0.0.1"), open_endpoint("127.0.0.3")
    b.impair([{"down": True}])
    with b.listen(0) as server, pytest.raises(PeerError, match="no MRC packet comes back"):
        a.connect_sync("127.0.0.3", server.port)


def test_constant_time_compare_is_used() -> None:
    """The proof and every sealed message are compared by `hmac.compare_digest`."""
    source = Path(handshake.__file__).read_text()
    assert source.count("compare_digest") == 2
    assert not re.search(r"mac\w*\s*[!=]=", source)


def test_strangers_cannot_fill_a_log(open_endpoint: Opener, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="softmrc")  # commands under test quiet it
    listener = open_endpoint("127.0.0.1").listen("127.0.0.1", 0)
    for _ in range(40):
        with socket.create_connection(("127.0.0.1", listener.port), 5) as stranger:
            stranger.sendall(b"\xff" * 64)
            stranger.settimeout(5)
            while stranger.recv(4096):
                pass
    assert len(listener.refused) == 40
    assert len([r for r in caplog.records if "refused" in r.getMessage()]) == 5
