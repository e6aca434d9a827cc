"""A rank that is gone, stopped, stuck or late is named by all others, in time and with the same words."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from tests.unit.collectives.ranks import Ranks

TOGETHER = """
mesh = Mesh(store, rank, size, timeout=30)
g = group(args["timeout"])
a = bytearray(4096)
def attempt(call):
    begin = time.monotonic()
    try: call()
    except PeerError as error: return dict(error=str(error), took=time.monotonic() - begin)
    return dict(error="", took=time.monotonic() - begin)
"""
AT_ONCE = 20.0
"""A timeout that nothing may wait for."""
ALL_REDUCE = (
    TOGETHER
    + """
g.all_reduce(a)
say(ready=True)
expect("go")
if rank == args["bad"]:
    exec(args["deed"])
say(**attempt(lambda: g.all_reduce(a)))
begin = time.monotonic()
mesh.close()
say(closed=time.monotonic() - begin, threads=threading.active_count())
"""
)


NOISE = 6.0
"""Seconds a busy machine may add: fewer than lie between what a test expects and the next thing that ends a call."""


def agreed(ranks: Ranks, others: list[int], most: float) -> str:
    """Return what all others say, and check that they say the same in time."""
    found = [ranks.hear(r) for r in others]
    assert {f["error"] for f in found} == {found[0]["error"]}
    assert found[0]["error"]
    assert max(f["took"] for f in found) <= most + NOISE, found
    return str(found[0]["error"])


def all_end_well(ranks: Ranks, others: list[int], most: float) -> None:
    found: list[dict[str, Any]] = [ranks.hear(r) for r in others]
    assert max(f["closed"] for f in found) <= most + NOISE, found
    assert all(f["threads"] == 1 for f in found)
    for r in others:
        code, errors = ranks.finish(r)
        assert code == 0, errors
        assert "Traceback" not in errors, errors


@pytest.mark.parametrize(
    ("deed", "timeout", "named"),
    [
        (
            "os.kill(os.getpid(), signal.SIGSTOP)",
            2.0,
            "rank 2 ({}) does not answer on any plane: its process is stopped",
        ),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            AT_ONCE,
            "rank 2 ({}) is gone: its process was killed (SIGKILL)",
        ),
        ("os._exit(3)", AT_ONCE, "rank 2 ({}) is gone: its process exited (status 3)"),
        ("mesh.close(); expect('never')", AT_ONCE, "rank 2 ({}) left"),
        ("raise KeyError('a bug')", AT_ONCE, "rank 2 ({}) left"),
        ("expect('never')", 2.0, "rank 2 ({}) answers, but has not called number 2"),
    ],
    ids=["stopped", "killed", "exits", "closes", "raises", "late"],
)
def test_every_survivor_names_the_same_rank(deed: str, timeout: float, named: str) -> None:
    """B08, B38: with planes tried, the last it had reached and when it was heard.

    A process that ends is known at once, long before the timeout; silence only when that is over, and before the
    30 s of the mesh.
    """
    most = 0.5 if timeout == AT_ONCE else timeout + 0.2
    with Ranks(4, ALL_REDUCE, bad=2, deed=deed, timeout=timeout) as ranks:
        for r in range(4):
            ranks.hear(r)
        for r in range(4):
            ranks.tell(r, "go")
        text = agreed(ranks, [0, 1, 3], most)
        who = text[text.index("(") + 1 : text.index(")")]
        assert text.startswith(named.format(who))
        assert "all_reduce" in text
        assert "127.0.0.1" in text
        assert "last heard" in text
        for other in (0, 1, 3):
            assert f"rank {other} " not in text
        all_end_well(ranks, [0, 1, 3], 2.5)


def test_the_rank_that_serves_the_store_may_be_the_one_that_dies() -> None:
    code = """
if rank == 0:
    store = TcpStore("127.0.0.1", 0, serve=True)
    store_first.set("port", b"%d" % store.port)
else:
    store = TcpStore("127.0.0.1", int(store_first.get("port", 10)))
"""
    body = "store_first = store" + code + ALL_REDUCE
    with Ranks(3, body, bad=0, deed="os.kill(os.getpid(), signal.SIGKILL)", timeout=AT_ONCE) as ranks:
        for r in range(3):
            ranks.hear(r)
        for r in range(3):
            ranks.tell(r, "go")
        assert agreed(ranks, [1, 2], 1.0).startswith("rank 0 ")


def test_a_rank_that_ends_before_the_first_collective_of_a_subgroup() -> None:
    """B07."""
    code = (
        TOGETHER
        + """
sub = Group(mesh, [0, 2, 3], key="sub", timeout=2.0) if rank != 1 else None
say(ready=True)
expect("go")
if rank == 0: os._exit(1)
if sub is not None: say(**attempt(lambda: sub.all_reduce(a)))
else: say(error="", took=0)
"""
    )
    with Ranks(4, code, timeout=20.0) as ranks:
        for r in range(4):
            ranks.hear(r)
        for r in range(4):
            ranks.tell(r, "go")
        assert agreed(ranks, [2, 3], 2.2).startswith("rank 0 ")


def test_a_rank_that_is_missing_when_a_group_is_made() -> None:
    code = (
        TOGETHER
        + """
