"""The two stores, and what they say when a rank does not come."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from softmrc.collectives.choose import Card
from softmrc.collectives.roster import Roster
from softmrc.collectives.store import LocalStore, Store, TcpStore
from softmrc.errors import PeerError


@pytest.fixture(params=["local", "tcp"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    if request.param == "local":
        yield LocalStore()
        return
    tcp = TcpStore("127.0.0.1", 0, serve=True)
    yield tcp
    tcp.close()


def test_a_value_is_waited_for(store: Store) -> None:
    another = TcpStore("127.0.0.1", store.port) if isinstance(store, TcpStore) else store
    later = threading.Timer(0.02, lambda: another.set("k", b"v"))
    later.start()
    assert store.get("k", 10) == b"v"
    later.join()
    if isinstance(another, TcpStore):
        another.close()


def test_a_value_that_does_not_come_is_a_timeout(store: Store) -> None:
    with pytest.raises(TimeoutError, match="'nothing'"):
        store.get("nothing", 0.01)


def test_large_values(store: Store) -> None:
    store.set("k", b"x" * 3_000_000)
    assert len(store.get("k", 20)) == 3_000_000


def test_nobody_serves() -> None:
    with pytest.raises(PeerError, match="is rank 0 running"):
        TcpStore("127.0.0.1", 9, timeout=0.05)


def _card(rank: int) -> Card:
    return Card(host="h", name=f"h:{rank}", fixed=False, v4=(), v6=())


def test_all_learn_of_all_and_share_a_token() -> None:
    store, found = LocalStore(), {}

    def take_part(rank: int) -> None:
        roster = Roster(store, "p", rank, 3, 10)
        found[rank] = ([c.name for c in roster.cards(_card(rank))], roster.token)

    threads = [threading.Thread(target=take_part, args=(r,)) for r in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1] == found[2]
    assert found[0][0] == ["h:0", "h:1", "h:2"]
    assert len(found[0][1]) == 16


def test_who_does_not_come_is_named_on_all_ranks() -> None:
    store, texts = LocalStore(), {}
    begin = threading.Barrier(3)  # a busy machine starts one thread much later than another

    def take_part(rank: int) -> None:
        begin.wait(30)
        with pytest.raises(PeerError) as caught:
            Roster(store, "p", rank, 5, 0.5).cards(_card(rank))
        texts[rank] = str(caught.value)

    threads = [threading.Thread(target=take_part, args=(r,)) for r in (0, 2, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts[0] == texts[2] == texts[4]
    assert texts[0].startswith("ranks 1, 3 of 5 did not come within 0.5 s")


def test_without_rank_0_the_others_say_so() -> None:
    with pytest.raises(PeerError, match="rank 0 of 2 did not come"):
        Roster(LocalStore(), "p", 1, 2, 0.05).cards(_card(1))
