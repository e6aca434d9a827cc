"""Namespaces: they are what they say, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from softmrc.errors import MrcError, UsageError
from softmrc.netns import Fabric, Hole, Loss, Namespace, cut, lossy, sweep
from softmrc.netns.sweep import processes_in

_ASK = """
import socket, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.settimeout(0.3)
s.connect((sys.argv[1], 9))
s.send(b"anyone?")
try:
    s.recv(1)
except ConnectionRefusedError:
    print("alive")
except TimeoutError:
    print("silent")
"""


def asked(space: Namespace, address: str) -> str:
    return space.run(sys.executable, "-c", _ASK, address).strip()


def mine() -> list[str]:
    return [p.name for p in Path("/run/netns").glob(f"smrc{os.getpid()}-*")]


def test_links_pass_traffic_and_holes_swallow_it(planes: Callable[..., Fabric]) -> None:
    fabric = planes(2, 9000)
    assert fabric.addresses("a") == ["fd00:1::1", "fd00:2::1"]
    assert asked(fabric.a, "fd00:1::2") == asked(fabric.a, "fd00:2::2") == "alive"
    before = fabric.b.received_bytes("b1")
    with cut(fabric.b, "b1"):
        assert asked(fabric.a, "fd00:1::2") == "silent"
        assert asked(fabric.a, "fd00:2::2") == "alive"
    assert asked(fabric.a, "fd00:1::2") == "alive"
    assert fabric.b.received_bytes("b1") > before
    assert fabric.b.run("nft", "list", "ruleset") == ""


def test_down_and_up_keep_the_address(planes: Callable[..., Fabric]) -> None:
    fabric = planes(1)
    fabric.a.down("a1")
    with pytest.raises(MrcError):
        asked(fabric.a, "fd00:1::2")
    fabric.a.up("a1")
    end = time.monotonic() + 20
    while asked(fabric.a, "fd00:1::2") != "alive":
        assert time.monotonic() < end


def test_a_share_of_the_packets_is_lost(planes: Callable[..., Fabric]) -> None:
    fabric = planes(1)
    with lossy(fabric.b, 1.0, "b1"):
        assert asked(fabric.a, "fd00:1::2") == "silent"
        assert "packets 0" not in fabric.b.run("nft", "list", "ruleset")
    for share in (0, -1, 1.5, 1e-9):
        with pytest.raises(UsageError):
            Loss(fabric.b, "b1").set(share)
    hole = Hole(fabric.b, "b1")
    hole.clear()
    hole.set()
    hole.set()
    hole.clear()
    assert fabric.b.run("nft", "list", "ruleset") == ""


def test_rates_are_set(planes: Callable[..., Fabric]) -> None:
    fabric = planes(1, bits_per_second=10_000_000)
    for host, dev in ((fabric.a, "a1"), (fabric.b, "b1")):
        assert "rate 10Mbit" in host.run("tc", "qdisc", "show", "dev", dev)
    fabric.a.rate("a1", 20_000_000)
    assert "rate 20Mbit" in fabric.a.run("tc", "qdisc", "show", "dev", "a1")


def test_switches_forward_and_shift_usids() -> None:
    with Fabric.chain(2, 9000, usid=True) as fabric:
        assert asked(fabric.a, "fd0b::1") == "alive"
        assert asked(fabric.b, "fc00:0:a001::") == "alive"
        assert fabric.usid_list("b") == "fc00:0:1001:1002:b001::"
        assert fabric.usid_list("a") == "fc00:0:1002:1001:a001::"
        routes = fabric.switches[0].run("ip", "-6", "route", "show")
        assert "seg6local" in routes


def broken_use() -> None:
    with Fabric.planes(1) as fabric:
        fabric.a.popen("sleep", "60")
        assert len(mine()) == 2
        raise ZeroDivisionError


def test_nothing_is_left() -> None:
    with pytest.raises(ZeroDivisionError):
        broken_use()
    assert mine() == []
    with pytest.raises(UsageError):
        Fabric.planes(40)
    with pytest.raises(MrcError):
        Fabric.planes(1, mtu=3)  # the kernel refuses after the namespaces are made
    assert mine() == []


def test_errors_name_the_command_and_the_reason() -> None:
    with Namespace("x") as space:
        with pytest.raises(MrcError, match="no link nowhere"):
            space.up("nowhere")
        with pytest.raises(MrcError, match=r"nft.*syntax error"):
            space.nft("table netdev {")
        with pytest.raises(MrcError, match=r"route.*fd00:9"):
            space.route("fd00:9::/64", via="fd00:1::2")


_OWNER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from softmrc.netns import Namespace
    space = Namespace("left")
    child = space.popen("sleep", "300")
    while Path(f"/proc/{child.pid}/comm").read_text().strip() != "sleep":
        pass
    print(space.name, flush=True)
    sys.stdin.read()
    """
)


def test_what_a_killed_owner_left_is_swept() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        name = owner.stdout.readline().strip()
        assert Path("/run/netns", name).exists()
        assert name not in sweep()  # its owner lives
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    end = time.monotonic() + 20
    while processes_in(name) and time.monotonic() < end:
        time.sleep(0.02)
    assert processes_in(name) == []  # programs die with their owner
    sweep()  # or another run on this host did it already
    assert not Path("/run/netns", name).exists()
