"""Two planes on loopback: every path by its list, transfers over all of them, faults and their healing."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from softmrc.errors import MrcError, UsageError
from softmrc.lab.faults import fail, heal
from softmrc.lab.probe import probe
from softmrc.lab.soft import SoftLab
from softmrc.lab.soft_client import ask
from softmrc.lab.soft_port import SoftSocket
from softmrc.srv6 import FabricFile

from .conftest import Host, Joined, wait_for


@pytest.fixture(autouse=True)
def _quiet(lab: SoftLab) -> Iterator[None]:
    """End the programs of a test, so that the next one has the lab to itself."""
    yield
    lab.close()


def test_every_path_arrives_and_passes_the_switches_it_names(lab: SoftLab) -> None:
    result = probe(lab)
    # 4 hosts, 12 ordered pairs, 4 of them below one T0: (4 * 1 + 8 * 2) * 2 planes.
    assert (result.paths_ok, result.paths_total, result.failures) == (40, 40, [])


def test_three_tiers_and_chosen_links(make_lab: Callable[..., SoftLab]) -> None:
    lab = make_lab(planes=1, t0=4, t1=4, t2=4, pods=2, hosts=4, ua=True)
    result = probe(lab)
    assert result.failures == []
    assert result.paths_ok == result.paths_total > 0
    # uA: the first SID of a T0's links leads to its first neighbour, whatever comes behind it.
    before = lab.counters()
    a, b = lab.socket("h0", 1), lab.socket("h3", 1, 4000)
    with a, b:
        b.setblocking(False)
        own = next(s for s in lab.plan.nodes["p1.t0-0"].sids if s.action == "End.X")
        assert own.dst == "fc00:1:e000::/48"
        way = next(p for p in lab.paths("h0", "h1") if p.switches)
        assert way.switches[0] == "t0-0"
        a.sendto(b"x", ("fc00:1:1000:e000:8000::", 1))  # down to its first neighbour, the host itself
    assert wait_for(lambda: lab.counters()["p1.t0-0"].packets == before["p1.t0-0"].packets + 1)


def test_a_transfer_uses_every_path_equally_and_nothing_is_dropped(lab: SoftLab) -> None:
    planes = Host(lab, "h0").open()
    assert [(p["address"], p["mtu"], p["up"]) for p in planes] == [
        (a, 9000, True) for a in lab.addresses("h0")
    ]
    joined = Joined(lab, "h0", "h3")
    assert joined.a.ask("pmtu", joined.conn) == 8192
    for _ in range(4):
        joined.a.ask("write", joined.conn, 4 << 20, 20.0)
    sent = joined.sent()
    assert set(sent) == {f"p{p} t0-0 t1-{k} t0-1" for p in (1, 2) for k in (0, 1)}
    assert min(sent.values()) > 0.3 * max(sent.values())
    # Every packet that arrived had a right iCRC, and went nowhere else.
    counters = joined.b.ask("counters")
    assert counters.get("bad_icrc", 0) == 0
    assert all(not drops for drops in lab.drops().values())


@pytest.mark.parametrize("target", ["p2", "h3.p1", "p1.t1-0", "p2.t0-0.t1-1", "h0.nic"])
def test_b46_a_fault_of_any_part_is_survived_and_healing_restores_everything(
    lab: SoftLab, target: str
) -> None:
    before = lab.snapshot()
    joined = Joined(lab, "h0", "h3", hold_time=20.0)
    stream = joined.a.ask("stream", joined.conn)

    def moved() -> int:
        return int(joined.a.ask("moved", stream)["bytes"])

    assert wait_for(lambda: moved() > 0)
    fail(lab, target)
    assert lab.snapshot() != before
    if target == "h0.nic":
        assert wait_for(lambda: not any(p["up"] for p in joined.a.ask("planes")))  # told by the switch
    else:
        broken = moved()
        assert wait_for(lambda: moved() > broken + (2 << 20), 10), joined.a.ask("moved", stream)
    if target == "h3.p1":
        assert wait_for(lambda: not joined.b.ask("planes")[0]["up"])
    heal(lab)
    assert lab.snapshot() == before
    assert all(p["up"] for p in joined.a.ask("planes")) or wait_for(
        lambda: all(p["up"] for p in joined.a.ask("planes"))
    )
    healed = moved()
    assert wait_for(lambda: moved() > healed + (2 << 20), 10)
    assert joined.a.ask("stop", stream)["error"] == ""


@pytest.mark.parametrize(
    "harm", [{"loss": 0.05}, {"corrupt": 0.05}, {"silent": True, "direction": "down"}, {"rate": 0.1}]
)
def test_gray_faults_cost_something_and_break_nothing(lab: SoftLab, harm: dict[str, Any]) -> None:
    joined = Joined(lab, "h1", "h2", hold_time=20.0)
    fault = fail(lab, "p1.t0-0.t1-0", **harm)
    try:
        for _ in range(3):
            joined.a.ask("write", joined.conn, 4 << 20, 20.0)
        counted = ask(lab.name, "counters")["ports"]["p1.t0-0.t1-0"]
        if harm.get("loss"):
            assert counted["up"]["lost"] > 0
        if harm.get("corrupt"):
            # Damage arrives as a wrong iCRC and is dropped by name, never taken for data.
            assert counted["up"]["corrupted"] > 0
            assert joined.b.ask("counters") is not None
    finally:
        heal(lab, fault.number)


def test_links_have_a_delay(make_lab: Callable[..., SoftLab]) -> None:
    lab = make_lab(planes=1, t0=2, t1=1, hosts=2, delay_ns=20_000_000)
    with lab.socket("h0", 1) as a, lab.socket("h1", 1, 4002) as b:
        began = time.monotonic()
        a.sendto(b"x", (lab.paths("h0", "h1")[0].address, 4002))
        assert b.recvmsg(100)[0] == b"x"
        took = time.monotonic() - began
    assert took >= 4 * 0.020  # four links


def test_faults_end_by_themselves(lab: SoftLab) -> None:
    fail(lab, "p1", seconds=0.2)
    assert lab.verify().down
    assert wait_for(lambda: not lab.verify().down)


def test_a_recording_is_a_pcap_of_ipv6_packets(lab: SoftLab, tmp_path: Path) -> None:
    file = tmp_path / "link.pcap"
    lab.start_recording("h0.p1", file)
    with lab.socket("h0", 1) as a, lab.socket("h1", 1, 4001) as b:
        b.setblocking(False)
        a.sendto(b"hello", ("fc00:1:1000:8001::", 4001))
        assert wait_for(lambda: lab.counters()["p1.t0-0"].packets > 0)
        assert wait_for(lambda: ask(lab.name, "counters")["ports"]["h0.p1"]["up"]["tx_packets"] > 0)
    lab.stop_recording(file)
    data = file.read_bytes()
    magic, _, _, _, _, _, link = struct.unpack_from("<IHHIIII", data)
    assert (magic, link) == (0xA1B23C4D, 101)
    length = struct.unpack_from("<IIII", data, 24)[2]
    assert data[40] >> 4 == 6
    assert data[40 : 40 + length].endswith(b"hello")
    assert lab.capture("h0.p1", file, seconds=0.01) == 0
    with pytest.raises(UsageError, match="no link"):
        lab.start_recording("h9.p1", file)
    with pytest.raises(UsageError, match="No such file"):
        lab.start_recording("h0.p1", tmp_path / "no" / "where.pcap")


def test_ports_have_one_owner_and_strangers_get_nothing(lab: SoftLab) -> None:
    gateway = lab.fabric().gateways["fc00:1:8000::"]
    with SoftSocket(gateway, "fc00:1:8000::", 5000) as one:
        assert one.getsockname() == ("fc00:1:8000::", 5000)
        with pytest.raises(MrcError, match="in use"):
            SoftSocket(gateway, "fc00:1:8000::", 5000)
        with pytest.raises(MrcError, match="assign requested address"):
            SoftSocket(gateway, "fc00:1:8001::", 5001)
    SoftSocket(gateway, "fc00:1:8000::", 5000).close()


def test_the_fabric_file_says_where_to_go_and_where_to_meet(lab: SoftLab) -> None:
    fabric = FabricFile.read(lab.fabric_file)
    assert fabric.trimming
    assert set(fabric.gateways) == {a for h in lab.hosts for a in lab.addresses(h)}
    first, second = fabric.meeting_point("fc00:1:8000::"), fabric.meeting_point("fc00:2:8000::")
    assert first == second
    assert first is not None
    assert first.startswith("127.")


def test_what_only_a_kernel_has_is_refused_in_words(lab: SoftLab, make_lab: Callable[..., SoftLab]) -> None:
    with pytest.raises(UsageError, match="no network namespace"):
        lab.namespace("h0")
    with pytest.raises(UsageError, match="no program runs in it"):
        lab.run("p1.t0-0", "true")
    with pytest.raises(UsageError, match="no host h9"):
        lab.run("h9", "true")
    with pytest.raises(UsageError, match="encap"):
        make_lab(encap=True)
    with pytest.raises(UsageError, match="at most 9216"):
        make_lab(mtu=20000)
    with pytest.raises(UsageError, match="up already"):
        make_lab(name=lab.name)


def test_requests_that_make_no_sense_are_answered_in_words(lab: SoftLab) -> None:
    for do, more in (
        ("dance", {}),
        ("lines", {}),
        ("lines", {"changes": [{"link": "no"}]}),
        ("lines", {"changes": 5}),
    ):
        with pytest.raises(UsageError):
            ask(lab.name, do, **more)
    assert ask(lab.name, "stats")["failure"] == ""
