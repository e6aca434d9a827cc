"""Pairs of planes and packet sizes that two ends agree on; what a hostile peer may not make of them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.endpoint.conftest import Opener

from softmrc import PeerError
from softmrc.endpoint.address import pair_planes
from softmrc.endpoint.offer import Agreement, MailboxOffer, Offer, PlaneOffer, QpOffer
from softmrc.endpoint.pathmtu import known_path_mtu, mtu_cause, path_mtu, path_mtus
from softmrc.endpoint.proof import smaller
from softmrc.endpoint.routes import source_toward


def offer(*addresses: str, pmtu: int = 4096) -> Offer:
    return Offer(
        name="x",
        generation="1",
        planes=tuple(
            PlaneOffer(number=i, address=a, udp_port=4791, mtu=1500, rcvbuf=1)
            for i, a in enumerate(addresses, 1)
        ),
        data=QpOffer(qpn=3, psn=0),
        mail=QpOffer(qpn=4, psn=0),
        pmtu=pmtu,
        mpr_dest=8,
        max_wimm_dest=8,
        dynamic_mpr=False,
        trim_nack=False,
        svc_time=False,
        mailbox=MailboxOffer(addr=0, rkey=0, slots=8, slot_size=1024),
        window=None,
    )


LEFT, RIGHT = offer("fd00:1::1", "10.0.0.1", pmtu=2048), offer("10.0.0.2", "fd00:1::2", "fd00:2::2")


def test_an_agreement_goes_there_and_back() -> None:
    said = Agreement(pairs=((1, 2), (2, 1)), pmtu=1408)
    assert Agreement.from_json(json.loads(json.dumps(said.to_json("pairs"))), LEFT, RIGHT) == said


@pytest.mark.parametrize(
    "wrong",
    [
        {"pairs": []},
        {"pairs": "12"},
        {"pairs": [[1]]},
        {"pairs": [[1, 2, 3]]},
        {"pairs": [[1, "2"]]},
        {"pairs": [[True, 2]]},
        {"pairs": [[3, 2]]},  # no such plane here
        {"pairs": [[1, 4]]},  # nor there
        {"pairs": [[1, 0]]},
        {"pairs": [[1, 1]]},  # IPv6 with IPv4
        {"pairs": [[1, 2], [1, 3]]},  # one plane twice
        {"pairs": [[1, 2]] * 32},
        {"pmtu": 192},
        {"pmtu": 1400},
        {"pmtu": 2112},  # more than one of the offers
        {"pmtu": 1408.0},
        {"pmtu": None},
    ],
)
def test_a_hostile_agreement(wrong: dict[str, Any]) -> None:
    with pytest.raises(PeerError, match="malformed"):
        Agreement.from_json({"type": "pairs", "pairs": [[1, 2]], "pmtu": 1408, **wrong}, LEFT, RIGHT)


@given(st.dictionaries(st.sampled_from(["pairs", "pmtu"]), st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3), max_leaves=8
)))  # fmt: skip
def test_any_json_is_an_agreement_or_refused(data: dict[str, Any]) -> None:
    try:
        found = Agreement.from_json(data, LEFT, RIGHT)
    except PeerError:
        return
    assert len({a for a, _ in found.pairs}) == len({b for _, b in found.pairs}) == len(found.pairs) > 0


@dataclass(frozen=True)
class P:
    number: int
    address: str


def planes(*addresses: str) -> list[P]:
    return [P(i, a) for i, a in enumerate(addresses, 1)]


def test_routes_come_before_positions() -> None:
    left = planes("fd00:1::1", "fd00:2::1", "fd00:3::1")
    right = planes("fd00:3::2", "fd00:1::2")
    assert pair_planes(left, right) == [(1, 1), (2, 2)]
    assert pair_planes(left, right, {1: "fd00:3::1", 2: "fd00:1::1"}) == [(1, 2), (3, 1)]
    # One NIC's address leads everywhere, as with all planes in one network: positions decide the rest.
    assert pair_planes(left, right, {1: "fd00:1::1", 2: "fd00:1::1"}) == [(1, 1), (2, 2)]
    assert pair_planes(left, right, {1: None, 2: "fd00:9::9"}) == [(1, 1), (2, 2)]
    assert pair_planes(planes("127.0.0.2", "127.0.0.1"), planes("127.0.0.3"), {1: "127.0.0.1"}) == [(1, 1)]


ADDRESSES = st.lists(
    st.integers(1, 9).map(lambda n: f"10.0.{n}.1") | st.just("fd00::1"), max_size=6, unique=True
)


@given(
    ADDRESSES, ADDRESSES, st.dictionaries(st.integers(1, 6), st.sampled_from(["10.0.1.1", "10.0.2.1", "x"]))
)
def test_routes_change_who_is_paired_but_not_how_many(
    left: list[str], right: list[str], sources: dict[int, str | None]
) -> None:
    by_route = pair_planes(planes(*left), planes(*right), sources)
    plain = pair_planes(planes(*left), planes(*right))
    assert len(by_route) == len(plain)
    assert len({a for a, _ in by_route}) == len({b for _, b in by_route}) == len(by_route)


def test_sizes_to_try_end() -> None:
    sizes = [8960]
    while (size := smaller(sizes[-1])) is not None:
        sizes.append(size)
    assert sizes[-1] == 256
    assert all(s % 64 == 0 for s in sizes)
    assert 1152 in sizes, "IPv6 promises 1280 bytes of packet"


def test_loopback_is_not_asked() -> None:
    assert asyncio.run(path_mtu("127.0.0.1", "127.0.0.2", 65536)) == 65536
    found = asyncio.run(path_mtus([(1, 2)], {1: ("127.0.0.1", 0)}, {2: "127.0.0.2"}))
    assert found == {1: 1500}
    assert known_path_mtu("127.0.0.1", "127.0.0.2") == 65535


def test_an_address_that_is_not_here_is_no_matter_of_size() -> None:
    assert asyncio.run(path_mtu("198.51.100.77", "203.0.113.1", 1500)) == 1500
    assert known_path_mtu("198.51.100.77", "203.0.113.1") is None


def test_what_is_said_about_a_lost_connection() -> None:
    assert mtu_cause([("127.0.0.1", "127.0.0.2")], 8960, 0) == ""
    assert "3 sends were refused" in mtu_cause([("127.0.0.1", "127.0.0.2")], 8960, 3)
    assert "127.0.0.1 to 127.0.0.2 carries 65535" in mtu_cause([("127.0.0.1", "127.0.0.2")], 65500, 0)


def test_loopback_leads_to_itself() -> None:
    assert source_toward("127.0.0.7") == "127.0.0.7"


def test_a_peer_that_answers_with_other_pairs_is_refused(
    open_endpoint: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = open_endpoint("127.0.0.1", "127.0.0.2"), open_endpoint("127.0.0.3", "127.0.0.4")
    honest = Agreement.to_json

    def crossed(self: Agreement, kind: str) -> dict[str, Any]:
        said = honest(self, kind)
        if kind == "ready":
            said["pairs"] = [[1, 2], [2, 1]]
        return said

    monkeypatch.setattr(Agreement, "to_json", crossed)
    with b.listen(0) as server:
        with pytest.raises(PeerError, match="another one"):
            a.connect_sync("127.0.0.3", server.port)
        monkeypatch.undo()
        assert a.connect_sync("127.0.0.3", server.port).send_message(b"x").result(20) == 1
