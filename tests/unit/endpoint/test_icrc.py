"""The iCRC: on unless both ends ask to leave it off, and nothing that comes later changes what was agreed."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.endpoint.conftest import PLANES_A, PLANES_B, Joined, Opener
from tests.unit.endpoint.test_agreement import LEFT, RIGHT

from softmrc import Connection, PeerError, UsageError
from softmrc.endpoint.mailbox import Kind
from softmrc.endpoint.offer import Agreement, Offer
from softmrc.endpoint.steering import guarded
from softmrc.errors import VerbsError
from softmrc.verbs import QPAttr, SoftQPAttr
from softmrc.wire import encode_layer

Join = Callable[..., Joined]


def asked(conn: Connection) -> set[Any]:
    """Return what the queue pairs of a connection were told."""
    driver = conn._ep.ctx.driver
    return {driver.query_qp(number).get("icrc", True) for number in conn.qp_numbers}


def write_over(joined: Joined) -> bytes:
    data = bytes(range(256)) * 64
    joined.client.write(data, joined.client.remote_window_sync(20), imm=1).result(20)
    assert joined.server.recv_notification(20).imm == 1
    return bytes(joined.memory[: len(data)]) if joined.memory[: len(data)] == data else b""


def pair(open_endpoint: Opener, first: bool, second: bool, **more: Any) -> Joined:
    a, b = open_endpoint(*PLANES_A, icrc=first), open_endpoint(*PLANES_B, icrc=second)
    memory = bytearray(1 << 16)
    listener = b.listen(0, expose=memory, **more)
    client = a.connect_sync(PLANES_B[0], listener.port, **more)
    return Joined(a, b, listener, client, listener.accept(20), memory)


@pytest.mark.parametrize(
    ("first", "second", "on"),
    [(True, True, True), (False, True, True), (True, False, True), (False, False, False)],
)
def test_it_takes_both(open_endpoint: Opener, first: bool, second: bool, on: bool) -> None:
    joined = pair(open_endpoint, first, second)
    for conn in (joined.client, joined.server):
        assert conn.icrc is on
        assert asked(conn) == {on}
    assert write_over(joined)
    for ep in (joined.a, joined.b):
        assert ep.stats().drops["bad_icrc"] == 0


@pytest.mark.parametrize("icrc", [True, False])
def test_damage_is_noticed_where_there_is_an_icrc(open_endpoint: Opener, icrc: bool) -> None:
    """One end asks in vain: what its packets lose on the way is dropped and sent again."""
    joined = pair(open_endpoint, icrc, True)
    joined.a.impair([{"corrupt": 0.1}])
    for _ in range(30):
        assert write_over(joined)
    assert joined.b.stats().drops["bad_icrc"] > 0


def forged(conn: Connection, payload: bytes, trailer: bytes | None) -> bytes:
    """Return a whole write of the connection's peer as a stranger would make it, who has guessed everything."""
    offer = conn._offer
    window = conn.remote_window_sync(20)
    ib = {
        "BTH": {"opcode": 0xCA, "dqp": offer.data.qpn, "psn": conn._data.query()[0].sq_psn, "a": 1},
        "METH": {"rqmsn": 0, "msn": 0},
        "RETH": {"va": window.addr, "r_key": window.rkey, "dmalen": len(payload)},
        "payload_hex": payload.hex(),
    }
    body = encode_layer("IB", ib)
    return body + (trailer if trailer is not None else bytes(4))


@pytest.mark.parametrize(("first", "second"), [(True, True), (False, True)])
def test_a_packet_that_says_it_has_none_is_dropped(open_endpoint: Opener, first: bool, second: bool) -> None:
    """Somebody who knows all numbers, and the connection's own peer, send 0 in place of the iCRC."""
    joined = pair(open_endpoint, first, second)
    to = joined.client.routes[0]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.bind((PLANES_A[0], 0))
        for _ in range(3):
            stranger.sendto(forged(joined.client, b"owned!!!", None), (to.address, to.udp_port))
    assert write_over(joined)
    assert joined.b.stats().drops["bad_icrc"] == 3
    assert b"owned" not in joined.memory


