"""Field case B26: paths that carry less than the links at their ends say, and routers that lie or are silent."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from tests.netns.conftest import AgentError, Host, Joined

from softmrc.netns import Fabric, Namespace

Planes = Callable[..., Fabric]
Join = Callable[..., Joined]

# "Packet too big" for a packet of a flow that exists, as anybody on the way could send it.
FORGE = """
import socket, struct, sys
victim, peer, sport, dport, mtu = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
udp = struct.pack(">HHHH", sport, dport, 1408, 0) + bytes(64)
ip = struct.pack(">IHBB", 6 << 28, len(udp), 17, 64)
ip += socket.inet_pton(socket.AF_INET6, victim) + socket.inet_pton(socket.AF_INET6, peer)
raw = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
raw.sendto(struct.pack(">BBHI", 2, 0, 0, mtu) + ip + udp, (victim, 0))
"""


def narrow_chain(stack: ExitStack, mtu: int = 1320) -> Fabric:
    """Three switches, the link behind the first smaller than all others."""
    fabric = stack.enter_context(Fabric.chain(3, 1500))
    narrow(fabric, mtu)
    return fabric


def narrow(fabric: Fabric, mtu: int) -> None:
    left, right = fabric.switches[0], fabric.switches[1]
    left.mtu("east", mtu)
    right.mtu("west", mtu)


def drop(space: Namespace, what: str) -> None:
    """Drop what comes in and fits a rule of nftables, without a word."""
    space.nft(f"table inet t {{\nchain i {{\ntype filter hook input priority 0;\n{what} drop\n}}\n}}\n")


def over_chain(fabric: Fabric, **knobs: float) -> Joined:
    return Joined(fabric, ["fd0a::1"], ["fd0b::1"], **knobs)


def all_in_use(joined: Joined, plane: int | None = None) -> None:
    """Wait until no path (of a plane) is given up."""
    deadline = time.monotonic() + 30
    while bad := [
        p
        for p in joined.a.ask("paths", joined.conn)
        if p["state"] == "assumed_bad" and plane in (None, p["plane"])
    ]:
        assert time.monotonic() < deadline, bad
        time.sleep(0.2)


def carries_everything(joined: Joined) -> None:
    for size in (64, 1400, 1 << 20):
        joined.a.ask("write", joined.conn, size)
    assert joined.a.ask("counters")["tx_too_big"] == 0


def test_routers_are_heard_and_it_is_said(stack: ExitStack) -> None:
    joined = over_chain(narrow_chain(stack))
    pmtu = joined.a.ask("pmtu", joined.conn)
    assert 1320 - 92 - 64 < pmtu <= 1320 - 92
    assert any("carries less" in line and f"have {pmtu} bytes" in line for line in joined.a.ask("log"))
    carries_everything(joined)


@pytest.mark.parametrize("deaf", ["a", "b", "ab"])
def test_a_silent_black_hole_is_found_by_proof(stack: ExitStack, deaf: str) -> None:
    """No "too big" reaches one end, or any: full packets vanish, and a smaller size is agreed."""
    fabric = narrow_chain(stack)
    for name in deaf:
        drop({"a": fabric.a, "b": fabric.b}[name], "icmpv6 type packet-too-big")
    begin = time.monotonic()
    joined = over_chain(fabric)
    assert time.monotonic() - begin < 8
    assert joined.a.ask("pmtu", joined.conn) <= 1320 - 92
    carries_everything(joined)
    if deaf == "ab":
        assert any("full packets of 1408 bytes" in line and "MTU" in line for line in joined.a.ask("log"))


def test_one_plane_of_two_loses_full_packets(planes: Planes, join: Join) -> None:
    fabric = planes(2)
    drop(fabric.b, 'iifname "b2" meta length > 1300')
    joined = join(fabric, batching="mmsg")  # the filter would take a run of packets for one
    # 1152; a machine that stands still for a second while a size is proven makes it the next smaller one.
    assert joined.a.ask("pmtu", joined.conn) <= 1152
    joined.a.ask("write", joined.conn, 4 << 20)
    # What the proof lost comes back, and stays: full packets arrive.
    all_in_use(joined)
    joined.a.ask("write", joined.conn, 4 << 20)
    all_in_use(joined)


def test_a_dead_plane_is_no_matter_of_size(planes: Planes, join: Join) -> None:
    fabric = planes(2)
    drop(fabric.b, 'iifname "b2"')
    joined = join(fabric)
    assert joined.a.ask("pmtu", joined.conn) == 1408
    joined.a.ask("write", joined.conn, 1 << 20)


def test_a_size_nobody_can_carry_is_an_error_that_says_mtu(planes: Planes, join: Join) -> None:
    fabric = planes(1)
    drop(fabric.b, "udp length > 260")
    with pytest.raises(AgentError, match="MTU"):
        join(fabric)


def test_a_route_with_an_mtu_over_ipv4(planes: Planes) -> None:
    """What the kernel knows beforehand, as for an encapsulation by route."""
    fabric = planes(1)
    fabric.a.address("a1", "10.1.0.1/24")
    fabric.b.address("b1", "10.1.0.2/24")
    fabric.a.run("ip", "route", "replace", "10.1.0.0/24", "dev", "a1", "src", "10.1.0.1", "mtu", "1300")
    joined = Joined(fabric, ["10.1.0.1"], ["10.1.0.2"])
    assert joined.a.ask("pmtu", joined.conn) == (1300 - 72) // 64 * 64
    carries_everything(joined)


def test_forged_too_big_messages_do_not_disturb_a_connection(planes: Planes) -> None:
    fabric = planes(1)
    a, b = Host(fabric.a), Host(fabric.b)
    (there,) = b.ask("open", "fd00:1::2")
    (here,) = a.ask("open", "fd00:1::1", hold_time=3.0)
    port = b.ask("listen", 4 << 20)
    conn = a.ask("connect", ["fd00:1::2"], port)
    stream = a.ask("stream", conn)
    ports = here["udp_port"], there["udp_port"]
    for mtu in (1280, 68, 0, 0xFFFFFFFF):
        forge(fabric.b, "fd00:1::1", "fd00:1::2", *ports, mtu=mtu)
    assert believed(fabric.a, "fd00:1::2") == 1280, "the kernel did not believe it"
    begin = a.ask("moved", stream)
    time.sleep(1.0)
    end = a.ask("moved", stream)
    assert end["error"] == ""
    assert end["bytes"] - begin["bytes"] > 10 << 20
    assert a.ask("counters")["tx_too_big"] == 0
    assert {p["state"] for p in a.ask("paths", conn)} <= {"good", "skip"}
    assert a.ask("stop", stream)["error"] == ""
    # Nor those made while the kernel remembers it.
    again = a.ask("connect", ["fd00:1::2"], port)
    assert believed(fabric.a, "fd00:1::2") == 1280
    assert a.ask("pmtu", again) == 1408
    assert not a.ask("log")
    a.ask("write", again, 1 << 20)


def forge(attacker: Namespace, victim: str, peer: str, sport: int, dport: int, *, mtu: int) -> None:
    """Say that a packet of a flow of the victim's was too big."""
    attacker.run("python3", "-c", FORGE, victim, peer, str(sport), str(dport), str(mtu))


