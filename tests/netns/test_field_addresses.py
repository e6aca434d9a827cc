"""Field cases B27, B28, B29 and B60: which addresses of a host become planes, and which belong together."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.netns.conftest import AgentError, Host, Joined

from softmrc.netns import Fabric
from softmrc.netns.space import tell

Planes = Callable[..., Fabric]


def add_container_bridge(fabric: Fabric) -> None:
    """Both hosts get a docker0 with the same address, as container engines give it."""
    for host in (fabric.a, fabric.b):
        tell("ip", "-n", host.name, "link", "add", "docker0", "type", "bridge")
        host.up("docker0")
        host.address("docker0", "172.17.0.1/16")


def opened(host: Host, *planes: str) -> list[str]:
    return [p["address"] for p in host.ask("open", *planes)]


def test_lists_as_other_libraries_take_them(planes: Planes) -> None:
    """B27: names, exclusions, prefixes; loopback and container bridges only when named."""
    fabric = planes(2)
    add_container_bridge(fabric)
    fabric.a.address("a2", "10.2.0.1/24")
    for texts, want in (
        (["a1,a2"], ["fd00:1::1", "fd00:2::1"]),
        (["^lo"], ["fd00:1::1", "fd00:2::1"]),
        (["^docker0,lo,a1"], ["fd00:2::1"]),
        (["fd00:2::/64", "a1"], ["fd00:2::1", "fd00:1::1"]),
        (["10.0.0.0/8"], ["10.2.0.1"]),
        (["docker0"], ["172.17.0.1"]),
    ):
        assert opened(Host(fabric.a), *texts) == want
    host = Host(fabric.a)
    opened(host, "a1", "a2")
    (said,) = (line for line in host.ask("log") if "planes are" in line)
    assert said.endswith("planes are fd00:1::1, fd00:2::1")


def test_planes_that_a_route_joins_belong_together(planes: Planes) -> None:
    """B27, B60: whatever order each end lists them in, and where one end has fewer."""
    fabric = planes(3)
    a, b = Host(fabric.a), Host(fabric.b)
    opened(b, "b3", "b1", "b2")
    port = b.ask("listen", 4 << 20)
    opened(a, "a1", "a2", "a3")
    conn = a.ask("connect", ["fd00:2::2"], port)
    assert a.ask("routes", conn) == [[1, "fd00:1::2"], [2, "fd00:2::2"], [3, "fd00:3::2"]]
    a.ask("write", conn, 4 << 20)
    fewer = Host(fabric.a)
    opened(fewer, "a1", "a2")
    conn = fewer.ask("connect", ["fd00:2::2"], port)
    assert fewer.ask("routes", conn) == [[1, "fd00:1::2"], [2, "fd00:2::2"]]
    fewer.ask("write", conn, 1 << 20)
    assert "assumed_bad" not in {p["state"] for p in fewer.ask("paths", conn)}


def test_link_local_planes(planes: Planes) -> None:
    """B28: the scope is kept, and used on the link it names."""
    fabric = planes(2)
    for i in (1, 2):
        fabric.a.address(f"a{i}", f"fe80::a{i}/64")
        fabric.b.address(f"b{i}", f"fe80::b{i}/64")
    joined = Joined(fabric, ["fe80::a1%a1"], ["fe80::b1%b1"], dial=["fe80::b1%a1"])
    assert [p["address"] for p in joined.a.ask("planes")] == ["fe80::a1%a1"]
    joined.a.ask("write", joined.conn, 1 << 20)
    two = Joined(fabric, ["fe80::a2%a2", "fe80::a1%a1"], ["fe80::b2%b2", "fe80::b1%b1"], dial=["fe80::b1%a1"])
    two.a.ask("write", two.conn, 4 << 20)
    assert two.a.ask("planes_in_use", two.conn) == [1, 2]


def test_global_addresses_are_preferred(planes: Planes) -> None:
    """B28: NICs with link-local addresses first."""
    fabric = planes(1)
    assert opened(Host(fabric.a), "a1") == ["fd00:1::1"]
    assert opened(Host(fabric.a), "^lo") == ["fd00:1::1"]


def without_ipv6(fabric: Fabric, off: str) -> None:
    for host, dev, address in ((fabric.a, "a1", "10.1.0.1/24"), (fabric.b, "b1", "10.1.0.2/24")):
        host.address(dev, address)
    for name in off:
        {"a": fabric.a, "b": fabric.b}[name].sysctl("net.ipv6.conf.all.disable_ipv6", 1)


def test_hosts_without_ipv6_use_ipv4_and_say_what_is_missing(planes: Planes) -> None:
    """B29."""
    fabric = planes(1)
    without_ipv6(fabric, "ab")
    joined = Joined(fabric, ["a1"], ["b1"], dial=["10.1.0.2"])
    assert [p["address"] for p in joined.a.ask("planes")] == ["10.1.0.1"]
    joined.a.ask("write", joined.conn, 4 << 20)
    warned = [line for line in joined.a.ask("log") if "IPv6 is off" in line]
    assert len(warned) == 1
    assert "flow label" in warned[0]
    assert "SRv6" in warned[0]


def test_one_host_without_ipv6(planes: Planes) -> None:
    """B29: the common family where both have one, else an error that names both sides."""
    fabric = planes(1)
    without_ipv6(fabric, "a")
    joined = Joined(fabric, ["a1"], ["fd00:1::2", "10.1.0.2"], dial=["10.1.0.2"])
    assert joined.a.ask("routes", joined.conn) == [[1, "10.1.0.2"]]
    joined.a.ask("write", joined.conn, 1 << 20)
    with pytest.raises(AgentError, match="no common address family"):
        Joined(fabric, ["a1"], ["fd00:1::2"], dial=["10.1.0.2"], listen=["10.1.0.2"])


def command(*args: object) -> list[str]:
    return [sys.executable, "-c", "from softmrc.cli.app import main; main()", *map(str, args)]


def test_commands_take_names_and_say_what_they_chose(planes: Planes, tmp_path: Path) -> None:
    """B27: `recv`, `send` with planes and without, `ping`."""
    fabric = planes(2)
    add_container_bridge(fabric)
    data = tmp_path / "data"
    data.write_bytes(b"x" * 300_000)
    receiver = fabric.b.popen(
        *command("recv", "--listen", "^lo", "--dir", tmp_path / "in", "--token", "t"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert receiver.stderr is not None
    lines = [receiver.stderr.readline() for _ in range(4)]
    assert [line.split()[1] for line in lines[1:3]] == ["[fd00:1::2]:4791", "[fd00:2::2]:4791"]
    for options, want in (
        (["--planes", "a2,a1"], "planes: fd00:2::1 to fd00:2::2, fd00:1::1 to fd00:1::2"),
        ([], "planes: fd00:1::1 to fd00:1::2, fd00:2::1 to fd00:2::2"),
        (["--planes", "=a2"], "planes: fd00:2::1 to fd00:2::2"),
    ):
        sent = fabric.a.popen(
            *command("send", data, "fd00:1::2", "--token", "t", *options),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        out, _ = sent.communicate(timeout=30)
        assert sent.returncode == 0, out
        assert out.splitlines().count(want) == 1, out
    ping = fabric.a.popen(
        *command("ping", "fd00:1::2", "--planes", "a*", "--token", "t", "-c", "1", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    out, _ = ping.communicate(timeout=30)
    assert [p["peer"] for p in json.loads(out)["planes"]] == ["fd00:1::2", "fd00:2::2"]
