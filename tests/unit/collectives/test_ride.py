"""A network failure is no failure of a rank: collectives wait it out and go on, and the report tells (B61)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.unit.collectives.ranks import Ranks

OVER_THE_NETWORK = {"SOFTMRC_LOCAL": "0"}
LOOP = """
mesh = Mesh(store, rank, size, timeout=30, hold_time=args.get("hold"))
g = group(30.0)
import array
a = array.array("d", [0.0] * 8192)
def rounds(until):
    slowest, ended, n, right = 0.0, 0.0, 0, True
    go = array.array("d", [1.0])
    while go[0]:
        begin = time.monotonic()
        a[:] = array.array("d", [rank + 1.0] * 8192)
        g.all_reduce(a)
        right = right and set(a) == {size * (size + 1) / 2.0}
        n += 1
        go[0] = time.monotonic() < until  # rank 0 decides when it ends
        g.broadcast(go, 0)  # a cut shows in either call, and not in the same one at every rank
        took = time.monotonic() - begin
        if took > slowest: slowest, ended = took, time.monotonic()
    return dict(slowest=slowest, ended=ended, n=n, right=right)
for _ in range(20): g.all_reduce(a)
say(ready=True)
expect("go")
now = time.monotonic()
if rank in args["cut"]:
    span = dict(start=now + 0.3, stop=now + 0.3 + args["seconds"])
    mesh.endpoint.impair([dict(down=True, plane=p, **span) for p in args["planes"]])
back = now + 0.3 + args["seconds"]
say(**rounds(back + 0.8), back=back)
say(report=mesh.report().to_json(), text=mesh.report().text())
mesh.close()
"""


Found = list[dict[str, Any]]


def ride(**args: Any) -> tuple[Found, Found]:
    with Ranks(3, LOOP, env=OVER_THE_NETWORK, **args) as ranks:
        for r in range(3):
            ranks.hear(r)
        for r in range(3):
            ranks.tell(r, "go")
        return [ranks.hear(r) for r in range(3)], [ranks.hear(r)["report"] for r in range(3)]


def ride_in_time(in_time: Callable[[Found], bool], **args: Any) -> tuple[Found, Found]:
    """Ride up to three times, until it was in time: a machine without its cores for a while makes any call slow.

    What waits for the end of the outage, or for a timer, does so every time.
    """
    for _ in range(3):
        found, reports = ride(**args)
        if in_time(found):
            break
    return found, reports


def test_one_plane_lost_costs_no_call() -> None:
    def in_time(found: Found) -> bool:
        return max(f["slowest"] for f in found) < 0.8

    found, reports = ride_in_time(in_time, cut=[1], planes=[2], seconds=1.0)
    assert in_time(found), found
    assert all(f["right"] for f in found)
    kinds = {(i["kind"], i["plane"]) for i in reports[1]["incidents"]}
    assert ("paths", 2) in kinds, reports[1]
    assert all(r["failed"] == () or r["failed"] == [] for r in reports)


def test_all_planes_of_a_rank_lost_for_a_second_and_on_at_once_when_the_first_returns() -> None:
    def in_time(found: Found) -> bool:
        # The links are back when the rank that was cut says so. A dead path is probed every 0.1 s: what waits for
        # a retransmission timer that has doubled for a second goes on a second later.
        return max(f["ended"] for f in found) - found[1]["back"] < 0.7

    found, reports = ride_in_time(in_time, cut=[1], planes=[0], seconds=1.0)
    assert in_time(found), found
    assert all(f["right"] for f in found)
    assert max(f["slowest"] for f in found) > 0.9, found
    assert 0.5 < max(r["seconds_lost"] for r in reports) < 1.5 + 0.5, reports
    # The rank that was cut may have had nothing on its way: then what others had sent to it is sent again.
    assert sum(r["packets_resent"] for r in reports) > 0, reports


def test_the_hold_time_ends_the_patience_and_one_rank_is_named() -> None:
    """Rank 1 is cut off: the others name it, and it names its own network.

    The hold time is longer than what a busy machine makes all of them wait.
    """
    code = LOOP.replace(
        "say(**rounds(back + 0.8), back=back)",
        """
try: rounds(back)
except PeerError as error: say(error=str(error), took=time.monotonic() - now - 0.3)
time.sleep(0.5)
sys.exit(0)
""",
    )
    with Ranks(3, code, env=OVER_THE_NETWORK, cut=[1], planes=[0], seconds=60.0, hold=3.0) as ranks:
        for r in range(3):
            ranks.hear(r)
        for r in range(3):
            ranks.tell(r, "go")
        found = [ranks.hear(r) for r in range(3)]
    assert found[0]["error"] == found[2]["error"]
    assert found[0]["error"].startswith("rank 1 "), found
    assert found[1]["error"].startswith("rank 1 "), found
    assert "hears no other rank on any plane" in found[1]["error"]
    assert max(f["took"] for f in found) < 12.0, "the timeout is 30 s"


def test_a_rank_that_leaves_after_its_last_collective_leaves_nothing_behind() -> None:
    """What it had sent is lost at first: it stays until it has been repeated."""
    code = """
mesh = Mesh(store, rank, size, timeout=20)
g = group()
a = bytearray(64)
g.all_reduce(a)
say(ready=True)
expect("go")
if rank == 0:
    now = time.monotonic()
    mesh.endpoint.impair([dict(down=True, start=now, stop=now + 0.7, direction="tx")])
    g.broadcast(bytearray(b"x" * 64), 0)
    mesh.close()
    say(ok=True)
else:
    g.broadcast(a, 0)
    say(ok=a == b"x" * 64)
"""
    with Ranks(2, code, env=OVER_THE_NETWORK) as ranks:
        for r in range(2):
            ranks.hear(r)
        for r in range(2):
            ranks.tell(r, "go")
        assert [ranks.hear(r)["ok"] for r in range(2)] == [True, True]
