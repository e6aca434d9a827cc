"""Ranks leave what rank 0 serves in an order in which nobody comes back to what is about to end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from softmrc.collectives.parting import Parting
from softmrc.collectives.peers import Peers

Handler = Callable[[int, bytes], object]


class Wire:
    """Messages between ranks, delivered at once, or kept back until `deliver`."""

    def __init__(self) -> None:
        self.handlers: dict[int, Handler] = {}
        self.said: list[tuple[int, int, bytes]] = []
        self.holding = False
        self._held: list[tuple[int, int, bytes]] = []

    def peers(self, rank: int) -> Peers:
        wire = self

        class Face:
            def on(self, channel: bytes, handler: Handler) -> None:
                wire.handlers[rank] = handler

            def all(self) -> dict[int, object]:
                return {other: None for other in wire.handlers if other != rank}

            def tell(self, ranks: Sequence[int], channel: bytes, data: bytes) -> dict[int, Any]:
                for other in ranks:
                    wire._send(rank, other, data)
                return {}

        return cast(Peers, Face())

    def _send(self, source: int, target: int, data: bytes) -> None:
        self.said.append((source, target, data))
        if self.holding:
            self._held.append((source, target, data))
        else:
            self.handlers[target](source, data)

    def deliver(self) -> None:
        self.holding = False
        held, self._held = self._held, []
        for source, target, data in held:
            self.handlers[target](source, data)


@pytest.fixture
def wire() -> Wire:
    return Wire()


def both(wire: Wire, gone: dict[int, object] | None = None) -> tuple[Parting, Parting]:
    ended = gone if gone is not None else {}
    return Parting(wire.peers(0), 0, lambda: ended), Parting(wire.peers(1), 1, lambda: ended)


def test_who_comes_after_rank_0_need_not_ask(wire: Wire) -> None:
    first, other = both(wire)
    assert not first.begin()
    first.finish()
    other.wait(0.0)
    assert wire.said == [(0, 1, b"ended")]


def test_who_goes_first_is_told_that_the_place_is_kept(wire: Wire) -> None:
    first, other = both(wire)
    other.wait(0.0)
    assert wire.said == [(1, 0, b"going"), (0, 1, b"kept")]
    assert first.begin()


def test_who_asks_while_it_ends_is_told_when_it_has(wire: Wire) -> None:
    first, other = both(wire)
    assert not first.begin()
    wire.holding = True
    other.wait(0.0)  # nobody answers: it goes after a moment all the same
    wire.deliver()
    first.finish()
    assert wire.said == [(1, 0, b"going"), (0, 1, b"ended")]


def test_who_asks_when_it_has_ended_is_told_so(wire: Wire) -> None:
    first, other = both(wire)
    wire.holding = True
    first.begin()
    first.finish()
    wire.handlers[0](1, b"going")
    assert wire.said == [(0, 1, b"ended")] * 2
    wire.deliver()
    other.wait(0.0)
    assert len(wire.said) == 2


def test_without_rank_0_nobody_waits(wire: Wire) -> None:
    _, other = both(wire, gone={0: ("gone", 1.0)})
    other.wait(60.0)
    assert wire.said == []
