"""B02: what a peer says about an address that moved, true or not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.endpoint.conftest import Joined

from softmrc.endpoint.mailbox import Kind
from softmrc.errors import PeerError

Join = Callable[..., Joined]


def say(joined: Joined, told: Any) -> None:
    joined.client._send_mail(Kind.CONTROL, json.dumps({"moved": told}).encode())


def test_a_peer_that_moved_is_followed(join: Join) -> None:
    joined = join()
    say(joined, {"plane": 1, "address": "127.0.0.9", "udp_port": 999})
    joined.client.send_message(b"behind it").wait(5)
    assert joined.server.recv_message_sync(20) == b"behind it"
    route = next(r for r in joined.server.routes if r.peer_plane == 1)
    assert (route.address, route.udp_port) == ("127.0.0.9", 999)
    assert "127.0.0.9" in joined.server.peer


@pytest.mark.parametrize(
    "told",
    [
        None, [], {"plane": 1}, {"plane": 9, "address": "127.0.0.9", "udp_port": 1},
        {"plane": True, "address": "::1", "udp_port": 1},
        {"plane": 1, "address": "nowhere", "udp_port": 1}, {"plane": 1, "address": 7, "udp_port": 1},
        {"plane": 1, "address": "127.0.0.9", "udp_port": 0}, {"plane": 1, "address": "127.0.0.9", "udp_port": 1 << 16},
    ],
)  # fmt: skip
def test_nonsense_ends_the_connection_and_says_so(told: Any, join: Join) -> None:
    joined = join()
    say(joined, told)
    with pytest.raises(PeerError, match="malformed control message"):
        joined.server.recv_message_sync(20)


@pytest.mark.parametrize("address", ["fd00::9", "0.0.0.0"])
def test_addresses_that_cannot_be_end_the_connection(address: str, join: Join) -> None:
    joined = join()
    say(joined, {"plane": 1, "address": address, "udp_port": 5})
    with pytest.raises(PeerError):
        joined.server.recv_message_sync(20)