def believed(space: Namespace, remote: str) -> int:
    """Return the size of packet that the kernel has learnt about a path; 0: none."""
    words = space.run("ip", "-6", "route", "get", remote).split()
    return int(words[words.index("mtu") + 1]) if "mtu" in words and "expires" in words else 0


def test_what_a_route_is_limited_to_stands_whatever_is_forged(planes: Planes) -> None:
    fabric = planes(1)
    fabric.a.run("ip", "-6", "route", "add", "fd00:1::2/128", "dev", "a1", "mtu", "1400")
    a, b = Host(fabric.a), Host(fabric.b)
    (there,) = b.ask("open", "fd00:1::2")
    (here,) = a.ask("open", "fd00:1::1")
    port = b.ask("listen", 1 << 20)
    conn = a.ask("connect", ["fd00:1::2"], port)
    limited = (1400 - 92) // 64 * 64
    assert a.ask("pmtu", conn) == limited
    forge(fabric.b, "fd00:1::1", "fd00:1::2", here["udp_port"], there["udp_port"], mtu=1280)
    assert believed(fabric.a, "fd00:1::2") == 1280
    assert a.ask("pmtu", a.ask("connect", ["fd00:1::2"], port)) == limited


def test_a_forged_size_gives_way_to_what_routers_say(stack: ExitStack) -> None:
    """The way really is smaller than its links, but not as small as the kernel was told."""
    fabric = narrow_chain(stack, 1420)
    a, b = Host(fabric.a), Host(fabric.b)
    (there,) = b.ask("open", "fd0b::1")
    (here,) = a.ask("open", "fd0a::1")
    port = b.ask("listen", 1 << 20)
    size = a.ask("pmtu", a.ask("connect", ["fd0b::1"], port))
    assert size == (1420 - 92) // 64 * 64
    forge(fabric.b, "fd0a::1", "fd0b::1", here["udp_port"], there["udp_port"], mtu=1280)
    assert believed(fabric.a, "fd0b::1") == 1280
    again = a.ask("connect", ["fd0b::1"], port)
    assert a.ask("pmtu", again) == size
    a.ask("write", again, 1 << 20)


