"""Letters between ranks: tags, order, any source, sizes, and what becomes of those of a rank that ends (B06)."""

from __future__ import annotations

import array

import pytest
from tests.unit.collectives.ranks import Ranks

from softmrc.collectives.letters import memory_of
from softmrc.errors import UsageError

PAIR = """
mesh = Mesh(store, rank, size, timeout=20)
g = group()
def text_of(letter):
    try: letter.result(10)
    except PeerError as error: return str(error)
    return ""
"""


def hear_all(ranks: Ranks, size: int) -> list[dict[str, object]]:
    return [ranks.hear(r) for r in range(size)]


def test_letters_arrive_by_tag_and_in_order_whatever_their_size() -> None:
    code = (
        PAIR
        + """
sizes = [0, 1, 100, 15 * 1024, 15 * 1024 + 1, 300_000, 3_000_001, 7]
if rank == 0:
    for tag in (7, 8):
        letters = [g.send(bytes([i + tag]) * n, 1, tag) for i, n in enumerate(sizes)]
    say(ok=[x.result(10) for x in letters] == sizes)
else:
    wrong = []
    for tag in (8, 7):
        for i, n in enumerate(sizes):
            b = bytearray(n)
            g.recv(b, 0, tag).result(10)
            if b != bytes([i + tag]) * n: wrong.append((tag, i))
    say(ok=not wrong)
"""
    )
    with Ranks(2, code) as ranks:
        assert all(x["ok"] for x in hear_all(ranks, 2))


def test_any_source_says_whom_it_came_from() -> None:
    code = (
        PAIR
        + """
if rank == 0:
    seen = []
    for _ in range(2 * (size - 1)):
        b = bytearray(4)
        letter = g.recv(b, None, 3)
        letter.result(10)
        seen.append([letter.source, int.from_bytes(b, "little")])
    say(seen=sorted(seen))
else:
    g.send(rank.to_bytes(4, "little"), 0, 3).result(10)
    g.send((rank + 100).to_bytes(4, "little"), 0, 3).result(10)
    say(seen=[])
"""
    )
    with Ranks(3, code) as ranks:
        assert hear_all(ranks, 3)[0]["seen"] == [[1, 1], [1, 101], [2, 2], [2, 102]]


def test_ranks_are_those_of_the_group_and_groups_do_not_mix() -> None:
    code = (
        PAIR
        + """
back = Group(mesh, list(range(size))[::-1], key="reversed", timeout=20)
if rank == 0:
    g.send(b"in order", 1, 1); back.send(b"reversed", 1, 1)
    back.send(b"to self!", 2, 1)
    b = bytearray(8); back.recv(b, 2, 1).result(10)
    say(got=b.decode())
elif rank == 1:
    b, c = bytearray(8), bytearray(8)
    second = back.recv(c, 2, 1)
    first = g.recv(b, 0, 1)
    first.result(10), second.result(10)
    say(got=f"{b.decode()}, {c.decode()}")
else:
    say(got="")
"""
    )
    with Ranks(3, code) as ranks:
        found = hear_all(ranks, 3)
        assert found[0]["got"] == "to self!"
        assert found[1]["got"] == "in order, reversed"


@pytest.mark.parametrize(("sent", "expected"), [(10, 20), (20, 10), (100_000, 10), (10, 100_000), (0, 5)])
def test_another_size_is_an_error_at_both_ends(sent: int, expected: int) -> None:
    code = (
        PAIR
        + """
if rank == 0:
    text = text_of(g.send(bytes(args["sent"]), 1, 1))
    g.recv(bytearray(1), 1, 9).result(10)
    if not text:
        try: g.send(b"next", 1, 2)
        except PeerError as error: text = str(error)
    say(text=text)
else:
    text = text_of(g.recv(bytearray(args["expected"]), 0, 1))
    g.send(b"x", 0, 9).result(10)
    say(text=text)
"""
    )
    with Ranks(2, code, sent=sent, expected=expected) as ranks:
        sender, receiver = hear_all(ranks, 2)
        assert f"rank 0 sent {sent} bytes where rank 1 receives {expected}" in str(receiver["text"])
        assert f"rank 1 receives {expected} bytes where rank 0 sent" in str(sender["text"])


def test_letters_nobody_asks_for_are_bounded_at_the_receiver() -> None:
    code = (
        PAIR
        + """
if rank == 0:
    letters = [g.send(i.to_bytes(4, "little") * 1000, 1, 1) for i in range(3000)]
    expect("go")
    say(done=sum(x.done() for x in letters))
    for x in letters: x.result(20)
    say(ok=True)
else:
    def lying(): return [w for box in list(mesh.p2p._boxes.values()) for w in list(box.unasked)]
    before = -1
    while len(lying()) != before or not before:
        before = len(lying())
        time.sleep(0.3)
    say(held=sum(len(w.data or b"") for w in lying()), count=len(lying()))
    expect("go")
    b = bytearray(4000)
    right = 0
    for i in range(3000):
        g.recv(b, 0, 1).result(20)
        right += b == i.to_bytes(4, "little") * 1000
    say(ok=right == 3000)
"""
    )
    with Ranks(2, code) as ranks:
        found = ranks.hear(1)
        assert 0 < found["held"] <= 1 << 20
        assert 0 < found["count"] <= 1024
        ranks.tell(0, "go")
        assert ranks.hear(0)["done"] < 1024
        ranks.tell(1, "go")
        assert all(x["ok"] for x in hear_all(ranks, 2))


@pytest.mark.parametrize("nbytes", [4, 100_000])
def test_exit_right_after_a_send_still_delivers(nbytes: int) -> None:
    """B06."""
    code = (
        PAIR
        + """
if rank == 0:
    g.send(b"x" * args["nbytes"], 1, 4)
    sys.exit(0)
expect("go")
b = bytearray(args["nbytes"])
letter = g.recv(b, 0, 4)
say(text=text_of(letter), right=b == b"x" * args["nbytes"])
"""
    )
    with Ranks(2, code, nbytes=nbytes) as ranks:
        if nbytes < 1000:
            assert ranks.finish(0)[0] == 0
        ranks.tell(1, "go")
        assert ranks.hear(1) == {"text": "", "right": True}
        code_, errors = ranks.finish(1)
        assert (code_, "Traceback" in errors) == (0, False), errors


def test_a_receive_from_a_rank_that_left_fails_at_once() -> None:
    code = (
        PAIR
        + """
if rank == 0: sys.exit(0)
try: say(text=text_of(g.recv(bytearray(4), 0, 4)))
except PeerError as error: say(text=str(error))  # it had left before
"""
    )
    with Ranks(2, code) as ranks:
        assert "left" in ranks.hear(1)["text"]


def test_memory_that_does_not_do_is_refused() -> None:
    with pytest.raises(UsageError, match="not contiguous"):
        memory_of(memoryview(bytearray(10))[::2], True)
    with pytest.raises(UsageError, match="read-only"):
        memory_of(b"abc", True)
    with pytest.raises(UsageError, match="has no memory"):
        memory_of(3.5, False)
    assert memory_of(array.array("d", [1.0, 2.0]), True).nbytes == 16
    target = bytearray(4)
    where = array.array("B", b"abcd")
    view = memory_of((where.buffer_info()[0], 4), True).view
    target[:] = view
    assert target == b"abcd"
