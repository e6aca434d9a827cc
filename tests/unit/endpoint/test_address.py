"""Addresses and pairs of planes (B28, B29, B60)."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.endpoint.conftest import Opener

from softmrc import PeerError, UsageError
from softmrc.endpoint.address import pair_planes, parse_plane


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("127.0.0.1", "127.0.0.1"),
        (" 10.0.0.1 ", "10.0.0.1"),
        ("fd00::1", "fd00::1"),
        ("[fd00::1]", "fd00::1"),
        ("FD00:0:0::01", "fd00::1"),
        ("fe80::1%eth1", "fe80::1%eth1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::1", "::1"),
    ],
)
def test_forms_of_an_address(given: str, kept: str) -> None:
    assert parse_plane(given).address == kept


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("fe80::1", "interface"),
        ("localhost", "not an IPv4"),
        ("10.0.0.1:4791", "not an IPv4"),
        ("", "not an IPv4"),
        ("0.0.0.0", "one interface"),
        ("::", "one interface"),
        ("ff02::1", "one interface"),
    ],
)
def test_what_is_no_plane(given: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_plane(given)


@dataclass(frozen=True)
class P:
    number: int
    address: str


def planes(*addresses: str) -> list[P]:
    return [P(i + 1, a) for i, a in enumerate(addresses)]


def test_pairs() -> None:
    assert pair_planes(planes("10.0.0.1", "10.0.1.1"), planes("10.0.0.2", "10.0.1.2")) == [(1, 1), (2, 2)]
    assert pair_planes(planes("10.0.0.1", "fd00::1"), planes("fd00::2", "10.0.0.2")) == [(1, 2), (2, 1)]
    assert pair_planes(planes("10.0.0.1"), planes("fd00::2", "10.0.0.2", "10.0.1.2")) == [(1, 2)]
    assert pair_planes(planes("10.0.0.1"), planes("fd00::2")) == []
    assert pair_planes(planes("127.0.0.1"), planes("10.0.0.2")) == [], "loopback reaches no other host (B27)"
    assert pair_planes(planes("fe80::1"), planes("fe80::2")) == [(1, 1)]


KINDS = st.lists(st.sampled_from(["127.0.0.1", "10.0.0.1", "fd00::1", "::1", "fe80::1"]), max_size=8)


@given(KINDS, KINDS)
def test_pairs_are_one_to_one_and_as_many_as_fit(left: list[str], right: list[str]) -> None:
    pairs = pair_planes(planes(*left), planes(*right))
    assert len({a for a, _ in pairs}) == len({b for _, b in pairs}) == len(pairs)
    assert all(left[a - 1] == right[b - 1] for a, b in pairs)
    assert len(pairs) == sum(min(left.count(k), right.count(k)) for k in set(left))


def test_mixed_families_are_refused_on_both_sides(open_endpoint: Opener) -> None:
    """B29: a clear error within 5 seconds."""
    four, six = open_endpoint("127.0.0.1"), open_endpoint("::1")
    server = six.listen("127.0.0.1", 0)
    started = time.monotonic()
    with pytest.raises(
        PeerError, match=r"no common address family.*127\.0\.0\.1 \(IPv4 loopback\).*::1 \(IPv6 loopback\)"
    ):
        four.connect_sync("127.0.0.1", server.port)
    assert time.monotonic() - started < 5
    while not server.refused:  # the other thread is about to write it down
        time.sleep(0.001)
    assert "no common address family" in server.refused[0][1]


def test_the_common_family_is_chosen_per_plane(open_endpoint: Opener) -> None:
    a, b = open_endpoint("127.0.0.1", "::1"), open_endpoint("::1", "127.0.0.1")
    conn = a.connect_sync("127.0.0.1", b.listen("127.0.0.1", 0).port)
    assert conn.planes == (1, 2)
    assert conn.send_message(bytes(1 << 20)).result(20) == 1 << 20
    assert {p.plane for p in conn.stats().paths} == {1, 2}


def test_ipv6_planes(open_endpoint: Opener) -> None:
    a, b = open_endpoint("::1"), open_endpoint("::1")
    memory = bytearray(300_000)
    conn = a.connect_sync("::1", b.listen(0, expose=memory).port)
    conn.write(b"6" * 300_000, conn.remote_window_sync(20)).result(20)
    assert memory == b"6" * 300_000
    assert a.planes[0].flow_labels == (not a.planes[0].address.startswith("127."))


def test_different_numbers_of_planes(open_endpoint: Opener, caplog: pytest.LogCaptureFixture) -> None:
    """B60: the common ones are used; said once."""
    a = open_endpoint("127.0.0.1", "127.0.0.2", "127.0.0.5", "127.0.0.6")
    b = open_endpoint("127.0.0.3", "127.0.0.4", "127.0.0.7")
    server = b.listen(0)
    with caplog.at_level(logging.WARNING, "softmrc"):
        conns = [a.connect_sync("127.0.0.3", server.port) for _ in range(3)]
    assert all(c.planes == (1, 2, 3) for c in conns)
    assert conns[0].send_message(b"x" * 100_000).result(20) == 100_000
    from_a = [r.getMessage() for r in caplog.records if r.getMessage().startswith(a.name)]
    assert sum("3 planes" in text and "has 4" in text for text in from_a) == 1


def test_address_lists(open_endpoint: Opener) -> None:
    """Each address is tried; one that does not answer costs a moment, not the connection."""
    a, b = open_endpoint("127.0.0.1"), open_endpoint("127.0.0.3")
    server = b.listen("127.0.0.3", 0)
    conn = a.connect_sync(["127.0.0.9", "127.0.0.8", "127.0.0.3"], server.port)
    assert conn.send_message(b"x").result(20) == 1
    with pytest.raises(PeerError, match="nobody listens on port"):
        a.connect_sync(["127.0.0.9", "127.0.0.8"], server.port)
    for addresses, port in (([], 1), ("127.0.0.1", 0)):
        with pytest.raises(UsageError):
            a.connect_sync(addresses, port)
    with pytest.raises(PeerError, match="no address found"):
        a.connect_sync("no.such.name.invalid", 1)


def test_listening_on_every_plane(open_endpoint: Opener) -> None:
    b = open_endpoint("127.0.0.3", "127.0.0.4")
    server = b.listen()
    assert server.addresses == ("127.0.0.3", "127.0.0.4")
    a = open_endpoint("127.0.0.1", "127.0.0.2")
    for address in server.addresses:
        assert a.connect_sync(address, server.port).send_message(b"x").result(20) == 1


@pytest.mark.parametrize(("pmtu", "want"), [(None, 8192), (256, 256), (1408, 1408)])
def test_pmtu(open_endpoint: Opener, pmtu: int | None, want: int) -> None:
    a, b = open_endpoint("127.0.0.1"), open_endpoint("127.0.0.3", pmtu=pmtu)
    conn = a.connect_sync("127.0.0.3", b.listen(0).port)
    assert conn.pmtu == want
    assert conn.send_message(bytes(10_000)).result(20) == 10_000