def test_a_way_that_became_wide_again_is_used_at_once(stack: ExitStack) -> None:
    fabric = narrow_chain(stack)
    a, b = Host(fabric.a), Host(fabric.b)
    b.ask("open", "fd0b::1")
    a.ask("open", "fd0a::1")
    port = b.ask("listen", 1 << 20)
    assert a.ask("pmtu", a.ask("connect", ["fd0b::1"], port)) <= 1320 - 92
    narrow(fabric, 1500)
    assert believed(fabric.a, "fd0b::1") == 1320
    assert a.ask("pmtu", a.ask("connect", ["fd0b::1"], port)) == 1408


def test_a_path_that_shrinks_under_a_connection_is_named_at_its_end(stack: ExitStack) -> None:
    """The size of a connection stands (reference 2.15): it ends, and says why."""
    fabric = stack.enter_context(Fabric.chain(3, 1500))
    joined = over_chain(fabric, hold_time=1.5)
    assert joined.a.ask("pmtu", joined.conn) == 1408
    stream = joined.a.ask("stream", joined.conn)
    time.sleep(0.2)
    narrow(fabric, 1320)
    time.sleep(3.0)
    error = joined.a.ask("stop", stream)["error"]
    assert "MTU of a path has become too small: fd0a::1 to fd0b::1 carries 1320" in error
    again = joined.a.ask("connect", ["fd0b::1"], joined.port)
    assert joined.a.ask("pmtu", again) <= 1320 - 92
    joined.a.ask("write", again, 1 << 20)


def test_a_plane_that_shrinks_under_a_connection_is_left_and_said(planes: Planes, join: Join) -> None:
    """No router tells, probes are answered: full packets alone vanish on one plane of two."""
    fabric = planes(2)
    joined = join(fabric, batching="mmsg")
    assert joined.a.ask("pmtu", joined.conn) == 1408
    stream = joined.a.ask("stream", joined.conn)
    drop(fabric.b, 'iifname "b2" meta length > 1300')
    deadline = time.monotonic() + 30
    while not (said := [line for line in joined.a.ask("log") if "loses full packets" in line]):
        assert time.monotonic() < deadline, joined.a.ask("paths", joined.conn)
        time.sleep(0.2)
    assert "plane 2 (fd00:2::1 to fd00:2::2) loses full packets of 1500 bytes" in said[0]
    assert "connect anew" in said[0]
    # What is left carries on, and what the plane loses is little: each of its EVs is tried once a second.
    before = joined.a.ask("moved", stream)["bytes"]
    time.sleep(1.0)
    assert joined.a.ask("moved", stream)["bytes"] - before > 4 << 20
    fabric.b.nft("delete table inet t\n")
    all_in_use(joined, 2)
    assert joined.a.ask("stop", stream)["error"] == ""


def test_a_connection_all_of_whose_planes_shrink_in_silence_says_so(planes: Planes, join: Join) -> None:
    fabric = planes(1)
    joined = join(fabric, batching="mmsg", hold_time=3.0)
    stream = joined.a.ask("stream", joined.conn)
    drop(fabric.b, 'iifname "b1" meta length > 1300')
    deadline = time.monotonic() + 30
    while not joined.a.ask("moved", stream)["error"]:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    error = joined.a.ask("stop", stream)["error"]
    assert "Full packets (1408 bytes of payload) were lost on plane 1 while probes were answered" in error
    assert "connect anew" in error


def test_a_lossy_path_is_not_taken_for_a_small_one(planes: Planes) -> None:
    fabric = planes(2)
    drop(fabric.b, "numgen random mod 100 < 20")
    a, b = Host(fabric.a), Host(fabric.b)
    b.ask("open", "fd00:1::2", "fd00:2::2", batching="mmsg")
    a.ask("open", "fd00:1::1", "fd00:2::1", batching="mmsg")
    port = b.ask("listen", 1 << 20)
    sizes = [a.ask("pmtu", a.ask("connect", ["fd00:1::2"], port)) for _ in range(8)]
    assert sizes == [1408] * 8
