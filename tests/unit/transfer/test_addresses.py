from __future__ import annotations

import pytest

from softmrc.errors import UsageError
from softmrc.transfer.addresses import (
    DEFAULT_PORT,
    Destination,
    local_address_for,
    parse_address_list,
    parse_destinations,
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
