"""Ranks meet in a store that holds what earlier starts left; those that do not come are named."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from softmrc.errors import PeerError


class _Shared:
    """A store in memory."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.counters: dict[str, int] = {}
        self.lock = threading.Lock()

    def set(self, key: str, value: bytes) -> None:
        with self.lock:
            self.values[key] = value

    def find(self, key: str) -> bytes | None:
        with self.lock:
            return self.values.get(key)

    def add(self, key: str, amount: int) -> int:
        with self.lock:
            self.counters[key] = self.counters.get(key, 0) + amount
            return self.counters[key]


def _meet(store: Any, ranks: list[int], size: int, timeout: float) -> list[str]:
    from softmrc.torch_backend.meeting import meet

    def one(rank: int) -> str:
        try:
            return meet(store, "job", rank, size, timeout)
        except PeerError as error:
            return f"error: {error}"

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(one, ranks))


@pytest.mark.parametrize("size", [1, 2, 5, 24])
def test_all_have_one_name_and_every_start_another(size: int) -> None:
    store, names = _Shared(), []
    for _ in range(4):
        met = _meet(store, list(range(size)), size, 10)
        assert len(set(met)) == 1
        names.append(met[0])
    assert len(set(names)) == 4


@pytest.mark.parametrize("order", [[2, 1, 0], [0, 2, 1], [1, 0, 2]])
def test_what_a_start_that_failed_left_behind_does_no_harm(order: list[int]) -> None:
    store = _Shared()
    failed = _meet(store, [0, 2], 3, 0.2)
    assert failed[0] == failed[1]
    assert "rank 1 of 3 did not come within 0.2 s" in failed[0]
    met = _meet(store, order, 3, 10)
    assert len(set(met)) == 1
    assert not met[0].startswith("error")


def test_without_rank_0_the_others_name_it() -> None:
    store = _Shared()
    _meet(store, [0, 1, 2], 3, 10)
    said = _meet(store, [1, 2], 3, 0.2)
    assert said[0] == said[1]
    assert "rank 0 of 3 did not come" in said[0]
