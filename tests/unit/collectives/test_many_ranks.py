"""What a start costs each rank, by counting: with many ranks as much as with few, but where all must know all (B65)."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial

import pytest
from tests.unit.collectives.crew import together

from softmrc.collectives import LocalStore, Mesh
from softmrc.collectives.choose import Card
from softmrc.collectives.peers import dials, order
from softmrc.collectives.roster import Door, Roster
from softmrc.collectives.watch import watched

SIZE = 4096
_CARD = Card(host="h", name="n", fixed=True, v4=("127.0.0.1",), v6=())


class Counted(LocalStore):
    """A store that counts what one rank asks of it."""

    def __init__(self, shared: LocalStore) -> None:
        self._shared = shared
        self.asked: Counter[str] = Counter()

    def set(self, key: str, value: bytes) -> None:
        self.asked["set"] += 1
        self._shared.set(key, value)

    def get(self, key: str, timeout: float) -> bytes:
        self.asked["get"] += 1
        return self._shared.get(key, timeout)


def test_field_b65_a_rank_asks_the_store_as_often_with_4096_ranks_as_with_three() -> None:
    """All but the first and the last are played by their values; rank 0 asks twice a rank and round."""
    for size in (3, SIZE):
        shared = LocalStore()
        door = Door(name="a", generation="g", addresses=("127.0.0.1",), port=1, watch_port=2)
        for rank in range(1, size - 1):
            shared.set(f"job/card/{rank}", _CARD.to_json())
            shared.set(f"job/door/{rank}", json.dumps(door.__dict__).encode())

        def meet(rank: int, store: Counted, size: int = size, door: Door = door) -> int:
            roster = Roster(store, "job", rank, size, 60.0)
            return len(roster.cards(_CARD)) + len(roster.doors(door))

        stores = [Counted(shared), Counted(shared)]
        met = together([partial(meet, 0, stores[0]), partial(meet, size - 1, stores[1])])
        assert met == [2 * size] * 2
        assert stores[1].asked == {"set": 2, "get": 2}
        assert stores[0].asked == {"set": 4, "get": 2 * size + 2}


@pytest.mark.parametrize("size", [2, 5])
def test_a_whole_mesh_asks_no_more_than_that(size: int) -> None:
    shared = LocalStore()
    stores = [Counted(shared) for _ in range(size)]
    meshes = together([partial(Mesh, stores[rank], rank, size, timeout=20) for rank in range(size)])
    assert all(isinstance(mesh, Mesh) for mesh in meshes), meshes
    together([mesh.close for mesh in meshes])
    assert [sum(store.asked.values()) for store in stores] == [2 * size + 6] + [4] * (size - 1)


def test_field_b65_4096_ranks_share_the_knocking_evenly() -> None:
    """Each connects to half of the others, and no door is knocked at by two ranks that are equally far."""
    half = (SIZE - 1) / 2
    for rank in (0, 1, 2, SIZE // 2, SIZE - 2, SIZE - 1):
        assert abs(sum(dials(rank, other) for other in range(SIZE) if other != rank) - half) <= 1
    for step in (0, 1, 77, SIZE - 2):
        assert len({order(rank, SIZE)[step] for rank in range(0, SIZE, 64)}) == SIZE // 64


def test_field_b65_4096_ranks_watch_few() -> None:
    for rank in (0, 1, 1000, SIZE - 1):
        assert len(watched(rank, SIZE)) <= 2 * SIZE.bit_length()
