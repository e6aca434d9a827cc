"""Two connected endpoints for what is shown of them."""

from __future__ import annotations

import pytest

from softmrc.endpoint import Endpoint
from softmrc.metrics import Source


@pytest.fixture
def pair():
    """The connecting end, its connection, and the other end's; a window is exposed to the first."""
    landing = bytearray(1 << 16)
    with (
        Endpoint("127.0.0.1", "127.0.0.2", evs_per_plane=4, name="a") as a,
        Endpoint("127.0.0.3", "127.0.0.4", evs_per_plane=4, name="b") as b,
        b.listen(expose=landing) as listener,
    ):
        conn = a.connect_sync("127.0.0.3", listener.port)
        other = listener.accept(timeout=10.0)
        yield a, conn, other
        conn.abort()
        other.abort()


@pytest.fixture
def source(pair):
    made = Source.of_endpoint(pair[0])
    yield made
    made.close()