expect("go")
if rank == 1: expect("never")
say(**attempt(lambda: Group(mesh, range(size), key="more", timeout=1.0)))
"""
    )
    with Ranks(3, code, timeout=20.0) as ranks:
        for r in range(3):
            ranks.tell(r, "go")
        text = agreed(ranks, [0, 2], 1.2)
        assert text.startswith("rank 1 ")
        assert "has not made the group" in text


def test_a_group_goes_on_when_a_rank_outside_of_it_dies() -> None:
    code = (
        TOGETHER
        + """
sub = Group(mesh, [0, 1], key="sub", timeout=10.0) if rank < 2 else None
say(ready=True)
expect("go")
if rank == 2: os.kill(os.getpid(), signal.SIGKILL)
while not mesh.obituary.known(): time.sleep(0.005)
say(**attempt(lambda: [sub.all_reduce(a) for _ in range(50)]))
"""
    )
    with Ranks(3, code, timeout=20.0) as ranks:
        for r in range(3):
            ranks.hear(r)
        for r in range(3):
            ranks.tell(r, "go")
        assert [ranks.hear(r)["error"] for r in (0, 1)] == ["", ""]


def test_a_rank_may_leave_once_it_is_not_needed() -> None:
    """The last collective is whole on all ranks, however early one of them closes."""
    code = (
        TOGETHER
        + """
for _ in range(20): g.all_reduce(a)
if rank != 1: time.sleep(0.2)
say(**attempt(lambda: None))
mesh.close()
"""
    )
    with Ranks(3, code, timeout=10.0) as ranks:
        for r in range(3):
            assert ranks.hear(r)["error"] == ""
        for r in range(3):
            code_, errors = ranks.finish(r)
            assert (code_, "Traceback" in errors) == (0, False), errors


def test_a_waiting_call_raises_when_a_second_thread_closes() -> None:
    """B38."""
    code = (
        TOGETHER
        + """
say(ready=True)
if rank == 1: expect("never")
threading.Timer(0.2, mesh.close).start()
say(**attempt(lambda: g.all_reduce(a)))
"""
    )
    with Ranks(2, code, timeout=20.0) as ranks:
        ranks.hear(0)
        ranks.hear(1)
        found = ranks.hear(0)
        assert "closed" in found["error"]
        assert found["took"] < 2 + NOISE
        assert ranks.finish(0)[0] == 0


def test_roll_call_names_who_did_not_come() -> None:
    code = (
        TOGETHER
        + """
say(all_here=g.roll_call(5.0))
if rank in (1, 3): expect("never")
say(missing=g.roll_call(0.5))
"""
    )
    with Ranks(4, code, timeout=20.0) as ranks:
        assert [ranks.hear(r)["all_here"] for r in range(4)] == [[]] * 4
        assert [ranks.hear(r)["missing"] for r in (0, 2)] == [[1, 3]] * 2


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_letters_to_and_from_a_dead_rank_fail(number: int) -> None:
    code = (
        TOGETHER
        + """
say(ready=True)
if rank == 1: expect("never")
letter = g.recv(a, 1, 5)
say(waits=True)
def wait():
    if not letter.wait(1.5): raise mesh.verdict(g.number, letter.what, [1], None, 1.5)
    letter.result()
say(**attempt(wait))
"""
    )
    with Ranks(2, code, timeout=1.5) as ranks:
        ranks.hear(0)
        ranks.hear(1)
        ranks.hear(0)
        ranks.signal(1, number)
        found = ranks.hear(0)
        assert found["error"].startswith("rank 1 ")
        assert found["took"] < 1.65 + NOISE


@pytest.mark.parametrize("nbytes", [1200, 100_000])
def test_a_letter_that_cannot_arrive_says_what_all_ranks_say(nbytes: int) -> None:
    """Its receiver is stopped when it is sent, and killed before it has it."""
    code = (
        TOGETHER
        + """
say(ready=True)
if rank == 1: expect("never")
expect("go")
letter = g.send(bytes(args["nbytes"]), 1, 5) if rank == 0 else None
say(sent=True)
say(**attempt(lambda: letter.result(20) if rank == 0 else g.all_reduce(a)))
"""
    )
    with Ranks(3, code, timeout=20.0, nbytes=nbytes) as ranks:
        for r in range(3):
            ranks.hear(r)
        ranks.signal(1, signal.SIGSTOP)
        for r in (0, 2):
            ranks.tell(r, "go")
            ranks.hear(r)
        ranks.signal(1, signal.SIGKILL)
        text = agreed(ranks, [0, 2], 1.0)
    assert text.startswith("rank 1 ")
    assert "its process was killed (SIGKILL)" in text
