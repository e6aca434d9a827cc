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

    begin = threading.Barrier(len(ranks))  # a busy machine starts one thread much later than another

    def one(rank: int) -> str:
        begin.wait(30)
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


class _Counted(_Shared):
    """What one rank asks of a shared store."""

    def __init__(self, shared: _Shared) -> None:
        self.shared, self.asked = shared, 0

    def set(self, key: str, value: bytes) -> None:
        self.asked += 1
        self.shared.set(key, value)

    def find(self, key: str) -> bytes | None:
        self.asked += 1
        return self.shared.find(key)

    def add(self, key: str, amount: int) -> int:
        self.asked += 1
        return self.shared.add(key, amount)


@pytest.mark.parametrize("size", [3, 64, 4096])
def test_field_b65_what_a_meeting_costs_does_not_grow_with_the_ranks(size: int) -> None:
    """The others ask a fixed number of things, rank 0 three for each rank; also after a start that failed.

    Ranks take turns in this thread: rank 0 looks after every 64 that came, the others when it has.
    """
    from softmrc.torch_backend.meeting import Guest, Host

    shared, names = _Shared(), []
    for failed in (True, False):
        first = _Counted(shared)
        host = Host(first, "job", size)
        stores = [_Counted(shared) for _ in range(1, size - failed)]
        guests: list[Guest] = []
        looks = 1
        for rank, store in enumerate(stores, 1):
            guests.append(Guest(store, "job", rank))
            if rank % 64 == 0:
                looks += 1
                assert not host.look()
        assert not host.look()  # they are called
        assert [guest.look() for guest in guests] == [None] * len(guests)
        assert bool(host.look()) != failed  # and have answered
        looks += 1
        if failed:
            assert f"rank {size - 1} of {size}" in host.give_up(1.0)
            with pytest.raises(PeerError, match=f"rank {size - 1} of {size}"):
                guests[0].look()
            continue
        names = [host.close(), *(guest.look() for guest in guests)]
        assert max(store.asked for store in stores) == 8
        assert first.asked <= 2 * (size - 1) + 2 * looks + 3
    assert len(set(names)) == 1
    assert None not in names


def test_a_hello_that_is_counted_before_it_is_written_is_called_later() -> None:
    from softmrc.torch_backend.meeting import Guest, Host

    class Slow(_Shared):
        def set(self, key: str, value: bytes) -> None:
            if "/hello/" in key:
                held.append((key, value))
            else:
                super().set(key, value)

    held: list[tuple[str, bytes]] = []
    store = Slow()
    host, guest = Host(store, "job", 2), Guest(store, "job", 1)
    assert host.look() is None
    assert guest.look() is None
    for key, value in held:
        store.values[key] = value
    assert [host.look(), guest.look(), host.look()] == [None, None, True]
    assert guest.look() is None
    assert host.close() == guest.look()
