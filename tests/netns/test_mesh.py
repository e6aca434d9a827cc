"""Ranks on hosts of their own: planes by route, links that fail under them, and the lab with SRv6."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.unit.collectives.ranks import Ranks

from softmrc.lab import Lab
from softmrc.netns import Namespace

LOOP = """
mesh = Mesh(store, rank, size, timeout=20)
g = group(args.get("timeout", 20.0))
import array
a = array.array("d", [0.0] * 4096)
def one():
    a[:] = array.array("d", [rank + 1.0] * 4096)
    g.all_reduce(a)
    assert set(a) == {size * (size + 1) / 2.0}
def rounds(seconds):
    go, slowest, last, end = array.array("d", [1.0]), 0.0, 0.0, time.monotonic() + seconds
    while go[0]:
        begin = time.monotonic()
        one()
        go[0] = time.monotonic() < end
        g.broadcast(go, 0)  # an outage shows in either call, and not in the same one at every rank
        took = time.monotonic() - begin
        if took > slowest: slowest, last = took, time.monotonic()
    return dict(slowest=slowest, last=last)
one()
say(planes=[p.address for p in mesh.endpoint.planes], shared=[len(c.planes) for c in mesh.peers.all().values()])
"""


@pytest.fixture
def hosts() -> Iterator[list[Namespace]]:
    """Two hosts with three links: a management network that has the default route, and two planes."""
    with ExitStack() as stack:
        one, other = (stack.enter_context(Namespace(role)) for role in "ab")
        for n, dev in enumerate(("mgmt", "eth1", "eth2")):
            one.wire(dev, other, dev)
            for host, space in ((1, one), (2, other)):
                space.up(dev)
                space.address(dev, f"10.{n}.0.{host}/24")
                if n:
                    space.address(dev, f"fd0{n}::{host}/64")
        for space in (one, other):
            space.up("lo")
            space.run("ip", "link", "add", "docker0", "type", "bridge")
            space.address("docker0", "172.17.0.1/16")
            space.up("docker0")
            space.route("default", dev="mgmt")
        # The kernel takes up to a second to say that a new link runs; until then ranks have no address.
        time.sleep(1.2)
        yield [one, other]


def within(spaces: list[Namespace]) -> Callable[..., Any]:
    return lambda rank, *command, **options: spaces[rank].popen(*command, **options)


def test_fabric_interfaces_are_chosen_by_route(hosts: list[Namespace]) -> None:
    """B27: not loopback, not docker0, not that of the default route; IPv6 where all have it."""
    with Ranks(2, LOOP, run=within(hosts)) as ranks:
        assert sorted(ranks.hear(0)["planes"]) == ["fd01::1", "fd02::1"]
        assert sorted(ranks.hear(1)["planes"]) == ["fd01::2", "fd02::2"]


def test_links_down_are_no_dead_rank_and_calls_go_on_when_the_first_returns(hosts: list[Namespace]) -> None:
    """B61: every link of a host, the management's as well, is down for a second and a half."""
    code = (
        LOOP
        + """
expect("go")
say(**rounds(2.5))
say(known=list(mesh.obituary.known()), text=mesh.report().text(), lost=mesh.report().seconds_lost)
mesh.close()
"""
    )
    with Ranks(2, code, run=within(hosts)) as ranks:
        for r in range(2):
            ranks.hear(r)
        for space in hosts:
            for dev in ("eth1", "eth2"):
                space.sysctl(f"net.ipv6.conf.{dev}.keep_addr_on_down", 1)
        for r in range(2):
            ranks.tell(r, "go")
        time.sleep(0.3)
        for dev in ("eth1", "eth2", "mgmt"):
            hosts[1].down(dev)
        time.sleep(1.5)
        hosts[1].up("eth2")
        back = time.monotonic()
        found = [ranks.hear(r) for r in range(2)]
        assert max(f["slowest"] for f in found) > 1.2
        assert max(f["last"] for f in found) - back < 0.5 + 0.5, found
        told = [ranks.hear(r) for r in range(2)]
        assert [t["known"] for t in told] == [[], []]
        assert max(t["lost"] for t in told) > 0.8, told


def test_a_killed_rank_on_another_host_is_noticed_at_once(hosts: list[Namespace]) -> None:
    code = (
        LOOP
        + """
try:
    while True: one()
except PeerError as error:
    say(error=str(error), at=time.monotonic())
"""
    )
    with Ranks(2, code, run=within(hosts)) as ranks:
        for r in range(2):
            ranks.hear(r)
        ranks.signal(1, signal.SIGKILL)
        killed = time.monotonic()
        found = ranks.hear(0)
        assert found["error"].startswith("rank 1 ")
        assert "is gone" in found["error"]
        assert found["at"] - killed < 8.0, "the timeout is 20 s"


def test_ranks_in_hosts_of_the_lab_take_its_planes_and_paths(lab: Lab) -> None:
    code = (
        LOOP
        + """
conn = mesh.peers.conn(1 - rank if rank < 2 else 0)
say(named=sum(bool(p.path) for p in conn.stats().paths), paths=len(conn.stats().paths))
expect("go")
say(**rounds(1.0))
mesh.close()
"""
    )
    with Ranks(
        4, code, run=lambda rank, *command, **options: lab.popen(f"h{rank}", *command, **options)
    ) as ranks:
        for r in range(4):
            found = ranks.hear(r)
            assert found["planes"] == lab.addresses(f"h{r}")
            assert found["shared"] == [2, 2, 2]
        for r in range(4):
            found = ranks.hear(r)
            assert found["named"] == found["paths"] > 0
        for r in range(4):
            ranks.tell(r, "go")
        assert max(ranks.hear(r)["slowest"] for r in range(4)) < 1.0
