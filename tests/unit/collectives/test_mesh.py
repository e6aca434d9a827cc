"""Ranks meet, connect, leave; as processes over loopback."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading

import pytest
from tests.ports import free_port
from tests.unit.collectives.ranks import Ranks

from softmrc.collectives.mesh import Mesh
from softmrc.collectives.peers import dials
from softmrc.collectives.store import LocalStore
from softmrc.collectives.watch import watched
from softmrc.endpoint import Connection, Endpoint
from softmrc.errors import PeerError, UsageError

MEET = """
mesh = Mesh(store, rank, size, timeout=args.get("timeout", 20))
say(up=True, planes=[p.address for p in mesh.endpoint.planes])
"""


def test_every_pair_has_one_that_dials() -> None:
    for a in range(9):
        assert all(dials(a, b) != dials(b, a) for b in range(9) if a != b)
        assert 2 <= sum(dials(a, b) for b in range(9) if a != b) <= 6


@pytest.mark.parametrize("size", [2, 3, 7, 8, 64])
def test_everybody_is_watched_by_several(size: int) -> None:
    for rank in range(size):
        seen = watched(rank, size)
        assert rank not in seen
        assert all(rank in watched(other, size) for other in seen)
        assert len(seen) >= min(size - 1, 3)


def test_one_rank_alone_needs_nobody() -> None:
    with Mesh(LocalStore(), 0, 1, timeout=5) as mesh:
        assert mesh.report().size == 1
    mesh.close()
    assert mesh.report().planes[0] == "127.0.0.1"


def test_threads_of_one_process_may_be_ranks() -> None:
    store, found = LocalStore(), {}

    def live(rank: int) -> None:
        with Mesh(store, rank, 3, timeout=20) as mesh:
            found[rank] = sorted(mesh.peers.all())

    threads = [threading.Thread(target=live, args=(r,)) for r in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {0: [1, 2], 1: [0, 2], 2: [0, 1]}


def test_arguments_are_checked() -> None:
    for rank, size in ((2, 2), (-1, 2), (0, 0)):
        with pytest.raises(UsageError):
            Mesh(LocalStore(), rank, size)


def test_the_choice_of_planes_is_printed_once_by_rank_0_alone() -> None:
    """B27."""
    with Ranks(3, MEET + "mesh.close()") as ranks:
        assert all(ranks.hear(r)["planes"][:2] == ["127.0.0.1", "127.0.0.2"] for r in range(3))
        said = [ranks.finish(r)[1] for r in range(3)]
    assert said[0].count("planes 127.0.0.1, 127.0.0.2") == 1
    assert said[1] == said[2] == ""


def test_settings_of_the_environment_choose() -> None:
    with Ranks(2, MEET + "mesh.close()", env={"SOFTMRC_PLANES": "127.0.0.9,127.0.0.10"}) as ranks:
        assert ranks.hear(0)["planes"] == ["127.0.0.9", "127.0.0.10"]


def test_ranks_with_different_numbers_of_planes_use_those_they_share() -> None:
    """B60."""
    code = """
mesh = Mesh(store, rank, size, timeout=20, planes=["127.0.0.%d" % i for i in range(1, args["planes"][rank] + 1)])
say(shared=[len(mesh.peers.conn(r).planes) for r in range(size) if r != rank])
expect("end")
"""
    with Ranks(3, code, planes=[4, 3, 1]) as ranks:
        assert [ranks.hear(r)["shared"] for r in range(3)] == [[3, 1], [3, 1], [1, 1]]
        for r in range(3):
            ranks.tell(r, "end")


def test_a_rank_that_is_never_started_is_named_by_all() -> None:
    code = """
say(ready=True)
expect("go")  # at once: one that starts much later is missing, too
try: Mesh(store, rank, size, timeout=2.0)
except PeerError as error: say(error=str(error))
"""
    with Ranks(3, code, only=[0, 2]) as ranks:
        for r in (0, 2):
            ranks.hear(r)
        for r in (0, 2):
            ranks.tell(r, "go")
        one, other = ranks.hear(0)["error"], ranks.hear(2)["error"]
    assert one == other
    assert one.startswith("rank 1 of 3 did not come within 2 s")


def test_many_connect_at_once() -> None:
    """B65: every one of 10 ranks is connected to every other."""
    code = """
mesh = Mesh(store, rank, size, timeout=60)
say(peers=len(mesh.peers.all()))
expect("end")
"""
    with Ranks(10, code) as ranks:
        assert [ranks.hear(r)["peers"] for r in range(10)] == [9] * 10
        for r in range(10):
            ranks.tell(r, "end")
        assert [ranks.finish(r, 60)[0] for r in range(10)] == [0] * 10


def test_256_at_one_door_at_once() -> None:
    """B65: more than are set up at a time; those that are turned away come back by themselves."""
    with Endpoint("127.0.0.1") as here, Endpoint("127.0.0.1") as there:
        listener = here.listen(token=b"secret")

        async def enter() -> Connection:
            while True:
                with contextlib.suppress(PeerError):  # on a busy machine a set-up may take too long
                    return await there.connect(listener.addresses, listener.port, token=b"secret", timeout=20)

        async def knock() -> list[Connection]:
            return await asyncio.gather(*(enter() for _ in range(256)))

        assert len(there.hub.run(knock())) == 256
        assert here.stats().connections >= 256


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_killed_and_restarted_on_the_same_ports_20_times() -> None:
    """B37: fixed UDP ports of the planes; nothing of the killed ranks is in the way."""
    code = """