def test_where_it_is_off_a_wrong_one_is_dropped_all_the_same(open_endpoint: Opener) -> None:
    joined = pair(open_endpoint, False, False)
    to = joined.client.routes[0]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.bind((PLANES_A[0], 0))
        stranger.sendto(forged(joined.client, b"owned!!!", b"\1\2\3\4"), (to.address, to.udp_port))
    assert write_over(joined)
    assert joined.b.stats().drops["bad_icrc"] == 1
    assert b"owned" not in joined.memory


def test_nothing_said_later_changes_it(joined: Joined) -> None:
    """Control messages of the peer, and attributes of a live queue pair."""
    for word in ({"icrc": False}, {"icrc_off": True}, {"type": "pairs", "icrc": False}):
        joined.client._send_mail(Kind.CONTROL, json.dumps(word).encode()).result(20)
    for conn in (joined.client, joined.server):
        with pytest.raises(VerbsError):
            conn._data.modify(QPAttr(), None, SoftQPAttr(icrc=False))
        assert conn.icrc
        assert asked(conn) == {True}
    assert write_over(joined)


def test_a_message_of_the_set_up_that_says_otherwise_is_refused(
    open_endpoint: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A meddler in the middle of a set-up without a token turns what was agreed round."""
    honest = Agreement.to_json
    monkeypatch.setattr(
        Agreement, "to_json", lambda self, kind: {**honest(self, kind), "icrc": not self.icrc}
    )
    for asks in (True, False):
        listener = open_endpoint(*PLANES_B, icrc=asks).listen(0)
        with pytest.raises(PeerError):
            open_endpoint(*PLANES_A, icrc=asks).connect_sync(PLANES_B[0], listener.port)
        assert "malformed: icrc" in listener.refused[0][1]


def test_a_meddler_cannot_ask_for_both_where_there_is_a_token(
    open_endpoint: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    from softmrc.endpoint.exchange import TcpExchange

    honest = TcpExchange.send

    async def meddle(self: TcpExchange, message: bytes) -> None:
        await honest(self, message.replace(b'\\"icrc_off\\":false', b'\\"icrc_off\\":true'))

    monkeypatch.setattr(TcpExchange, "send", meddle)
    b = open_endpoint(*PLANES_B, icrc=False)
    listener = b.listen(0, token="secret")
    with pytest.raises(PeerError):
        open_endpoint(*PLANES_A).connect_sync(PLANES_B[0], listener.port, token="secret")
    assert "changed on its way" in listener.refused[0][1]
    assert not b.hub.connections()


def test_an_older_end_says_nothing_and_keeps_it() -> None:
    data = json.loads(json.dumps(LEFT.to_json()))
    del data["icrc_off"]
    older = Offer.from_json(data)
    asks = replace(RIGHT, icrc_off=True)
    assert older.keeps_icrc(asks)
    assert asks.keeps_icrc(older)
    assert not asks.keeps_icrc(asks)
    said = {"type": "pairs", "pairs": [[1, 2]], "pmtu": 1408}
    assert Agreement.from_json(said, older, asks).icrc
    for wrong in (False, None, 0, "no"):
        with pytest.raises(PeerError, match="icrc"):
            Agreement.from_json({**said, "icrc": wrong}, older, asks)


def test_something_guards_every_plane() -> None:
    planes = [{"address": "fd00::1"}, {"address": "fd00::2", "udp_checksum": False}]
    assert guarded(planes, icrc=True) == planes
    assert guarded(planes[:1], icrc=False) == planes[:1]
    with pytest.raises(UsageError, match="fd00::2 sends without a UDP checksum"):
        guarded(planes, icrc=False)
    with pytest.raises(UsageError, match="fd00::3 sends without"):
        guarded([{"address": "fd00::3", "gateway": "127.0.0.1:4000"}], icrc=False)
