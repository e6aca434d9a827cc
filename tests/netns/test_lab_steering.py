"""Endpoints inside a lab: uSID lists spread over every path, both ways, with no option; what dies and is named."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.netns.conftest import AGENT, Host

from softmrc.lab import Lab, faults

SOFTMRC = (sys.executable, "-m", "softmrc.cli.app")


class Inside(Host):
    """An agent in a host of a lab, told about the fabric by its environment alone."""

    def __init__(self, lab: Lab, host: str) -> None:
        self.process = lab.popen(
            host,
            sys.executable,
            str(AGENT),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture(scope="module")
def fabric(lab_maker: Callable[..., Lab]) -> Lab:
    return lab_maker(switch="kernel", planes=2, t0=2, t1=2, hosts=4, rate_bps=100_000_000)


@pytest.fixture
def ends(fabric: Lab) -> Iterator[tuple[Inside, Inside]]:
    """h0 and h3, connected over both planes by nothing but what the lab's environment says."""
    a, b = Inside(fabric, "h0"), Inside(fabric, "h3")
    try:
        b.ask("open")
        a.ask("open")
        port = b.ask("listen", 4 << 20)
        a.ask("connect", fabric.addresses("h3"), port)
        yield a, b
    finally:
        faults.heal(fabric)
        a.end()
        b.end()


def sids(lab: Lab) -> dict[str, int]:
    """Packets that each switch has taken its uSID out of."""
    return {node: count.packets for node, count in lab.counters().items() if not node.startswith("h")}


def test_planes_come_from_the_environment_and_evs_cover_all_paths(
    ends: tuple[Inside, Inside], fabric: Lab
) -> None:
    a, _ = ends
    assert [p["address"] for p in a.ask("planes")] == fabric.addresses("h0")
    names = Counter(p["path"] for p in a.ask("paths", 0))
    ways = [w.name for w in fabric.paths("h0", "h3")]
    assert set(names) == set(ways)
    assert len(set(names.values())) == 1


def test_data_and_sacks_pass_every_switch_on_the_way(ends: tuple[Inside, Inside], fabric: Lab) -> None:
    """Both T0s shift what goes each way, and every T1 of both planes carries some of it."""
    a, _ = ends
    before = sids(fabric)
    a.ask("write", 0, 2 << 20)
    passed = {node: n - before[node] for node, n in sids(fabric).items()}
    for plane in (1, 2):
        for switch in ("t0-0", "t0-1", "t1-0", "t1-1"):
            assert passed[f"p{plane}.{switch}"] > 20, passed


def test_a_silent_t1_is_named_in_stats_and_events(ends: tuple[Inside, Inside], fabric: Lab) -> None:
    a, _ = ends
    a.ask("write", 0, 1 << 20)
    faults.fail(fabric, "p1.t1-1", silent=True)
    stream = a.ask("stream", 0)
    deadline = time.monotonic() + 20
    bad: set[str] = set()
    while not bad and time.monotonic() < deadline:
        bad = {p["path"] for p in a.ask("paths", 0) if p["state"] == "assumed_bad"}
        time.sleep(0.05)
    faults.heal(fabric)
    a.ask("stop", stream)
    assert bad == {"p1 t0-0 t1-1 t0-1"}
    told = [e for e in a.ask("events") if e["kind"] == "ev_state" and e["state"] == "assumed_bad"]
    assert {e["path"] for e in told} == {"p1 t0-0 t1-1 t0-1"}


def test_below_one_t0_no_t1_is_passed(fabric: Lab) -> None:
    a, b = Inside(fabric, "h0"), Inside(fabric, "h1")
    try:
        b.ask("open")
        a.ask("open")
        a.ask("connect", fabric.addresses("h1"), b.ask("listen", 4 << 20))
        assert {p["path"] for p in a.ask("paths", 0)} == {"p1 t0-0", "p2 t0-0"}
        before = sids(fabric)
        a.ask("write", 0, 1 << 20)
        passed = {node: n - before[node] for node, n in sids(fabric).items()}
        assert passed["p1.t0-0"] > 20
        assert all(passed[f"p{p}.t1-{k}"] == 0 for p in (1, 2) for k in (0, 1)), passed
    finally:
        a.end()
        b.end()


@pytest.mark.parametrize("fill", [False, True])
def test_checksums_are_right_whoever_makes_them(fabric: Lab, fill: bool) -> None:
    """limits.md 4: where the host's device fills sums in, the kernel's is that of the first address of the list."""
    words = ["ethtool", "-K", "p1", "tx", "off" if fill else "on"]
    fabric.run("h0", *words)
    try:
        a, b = Inside(fabric, "h0"), Inside(fabric, "h3")
        try:
            b.ask("open")
            a.ask("open")
            a.ask("connect", fabric.addresses("h3"), b.ask("listen", 4 << 20))
            before = _sum_errors(fabric, "h3")
            a.ask("write", 0, 1 << 20)
            assert _sum_errors(fabric, "h3") == before
            assert {p["plane"] for p in a.ask("paths", 0) if p["sent"] > 0} == {1, 2}
            assert all(p["state"] != "assumed_bad" for p in a.ask("paths", 0))
        finally:
            a.end()
            b.end()
    finally:
        fabric.run("h0", "ethtool", "-K", "p1", "tx", "on")


def _sum_errors(lab: Lab, host: str) -> int:
    rows = lab.run(host, "cat", "/proc/net/snmp6").splitlines()
    return next(int(r.split()[1]) for r in rows if r.startswith("Udp6InCsumErrors"))


def test_perf_needs_no_option_inside_a_lab(fabric: Lab) -> None:
    server = fabric.popen(
        "h3", *SOFTMRC, "perf", "--once", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    client = [*SOFTMRC, "perf", "h3", "-s", "64k", "-n", "64", "--timeout", "20", "--json"]
    row: dict[str, Any] = json.loads(fabric.run("h0", *client, timeout=40))
    assert server.wait(10) == 0
    assert {p["path"] for p in row["per_ev"]} == {w.name for w in fabric.paths("h0", "h3")}
    assert {p["plane"] for p in row["per_ev"] if p["sent"]} == {1, 2}


def test_without_a_fabric_file_addresses_are_plain(fabric: Lab) -> None:
    """`fabric=""` switches it off: the kernel's own routes carry the connection then."""
    a, b = Inside(fabric, "h0"), Inside(fabric, "h3")
    try:
        b.ask("open", fabric="")
        a.ask("open", fabric="")
        a.ask("connect", fabric.addresses("h3"), b.ask("listen", 4 << 20))
        assert {p["path"] for p in a.ask("paths", 0)} == {""}
        assert a.ask("write", 0, 1 << 16) > 0
    finally:
        a.end()
        b.end()


def test_ping_probes_every_path_and_names_the_dead_ones(ends: tuple[Inside, Inside], fabric: Lab) -> None:
    _, b = ends
    port = b.ask("listen", 1 << 20)
    faults.fail(fabric, "p2.t1-0", silent=True)
    words = [*SOFTMRC, "ping", f"h3:{port}", "-c", "3", "-i", "0.1", "--evs", "2", "--json"]
    child = fabric.popen("h0", *words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    out, _ = child.communicate(timeout=40)
    dead = {p["path"] for p in json.loads(out)["paths"] if p["dead"]}
    assert child.returncode == 1
    assert dead == {"p2 t0-0 t1-0 t0-1"}
