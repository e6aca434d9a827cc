"""Planes of ranks from what every host has (B27, B28)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from softmrc.collectives.choose import LOOPBACK_PLANES, Card, card_of_host, choose_planes
from softmrc.collectives.opening import hold_time_of
from softmrc.device import Interface
from softmrc.errors import UsageError


def interface(name: str, *addresses: str, virtual: bool = False, up: bool = True) -> Interface:
    return Interface(
        name=name, up=up, loopback=name == "lo", virtual=virtual, mtu=9000, addresses=tuple(addresses)
    )


HOST = [
    interface("lo", "127.0.0.1", "::1"),
    interface("docker0", "172.17.0.1", virtual=True),
    interface("eth0", "192.168.0.5"),
    interface("eth1", "10.1.0.5", "fd01::5", "fe80::5%eth1"),
    interface("eth2", "10.2.0.5", "fd02::5"),
    interface("eth3", "10.3.0.5", up=False),
]


def card(host: str, v4: Sequence[str] = (), v6: Sequence[str] = (), fixed: bool = False) -> Card:
    return Card(host=host, name=host, fixed=fixed, v4=tuple(v4), v6=tuple(v6))


def by_prefix(remote: str) -> str | None:
    """Routes of a host 5 with one interface a network."""
    parts = remote.split(".")
    return ".".join([*parts[:3], "5"]) if len(parts) == 4 else remote.partition("::")[0] + "::5"


def test_candidates_are_neither_loopback_nor_bridges_nor_down() -> None:
    found = card_of_host(None, {}, lambda: HOST)
    assert found.v4 == ("192.168.0.5", "10.1.0.5", "10.2.0.5")
    assert found.v6 == ("fd01::5", "fd02::5")
    assert not found.fixed


@pytest.mark.parametrize(
    ("text", "planes"),
    [
        ("eth1,eth2", ("10.1.0.5", "10.2.0.5")),
        ("^lo,docker,eth0", ("10.1.0.5", "10.2.0.5")),
        ("10.0.0.0/8", ("10.1.0.5", "10.2.0.5")),
        ("10.2.0.5", ("10.2.0.5",)),
    ],
)
def test_settings_name_interfaces_exclusions_and_prefixes(text: str, planes: tuple[str, ...]) -> None:
    for variable in ("SOFTMRC_IFACES", "SOFTMRC_PLANES"):
        found = card_of_host(None, {variable: text}, lambda: HOST)
        assert found.fixed
        assert found.v4 == planes


def test_planes_go_before_interfaces_and_the_program_before_both() -> None:
    env = {"SOFTMRC_PLANES": "eth1", "SOFTMRC_IFACES": "eth2"}
    assert card_of_host(None, env, lambda: HOST).v4 == ("10.1.0.5",)
    assert card_of_host(["eth2"], env, lambda: HOST).v4 == ("10.2.0.5",)


def test_ranks_of_one_host_have_several_loopback_planes() -> None:
    cards = [card("a", ["10.1.0.5"]), card("a", ["10.1.0.5"])]
    assert choose_planes(cards, 1).planes == LOOPBACK_PLANES
    assert len(LOOPBACK_PLANES) > 1


def test_between_hosts_routes_choose() -> None:
    """An address whose network no other host is on is no plane."""
    cards = [card("a", ["10.1.0.5", "10.2.0.5", "10.9.0.5"]), card("b", ["10.1.0.6", "10.2.0.6"])]
    assert choose_planes(cards, 0, by_prefix).planes == ("10.1.0.5", "10.2.0.5")


def test_the_family_that_all_have_and_ipv6_where_there_is_a_choice() -> None:
    both = [card(h, [f"10.1.0.{n}"], [f"fd01::{n}"]) for h, n in (("a", 5), ("b", 6))]
    assert choose_planes(both, 0, by_prefix).planes == ("fd01::5",)
    one = [both[0], card("b", ["10.1.0.6"])]
    assert choose_planes(one, 0, by_prefix).planes == ("10.1.0.5",)


def test_no_common_family_names_the_ranks() -> None:
    with pytest.raises(UsageError, match=r"rank 1 \(b\) has fd01::6"):
        choose_planes([card("a", ["10.1.0.5"]), card("b", [], ["fd01::6"])], 0, by_prefix)


def test_loopback_never_goes_to_another_host() -> None:
    cards = [card("a", ["127.0.0.1"], fixed=True), card("b", ["10.1.0.6"])]
    with pytest.raises(UsageError, match=r"127\.0\.0\.1 is loopback and reaches no other host"):
        choose_planes(cards, 0, by_prefix)


def test_no_route_says_so() -> None:
    cards = [card("a", ["10.1.0.5"]), card("b", ["10.7.0.6"])]
    with pytest.raises(UsageError, match=r"no route from 10\.1\.0\.5"):
        choose_planes(cards, 0, lambda _: None)


def test_what_was_named_is_taken() -> None:
    cards = [card("a", ["10.1.0.5"], fixed=True), card("b", ["10.7.0.6"])]
    assert choose_planes(cards, 0, lambda _: None).planes == ("10.1.0.5",)


def test_hold_time_is_that_of_the_program_then_of_the_environment_then_the_timeout() -> None:
    assert hold_time_of(3.0, 10.0, {"SOFTMRC_HOLD_TIME": "7"}) == 3.0
    assert hold_time_of(None, 10.0, {"SOFTMRC_HOLD_TIME": "7"}) == 7.0
    assert hold_time_of(None, 10.0, {}) == 10.0
    for bad in ("abc", "-1", "nan"):
        with pytest.raises(UsageError):
            hold_time_of(None, 10.0, {"SOFTMRC_HOLD_TIME": bad})
