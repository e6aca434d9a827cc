"""Field cases of links and paths, over links of the kernel: B01 to B05, B13."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from tests.netns.conftest import AgentError, Joined

from softmrc.netns import Fabric, cut

RATE = 200_000_000
Join = Callable[..., Joined]
Planes = Callable[..., Fabric]


def rates(joined: Joined, seconds: float, width: float = 0.5) -> list[dict[str, float]]:
    """Bytes per second that arrive on each plane, in bins."""
    looks = [joined.b.ask("plane_rx")]
    for _ in range(round(seconds / width)):
        time.sleep(width)
        looks.append(joined.b.ask("plane_rx"))
    return [
        {p: (y["bytes"][p] - x["bytes"][p]) / (y["time"] - x["time"]) for p in y["bytes"]}
        for x, y in pairwise(looks)
    ]


def total(bins: list[dict[str, float]]) -> float:
    return sum(sum(b.values()) for b in bins) / len(bins)


def share(bins: list[dict[str, float]], plane: str) -> float:
    return sum(b[plane] for b in bins) / sum(sum(b.values()) for b in bins)


@pytest.mark.parametrize("outage", [0.1, 3.0])
def test_a_plane_that_flaps_is_used_again(outage: float, planes: Planes, join: Join) -> None:
    """B01."""
    fabric = planes(2, bits_per_second=RATE)
    joined = join(fabric)
    stream = joined.a.ask("stream", joined.conn)
    time.sleep(0.5)
    assert share(rates(joined, 0.5), "1") > 0.4
    for _ in range(2 if outage < 1 else 1):
        fabric.a.down("a1")
        time.sleep(outage)
        fabric.a.up("a1")
        time.sleep(2)
        assert share(rates(joined, 1.0), "1") >= 0.4
    assert joined.a.ask("stop", stream)["error"] == ""


def test_goodput_comes_back_with_the_link(planes: Planes, join: Join) -> None:
    """B03."""
    fabric = planes(2, bits_per_second=RATE)
    joined = join(fabric)
    stream = joined.a.ask("stream", joined.conn)
    time.sleep(0.5)
    before = total(rates(joined, 1.0))
    fabric.b.down("b2")
    time.sleep(0.2)
    during = total(rates(joined, 1.5))
    assert during >= 0.8 * before / 2
    fabric.b.up("b2")
    after = rates(joined, 4.0, 1.0)
    assert min(sum(b.values()) for b in after) >= 0.9 * during
    assert total(after[-1:]) >= 0.9 * before
    assert joined.a.ask("stop", stream)["error"] == ""


def test_a_silent_hole_costs_each_path_one_timeout(planes: Planes, join: Join) -> None:
    """B04."""
    fabric = planes(2, bits_per_second=RATE)
    joined = join(fabric)

    def dead_paths() -> list[dict[str, int]]:
        return [p for p in joined.a.ask("paths", joined.conn) if p["plane"] == 1]

    assert joined.a.ask("messages", joined.conn, 200) == 200
    stream = joined.a.ask("stream", joined.conn, 64 << 10, 4)
    time.sleep(0.3)
    with cut(fabric.b, "b1"):
        time.sleep(1.0)
        first = dead_paths()
        assert all(p["state"] == "assumed_bad" for p in first)
        moved = joined.a.ask("moved", stream)["bytes"]
        assert joined.a.ask("messages", joined.conn, 200) == 200
        time.sleep(1.0)
        second = dead_paths()
        # Nothing but probes goes there any more, so nothing more is lost there.
        assert sum(p["lost"] for p in second) - sum(p["lost"] for p in first) <= len(first)
        assert sum(p["sent"] for p in second) - sum(p["sent"] for p in first) <= len(first)
        assert joined.a.ask("moved", stream)["bytes"] > moved
    time.sleep(2.0)
    assert share(rates(joined, 1.0), "1") >= 0.4
    assert all(p["state"] in ("good", "skip") for p in dead_paths())  # in use; skip: passed over once
    assert joined.a.ask("messages", joined.conn, 200) == 200
    assert joined.a.ask("stop", stream)["error"] == ""


def wrong_next_hop(fabric: Fabric, plane: int) -> None:
    fabric.a.run(
        *f"ip neigh replace fd00:{plane}::2 lladdr 02:00:00:00:00:99 dev a{plane} nud permanent".split()
    )


def test_a_wrong_next_hop_on_one_plane_is_no_error(planes: Planes, join: Join) -> None:
    """B05, one plane."""
    fabric = planes(2, bits_per_second=RATE)
    joined = join(fabric, hold_time=2.0)
    wrong_next_hop(fabric, 2)
    stream = joined.a.ask("stream", joined.conn)
    time.sleep(1.0)
    paths = joined.a.ask("paths", joined.conn)
    # The limited queue of the other plane may drop, too: some of its paths may just be bad.
    assert {p["state"] for p in paths if p["plane"] == 2} == {"assumed_bad"}
    assert "good" in {p["state"] for p in paths if p["plane"] == 1}
    done = joined.a.ask("stop", stream)
    assert done["error"] == ""
    assert done["bytes"] > 1 << 20


def test_wrong_next_hops_on_all_planes_are_one_clear_error(planes: Planes, join: Join) -> None:
    """B05, all planes."""
    fabric = planes(2, bits_per_second=RATE)
    joined = join(fabric, hold_time=1.0)
    joined.a.ask("write", joined.conn, 1000)
    for plane in (1, 2):
        wrong_next_hop(fabric, plane)
    begin = time.monotonic()
    with pytest.raises(AgentError) as caught:
        joined.a.ask("write", joined.conn, 100_000, 10.0)
    assert time.monotonic() - begin < 3.0
    assert caught.value.kind == "PeerError"
    for part in ("fd00:1::1", "fd00:1::2", "fd00:2::1", "fd00:2::2", "last heard", "firewall"):
        assert part in caught.value.text


@pytest.mark.parametrize("kept", [True, False], ids=["address kept", "address gone and tentative"])
def test_an_address_that_goes_and_returns_is_no_error(kept: bool, planes: Planes, join: Join) -> None:
    """B13."""
    fabric = planes(2, bits_per_second=RATE, keep_addresses=kept)
    joined = join(fabric)
    stream = joined.a.ask("stream", joined.conn)
    time.sleep(0.5)
    fabric.a.down("a1")
    time.sleep(1.0)
    if not kept:
        assert "fd00:1::1" not in fabric.a.run("ip", "addr", "show", "dev", "a1")
        fabric.a.sysctl("net.ipv6.conf.a1.accept_dad", 1)
    fabric.a.up("a1")
    if not kept:
        fabric.a.address("a1", "fd00:1::1/64", dad=True)
    time.sleep(3.0)
    assert share(rates(joined, 1.0), "1") >= 0.4
    assert joined.a.ask("stop", stream)["error"] == ""


@pytest.mark.parametrize("flap", [False, True], ids=["swapped", "down and up"])
def test_a_plane_that_returns_with_another_address_is_used_again(
    flap: bool, planes: Planes, join: Join
) -> None:
    """B02: the address of a link is another one afterwards; both ends go on, with all planes."""
    fabric = planes(2, bits_per_second=RATE, keep_addresses=False)
    joined = join(fabric)
    there = joined.a.ask("stream", joined.conn)
    assert share(rates(joined, 0.5), "1") > 0.4
    if flap:
        fabric.a.down("a1")
        time.sleep(0.3)
        fabric.a.up("a1")
    else:
        fabric.a.run("ip", "address", "del", "fd00:1::1/64", "dev", "a1")
    fabric.a.address("a1", "fd00:1::77/64")
    fabric.a.route("fd00:1::/64", dev="a1")
    time.sleep(2.0)
    assert share(rates(joined, 1.0), "1") >= 0.4
    assert [p["address"] for p in joined.a.ask("planes")] == ["fd00:1::77", "fd00:2::1"]
    # The first address again, beside the new one: nothing moves a second time.
    fabric.a.address("a1", "fd00:1::1/64")
    time.sleep(0.5)
    assert share(rates(joined, 0.5), "1") >= 0.4
    assert joined.a.ask("stop", there)["error"] == ""
    assert joined.a.ask("planes")[0]["address"] == "fd00:1::77"


def test_planes_of_unequal_rate_are_all_used(planes: Planes, join: Join) -> None:
    """B63, links of this host: a slow plane gives what it has, and costs the fast one nothing."""
    fabric = planes(2)
    for host, dev in ((fabric.a, "a"), (fabric.b, "b")):
        host.rate(f"{dev}1", 50_000_000)
        host.rate(f"{dev}2", 300_000_000)
    joined = join(fabric)
    stream = joined.a.ask("stream", joined.conn)
    time.sleep(1.0)
    bins = rates(joined, 3.0)
    assert total(bins) * 8 >= 0.85 * 350e6
    assert share(bins, "1") >= 0.1
    assert joined.a.ask("stop", stream)["error"] == ""
