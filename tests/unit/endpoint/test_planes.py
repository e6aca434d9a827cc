"""Planes as they are written: interfaces, prefixes, exclusions (B27, B28, B29)."""

from __future__ import annotations

import ipaddress
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.endpoint.conftest import Opener

from softmrc import Plane, UsageError
from softmrc.device import Interface, host_interfaces
from softmrc.endpoint.planes import choose_address, expand_planes, ipv6_is_off


def interface(name: str, *addresses: str, up: bool = True, virtual: bool = False) -> Interface:
    return Interface(
        name=name, up=up, loopback=name == "lo", virtual=virtual, mtu=1500, addresses=tuple(addresses)
    )


# lo, a container bridge and its ends, a management network, a fabric of four, one NIC with nothing routable.
HOST = [
    interface("lo", "127.0.0.1", "::1"),
    interface("docker0", "172.17.0.1", "fe80::d%docker0", virtual=True),
    interface("veth12ab", "fe80::ab%veth12ab"),
    interface("eth0", "192.168.1.5", "fe80::e0%eth0"),
    interface("eth1", "10.1.0.1", "fd00:1::1", "fe80::e1%eth1"),
    interface("eth2", "fe80::e2%eth2", "fd00:2::1"),
    interface("eth3", "10.3.0.1"),
    interface("eth4", "fe80::e4%eth4"),
    interface("eth5", "fd00:5::1", up=False),
]


def chosen(*texts: str | Plane, family: int | None = None, host: list[Interface] | None = None) -> list[str]:
    return [p.address for p in expand_planes(texts, lambda: HOST if host is None else host, family)]


@pytest.mark.parametrize(
    ("texts", "want"),
    [
        (["eth1,eth2"], ["fd00:1::1", "fd00:2::1"]),
        (["eth2", "eth1"], ["fd00:2::1", "fd00:1::1"]),
        (["eth3"], ["10.3.0.1"]),
        (["eth4"], ["fe80::e4%eth4"]),
        (["lo"], ["::1"]),
        (["docker0"], ["172.17.0.1"]),
        (["=eth1"], ["fd00:1::1"]),
        (["eth"], ["192.168.1.5", "fd00:1::1", "fd00:2::1", "10.3.0.1", "fe80::e4%eth4"]),
        (["eth[12]"], ["fd00:1::1", "fd00:2::1"]),
        (["10.1.0.0/16,10.3.0.0/16"], ["10.1.0.1", "10.3.0.1"]),
        (["fd00::/8"], ["fd00:1::1", "fd00:2::1"]),
        (["10.0.0.0/8"], ["10.1.0.1", "10.3.0.1"]),
        (["fe80::/10,^docker0,^veth"], ["fe80::e0%eth0", "fe80::e1%eth1", "fe80::e2%eth2", "fe80::e4%eth4"]),
        (["^docker0,lo"], ["192.168.1.5", "fd00:1::1", "fd00:2::1", "10.3.0.1"]),
        (["^lo,docker", "^eth0"], ["fd00:1::1", "fd00:2::1", "10.3.0.1"]),
        (["^192.168.0.0/16"], ["fd00:1::1", "fd00:2::1", "10.3.0.1"]),
        (["^fd00::/8,eth0"], ["10.1.0.1", "10.3.0.1"]),
        (["eth", "^eth0,eth4"], ["fd00:1::1", "fd00:2::1", "10.3.0.1"]),
        (["eth*,^eth0,^eth4"], ["fd00:1::1", "fd00:2::1", "10.3.0.1"]),
        (["fe80::e1%eth1"], ["fe80::e1%eth1"]),
        (["eth1,192.168.1.5,fd00:2::/32"], ["fd00:1::1", "192.168.1.5", "fd00:2::1"]),
        (["eth1,fd00::/8"], ["fd00:1::1", "fd00:2::1"]),
        ([" [fd00:1::1] , eth3 "], ["fd00:1::1", "10.3.0.1"]),
    ],
)
def test_what_is_meant(texts: list[str], want: list[str]) -> None:
    assert chosen(*texts) == want


def test_the_family_of_the_peer_is_preferred() -> None:
    """B29."""
    assert chosen("eth1,eth2,eth3", family=4) == ["10.1.0.1", "fd00:2::1", "10.3.0.1"]
    assert chosen("eth1,eth3", family=6) == ["fd00:1::1", "10.3.0.1"]
    assert chosen("lo", family=4) == ["127.0.0.1"]