mesh = Mesh(store, rank, size, timeout=20, planes=["127.0.0.1"], knobs={"udp_port": args["port"] + rank})
say(up=True)
expect("end")
"""
    port = free_port(socket.SOCK_DGRAM, count=2)
    for _ in range(20):
        with Ranks(2, code, port=port) as ranks:
            assert ranks.hear(0)["up"]
            assert ranks.hear(1)["up"]
            ranks.signal(0, signal.SIGKILL)
            ranks.signal(1, signal.SIGKILL)


def test_a_forked_child_is_refused_and_does_not_hide_the_end_of_its_parent() -> None:
    """B36."""
    code = (
        MEET
        + """
if rank == 0:
    pid = os.fork()
    if pid == 0:
        try: mesh.broken(0)
        except UsageError as error: print(json.dumps({"child": str(error)}), flush=True)
        mesh.close()
        time.sleep(30)
        os._exit(0)
    expect("die")
    say(child=pid, still=len(mesh.peers.all()))
    os.kill(os.getpid(), signal.SIGKILL)
else:
    while not mesh.obituary.known(): time.sleep(0.01)
    say(ended=mesh.obituary.known()[0][0])
"""
    )
    with Ranks(2, code) as ranks:
        ranks.hear(0)
        ranks.hear(1)
        assert "forked" in ranks.hear(0)["child"]
        ranks.tell(0, "die")
        child = ranks.hear(0)
        assert child["still"] == 1
        try:
            assert ranks.hear(1)["ended"] == "gone"
        finally:
            os.kill(child["child"], signal.SIGKILL)


def test_close_returns_while_a_rank_is_stopped_also_from_a_second_thread() -> None:
    """B38."""
    code = (
        MEET
        + """
expect("end")
if rank == 1: os.kill(os.getpid(), signal.SIGSTOP)
begin = time.monotonic()
threads = [threading.Thread(target=mesh.close) for _ in range(3)]
for t in threads: t.start()
for t in threads: t.join()
say(took=time.monotonic() - begin, threads=threading.active_count())
"""
    )
    with Ranks(3, code, timeout=30) as ranks:
        for r in range(3):
            ranks.hear(r)
        for r in range(3):
            ranks.tell(r, "end")
        for r in (0, 2):
            found = ranks.hear(r)
            assert found["took"] < 12
            assert found["threads"] == 1
            assert ranks.finish(r)[0] == 0


def test_a_small_memlock_limit_is_no_matter() -> None:
    """B59: nothing is pinned."""
    code = """
import resource
resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
mesh = Mesh(store, rank, size, timeout=20)
g = group()
big = bytearray(32 << 20)
g.all_reduce(big)
(g.send(big, 1) if rank == 0 else g.recv(big, 0)).result(20)
say(ok=True)
mesh.close()
"""
    with Ranks(2, code) as ranks:
        assert ranks.hear(0)["ok"]
        assert ranks.hear(1)["ok"]


def test_idle_ranks_cost_next_to_nothing() -> None:
    """B58: four ranks, each below 2 % of a core."""
    code = (
        MEET
        + """
expect("idle")
begin, cpu = time.monotonic(), time.process_time()
time.sleep(3)
say(part=(time.process_time() - cpu) / (time.monotonic() - begin))
expect("end")
"""
    )
    with Ranks(4, code) as ranks:
        for r in range(4):
            ranks.hear(r)
        for r in range(4):
            ranks.tell(r, "idle")
        parts = [ranks.hear(r)["part"] for r in range(4)]
        for r in range(4):
            ranks.tell(r, "end")
    assert max(parts) < 0.02, parts


def test_a_process_that_ends_without_closing_leaves_in_good_order() -> None:
    code = (
        MEET
        + """
if rank == 1:
    while not mesh.obituary.known(): time.sleep(0.01)
    say(how=mesh.obituary.known()[0][0])
"""
    )
    with Ranks(2, code) as ranks:
        ranks.hear(0)
        ranks.hear(1)
        assert ranks.finish(0)[0] == 0
        assert ranks.hear(1)["how"] == "left"


def test_a_stranger_at_the_door_is_no_rank() -> None:
    """A connection without the token neither joins nor counts as a rank that ended."""
    store, met = LocalStore(), {}

    def live(rank: int) -> None:
        met[rank] = Mesh(store, rank, 2, timeout=20)

    threads = [threading.Thread(target=live, args=(r,)) for r in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        with socket.create_connection(("127.0.0.1", met[0].watch.port)) as sock:
            sock.sendall(b"1 " + b"0" * 64 + b"\n")
            assert sock.recv(1) == b""
        assert met[0].obituary.known() == {}
        with pytest.raises(UsageError, match="no connection to rank 5"):
            met[0].peers.conn(5)
    finally:
        closing = [threading.Thread(target=m.close) for m in met.values()]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()
    with pytest.raises(UsageError, match="closed"):
        met[0].broken(0)
