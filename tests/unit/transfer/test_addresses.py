from __future__ import annotations

import socket

import pytest

from softmrc.device import Interface, host_interfaces
from softmrc.errors import UsageError
from softmrc.transfer import addresses
from softmrc.transfer.addresses import (
    DEFAULT_PORT,
    Destination,
    family_of,
    local_address_for,
    parse_address_list,
    parse_destinations,
    parse_remote_list,
    routes_to_planes,
)


@pytest.mark.parametrize(
    ("text", "hosts", "port"),
    [
        ("10.0.0.2", ["10.0.0.2"], DEFAULT_PORT),
        ("10.0.0.2:99", ["10.0.0.2"], 99),
        ("node7:99,10.1.0.2", ["node7", "10.1.0.2"], 99),
        ("[fd00::2]:99", ["fd00::2"], 99),
        ("[fd00::2]", ["fd00::2"], DEFAULT_PORT),
        ("fd00::2,fd01::2", ["fd00::2", "fd01::2"], DEFAULT_PORT),
        ("fe80::1%eth1", ["fe80::1%eth1"], DEFAULT_PORT),
    ],
)
def test_destinations(text, hosts, port):
    assert parse_destinations(text) == [Destination(h, port) for h in hosts]


@pytest.mark.parametrize(
    "text", ["", ",", "a:0", "a:65536", "a:x", "a:", "[fd00::2", "[fd00::2]x", "a:1,b:2", "1:2:3:zz", ":5"]
)
def test_bad_destinations(text):
    with pytest.raises(UsageError):
        parse_destinations(text)


@pytest.mark.parametrize("text", ["", "host", "0.0.0.0", "::", "10.0.0.1,10.0.0.1"])
def test_bad_local_addresses(text):
    with pytest.raises(UsageError):
        parse_address_list(text)


def test_loopback_leads_to_itself():
    assert local_address_for("127.0.0.7") == ("127.0.0.7", "127.0.0.7")


def test_names_of_interfaces_are_local_addresses():
    assert parse_address_list("lo", 4) == ["127.0.0.1"]
    assert parse_address_list("127.0.0.0/8, 127.0.0.3") == ["127.0.0.1", "127.0.0.3"]
    with pytest.raises(UsageError, match="doctor"):
        parse_address_list("no-such-nic")


def resolver(*addresses):
    def resolve(host, port, *rest, **named):
        if host != "node":
            return getaddrinfo(host, port, *rest, **named)
        return [info for a in addresses for info in getaddrinfo(a, port, *rest, **named)]

    getaddrinfo = socket.getaddrinfo
    return resolve


def test_a_name_that_means_loopback_as_well_is_taken_at_its_other_address(monkeypatch):
    """B27: /etc/hosts maps the name of a host to 127.0.1.1."""
    real = next((a for i in host_interfaces() if i.up and not i.loopback for a in i.addresses), "127.0.0.9")
    monkeypatch.setattr(socket, "getaddrinfo", resolver("127.0.1.1", real))
    assert local_address_for("node") == (real, real)


def test_an_address_without_a_route_is_passed_over(monkeypatch):
    """B29: the first family of a name has no route here."""
    monkeypatch.setattr(socket, "getaddrinfo", resolver("fe80::1", "127.0.0.9"))
    assert local_address_for("node") == ("127.0.0.9", "127.0.0.9")


@pytest.mark.parametrize(
    ("host", "why"), [("fe80::1", "needs its interface"), ("no.such.invalid", "resolve")]
)
def test_no_way(host, why):
    with pytest.raises(UsageError, match=why):
        local_address_for(host)


HOST = [
    Interface(name="lo", up=True, loopback=True, virtual=False, mtu=65536, addresses=("127.0.0.1", "::1")),
    Interface(name="eth1", up=True, loopback=False, virtual=False, mtu=1500, addresses=("10.1.0.1",)),
    Interface(name="docker0", up=True, loopback=False, virtual=True, mtu=1500, addresses=("172.17.0.1",)),
]
ROUTES = {
    "10.1.0.2": "10.1.0.1",
    "172.17.0.1": "172.17.0.1",
    "172.17.0.2": "172.17.0.1",
    "10.1.0.1": "10.1.0.1",
}


@pytest.fixture
def host(monkeypatch):
    monkeypatch.setattr(addresses, "host_interfaces", lambda: HOST)
    monkeypatch.setattr(
        addresses, "source_toward", lambda a: a if a.startswith("127.") or "%" in a else ROUTES.get(a)
    )


@pytest.mark.parametrize(
    ("planes", "dialled", "want"),
    [
        (["10.1.0.2", "10.9.0.2"], ("10.1.0.1", "10.1.0.2"), ["10.1.0.2"]),  # no route
        (["10.1.0.2", "172.17.0.1"], ("10.1.0.1", "10.1.0.2"), ["10.1.0.2"]),  # our docker0's address as well
        (["10.1.0.2", "172.17.0.2"], ("10.1.0.1", "10.1.0.2"), ["10.1.0.2"]),  # a container of ours
        (["172.17.0.2"], ("172.17.0.1", "172.17.0.2"), ["172.17.0.2"]),  # asked for
        (["10.1.0.2", "127.0.0.1"], ("10.1.0.1", "10.1.0.2"), ["10.1.0.2"]),  # loopback of another host
        (["127.0.0.3", "127.0.0.4"], ("127.0.0.3", "127.0.0.3"), ["127.0.0.3", "127.0.0.4"]),
        (["10.1.0.1", "127.0.0.1"], ("10.1.0.1", "10.1.0.1"), ["10.1.0.1", "127.0.0.1"]),  # this host
    ],
)
def test_planes_of_a_peer_that_this_host_can_reach(host, planes, dialled, want):
    usable, reasons = routes_to_planes(planes, [dialled])
    assert [remote for _, remote in usable] == want
    assert len(reasons) == len(planes) - len(want)


def test_the_scope_that_was_dialled_is_kept(host):
    """B28: a peer does not say the scopes of its planes: they are of this host."""
    dialled = ("fe80::1%lo", "fe80::2%lo")
    usable, _ = routes_to_planes(["fe80::2"], [dialled])
    assert [remote for _, remote in usable] == ["fe80::2%lo"]


def test_addresses_of_another_host_are_no_names_of_ours():
    assert parse_remote_list("10.0.0.1, [fd00::1]") == ["10.0.0.1", "fd00::1"]
    for text in ("lo", "10.0.0.0/8", "^lo", "", "10.0.0.1,10.0.0.1"):
        with pytest.raises(UsageError):
            parse_remote_list(text)


def test_the_family_of_a_host():
    assert (family_of("127.0.0.1"), family_of("::1")) == (4, 6)