def test_only_link_local_interfaces_are_used_when_there_is_nothing_else() -> None:
    """B28."""
    host = [
        interface("lo", "127.0.0.1"),
        interface("eth0", "fe80::1%eth0"),
        interface("eth1", "fe80::2%eth1"),
    ]
    assert chosen("^lo", host=host) == ["fe80::1%eth0", "fe80::2%eth1"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ib0", r"interface of this host, which has lo \(127\.0\.0\.1, ::1\), docker0"),
        ("=eth", "not an IPv4"),
        ("node7", "not an IPv4"),
        ("", "not an IPv4"),
        (",", "not an IPv4"),
        ("10.9.0.0/16", "no address of this host is in"),
        ("10.1.0.0/99", "no prefix"),
        ("x/8", "no prefix"),
        ("fe80::e1", "needs its interface"),
        ("^eth,lo,veth", "leaves no plane"),
        ("eth1,^eth1", "leaves no plane"),
    ],
)
def test_what_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        chosen(text)


def test_an_interface_without_address() -> None:
    with pytest.raises(UsageError, match="eth9 has no address"):
        chosen("eth9", host=[interface("eth9")])
    with pytest.raises(UsageError, match="no interface"):
        chosen("eth9", host=[])


def test_options_of_a_plane_go_to_all_that_it_means() -> None:
    planes = expand_planes([Plane(address="eth1,eth2", evs=4, udp_port=7000)], lambda: HOST)
    assert [(p.address, p.evs, p.udp_port) for p in planes] == [
        ("fd00:1::1", 4, 7000),
        ("fd00:2::1", 4, 7000),
    ]


def test_addresses_need_no_look_at_the_host() -> None:
    def never() -> list[Interface]:
        raise AssertionError

    planes = expand_planes(["127.0.0.1,127.0.0.2", "::ffff:10.0.0.1"], never)
    assert [p.address for p in planes] == ["127.0.0.1", "127.0.0.2", "10.0.0.1"]


def test_ipv6_off() -> None:
    assert not ipv6_is_off(HOST)
    assert ipv6_is_off([interface("lo", "127.0.0.1"), interface("eth0", "10.0.0.1")])


V4 = st.ip_addresses(v=4).filter(lambda a: not (a.is_unspecified or a.is_multicast))
V6 = st.ip_addresses(v=6).filter(
    lambda a: not (a.is_unspecified or a.is_multicast or a.is_link_local) and a.ipv4_mapped is None
)
NAMES = st.text("abe0123", min_size=1, max_size=4)


@st.composite
def hosts(draw: st.DrawFn) -> list[Interface]:
    names = draw(st.lists(NAMES, unique=True, min_size=1, max_size=6))
    addresses = draw(
        st.lists(V4 | V6, unique=True, min_size=len(names), max_size=3 * len(names)).map(
            lambda found: [str(a) for a in found]
        )
    )
    return [
        Interface(
            name=n,
            up=draw(st.booleans()),
            loopback=i == 0,
            virtual=draw(st.booleans()),
            mtu=1500,
            addresses=tuple(addresses[i :: len(names)]),
        )
        for i, n in enumerate(names)
    ]


@given(hosts(), NAMES)
def test_an_exclusion_leaves_what_is_physical_up_and_not_named(host: list[Interface], name: str) -> None:
    named = {i.name for i in host if i.name == name}
    out = {i.name for i in host if i.name == name or (not named and i.up and i.name.startswith(name))}
    want = [
        choose_address(i) for i in host if i.up and not i.loopback and not i.virtual and i.name not in out
    ]
    routable = [a for a in want if not ipaddress.ip_address(a).is_link_local]
    if not want:
        with pytest.raises(UsageError, match="leaves no plane"):
            chosen(f"^{name}", host=host)
    else:
        assert chosen(f"^{name}", host=host) == (routable or want)


@given(hosts(), st.sampled_from([4, 6, None]))
def test_all_names_give_one_address_each_of_the_preferred_family(
    host: list[Interface], family: int | None
) -> None:
    found = chosen(",".join(f"={i.name}" for i in host), host=host, family=family)
    assert len(found) == len(host)
    for address, i in zip(found, host, strict=True):
        assert address in i.addresses
        routable = [a for a in i.addresses if not ipaddress.ip_address(a).is_link_local]
        versions = {ipaddress.ip_address(a).version for a in routable}
        if (family or 6) in versions and not any(ipaddress.ip_address(a).is_loopback for a in i.addresses):
            assert ipaddress.ip_address(address).version == (family or 6)


def test_the_interfaces_of_this_host() -> None:
    found = {i.name: i for i in host_interfaces()}
    assert found["lo"].loopback
    assert not found["lo"].virtual
    assert "127.0.0.1" in found["lo"].addresses
    assert all("%" in a for i in found.values() for a in i.addresses if a.startswith("fe80"))


def test_endpoints_take_them(open_endpoint: Opener, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "softmrc.paths"):
        ep = open_endpoint(Plane(address="127.0.0.0/8", evs=3))
    assert [(p.address, len(p.evs)) for p in ep.planes] == [("127.0.0.1", 3)]
    assert sum("planes are 127.0.0.1" in r.getMessage() for r in caplog.records) == 1
    with pytest.raises(UsageError, match="not an IPv4 or IPv6 address, prefix or interface"):
        open_endpoint("127.0.0.1", "no-such-nic")
