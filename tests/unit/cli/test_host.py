"""Advice of the doctor on hosts that lack something."""

from __future__ import annotations

from softmrc.cli.doctor import uses
from softmrc.cli.host import Host, PlaneFound, advice


def host(**changes):
    good = {
        "kernel": "6", "cpus": 2, "ipv4": True, "ipv6": True, "gso": True, "gro": True,
        "rcvbuf_granted": 4 << 20, "sndbuf_granted": 1 << 20, "rmem_max": 4 << 20, "wmem_max": 4 << 20,
        "flow_labels": True, "core": "present",
        "planes": [PlaneFound("eth1", "10.0.0.1", 4, 9000, True, 1000)],
    }  # fmt: skip
    return Host(**{**good, **changes})


def test_a_good_host_needs_nothing():
    assert advice(host()) == []


def test_each_lack_has_its_line():
    lines = [f.command for f in advice(host(rcvbuf_granted=212992, sndbuf_granted=212992, ipv6=False))]
    assert any("net.core.rmem_max=4194304" in line for line in lines)
    assert any("net.core.wmem_max=" in line for line in lines)
    assert any("disable_ipv6=0" in line for line in lines)
    small = advice(host(planes=[PlaneFound("eth1", "10.0.0.1", 4, 1500, True, 1000)]))
    assert small[0].command.startswith("ip link set eth1 mtu 9000")
    assert "make build" in advice(host(core="missing: no module"))[0].command


def test_loopback_and_link_local_are_the_last_choice():
    planes = [
        PlaneFound("lo", "127.0.0.1", 4, 65536, True, 0),
        PlaneFound("eth0", "fe80::1%eth0", 6, 1500, True, 0),
        PlaneFound("eth0", "fd00::1", 6, 1500, True, 0),
        PlaneFound("eth1", "10.0.0.1", 4, 1500, False, 0),
    ]
    assert uses(host(planes=planes))["planes"] == ["fd00::1"]
    assert uses(host(planes=planes[:2]))["planes"] == ["fe80::1%eth0"]
