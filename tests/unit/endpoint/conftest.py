"""Two endpoints on loopback planes of their own, and a connection between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from softmrc import Connection, Endpoint, Listener

PLANES_A = ("127.0.0.1", "127.0.0.2")
PLANES_B = ("127.0.0.3", "127.0.0.4")


@dataclass
class Joined:
    """A connected pair: `client` belongs to `a`, `server` to `b`."""

    a: Endpoint
    b: Endpoint
    listener: Listener
    client: Connection
    server: Connection
    memory: bytearray


Opener = Callable[..., Endpoint]


@pytest.fixture
def open_endpoint() -> Iterator[Opener]:
    """Open endpoints that are closed at the end, newest first."""
    opened: list[Endpoint] = []

    def make(*planes: Any, **knobs: Any) -> Endpoint:
        knobs = {"linger": 2.0, **knobs}
        opened.append(Endpoint(*planes, **knobs))
        return opened[-1]

    yield make
    for ep in reversed(opened):
        ep.close()


@pytest.fixture
def join(open_endpoint: Opener) -> Callable[..., Joined]:
    """Connect two endpoints; keyword arguments are knobs of both."""

    def make(size: int = 1 << 20, **knobs: Any) -> Joined:
        a, b = open_endpoint(*PLANES_A, **knobs), open_endpoint(*PLANES_B, **knobs)
        memory = bytearray(size)
        listener = b.listen(0, expose=memory)
        client = a.connect_sync(PLANES_B[0], listener.port)
        return Joined(a, b, listener, client, listener.accept(20), memory)

    return make


@pytest.fixture
def joined(join: Callable[..., Joined]) -> Joined:
    """A connection with default knobs."""
    return join()
