"""Ranks of one host learn each other's process from the kernel."""

from __future__ import annotations

from tests.unit.collectives.ranks import Ranks

from softmrc.collectives.neighbours import locality

MEET = """
from softmrc.collectives import life, neighbours
from softmrc.collectives.choose import Card
real = life.card_of_host
def card(planes, memory):
    mine = neighbours.locality(args["local"][rank])
    return real(planes, memory=mine if rank not in args.get("elsewhere", []) else mine + "x")
life.card_of_host = card
mesh = Mesh(store, rank, size, timeout=20)
say(found=mesh.neighbours, pid=os.getpid())
mesh.close()
"""


def test_locality_is_off_when_told() -> None:
    assert locality(None, {}) == locality(True, {"SOFTMRC_LOCAL": "0"}) != ""
    assert locality(False, {}) == locality(None, {"SOFTMRC_LOCAL": "0"}) == ""


def test_hosts_of_a_lab_in_user_space_are_no_neighbours() -> None:
    """They are processes of one host, and payload is to cross the fabric."""
    here = {"SOFTMRC_FABRIC": "lab.json", "SOFTMRC_PLANES": "fc00:1:8000::"}
    assert locality(None, here) == locality(None, dict(here)) != locality(None, {})
    assert locality(None, here) != locality(None, {**here, "SOFTMRC_PLANES": "fc00:1:8001::"})


def test_all_of_a_host_know_each_others_process() -> None:
    with Ranks(4, MEET, local=[True] * 4) as ranks:
        said = [ranks.hear(r) for r in range(4)]
    pids = [s["pid"] for s in said]
    for rank, s in enumerate(said):
        assert s["found"] == {str(r): pids[r] for r in range(4) if r != rank}


def test_who_will_not_or_is_elsewhere_is_left_out() -> None:
    with Ranks(4, MEET, local=[True, False, True, True], elsewhere=[3]) as ranks:
        said = [ranks.hear(r) for r in range(4)]
    assert said[0]["found"] == {"2": said[2]["pid"]}
    assert said[2]["found"] == {"0": said[0]["pid"]}
    assert said[1]["found"] == said[3]["found"] == {}


def test_large_messages_of_neighbours_go_through_memory_and_only_theirs() -> None:
    code = """
mesh = Mesh(store, rank, size, timeout=20, local=args["local"][rank])
g = group()
import array
a = array.array("d", [rank + 1.0]) * 250_000
g.all_reduce(a)
say(right=set(a) == {6.0}, local=mesh.report().bytes_local, planes=mesh.report().bytes_sent)
mesh.close()
"""
    with Ranks(3, code, local=[True] * 3) as ranks:
        said = [ranks.hear(r) for r in range(3)]
        assert all(s["right"] and s["local"] >= 2_000_000 and s["planes"] < 1_000_000 for s in said), said
    with Ranks(3, code, local=[True, False, False]) as ranks:
        said = [ranks.hear(r) for r in range(3)]
        assert all(s["right"] and s["local"] == 0 and s["planes"] > 1_000_000 for s in said), said
