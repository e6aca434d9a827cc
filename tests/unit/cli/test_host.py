"""Advice of the doctor on hosts that lack something."""

from __future__ import annotations

import pytest

from softmrc.cli.doctor import uses
from softmrc.cli.host import Host, PlaneFound, advice, inspect
from softmrc.cli.kernel import Srv6, try_srv6


def host(**changes):
    good = {
        "kernel": "6", "cpus": 2, "ipv4": True, "ipv6": True, "gso": True, "gro": True,
        "rcvbuf_granted": 4 << 20, "sndbuf_granted": 1 << 20, "rmem_max": 4 << 20, "wmem_max": 4 << 20,
        "flow_labels": True, "packet_options": True, "core": "present",
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


def test_srv6_is_tried_or_the_obstacle_named():
    found = try_srv6()
    assert bool(found.why) != all(isinstance(x, bool) for x in (found.encap, found.end, found.next_csid))


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo 'unshare failed: Operation not permitted' >&2; exit 1", Srv6(why="no network namespace to try in: "
         "unshare failed: Operation not permitted")),
        ("echo 'fd00:1::/48 encap seg6 mode encap'", Srv6(encap=True, end=False, next_csid=False)),
        ("echo 'fd00:3::/48 encap seg6local action End flavors next-csid lblen 32'",
         Srv6(encap=False, end=False, next_csid=True)),
    ],
)  # fmt: skip
def test_what_the_kernel_answers_is_read_right(monkeypatch, tmp_path, script, expected):
    fake = tmp_path / "unshare"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin:/usr/sbin:/sbin")
    assert try_srv6() == expected


def test_without_tools_nothing_is_tried(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert try_srv6() == Srv6(why="needs the commands unshare and ip")


def test_the_driver_checks_are_part_of_the_report():
    host = inspect()
    by_item = {check.item: check for check in host.checks}
    assert {"udp_segment", "udp_gro", "flow_label", "packet_options", "privileges", "rcvbuf"} <= set(by_item)
    assert all(check.status in ("ok", "warn", "missing", "unknown") and check.value for check in host.checks)
    assert host.gso == (by_item["udp_segment"].status == "ok")
