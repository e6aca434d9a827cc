"""Thresholds of queues: those recommended, in products of rate and round trip."""

from __future__ import annotations

import struct

import pytest

from softmrc.errors import UsageError
from softmrc.lab import LabSpec
from softmrc.lab.bpf_build import bpf_object, why_no_bpf
from softmrc.lab.plan import make_plan
from softmrc.lab.ports import PortCounters, queue_settings
from softmrc.lab.queue_spec import Dscps, QueueSpec, base_rtt
from softmrc.lab.queues import lab_rtt, port_spec, why_no_trimming

RATE = 200_000_000
BDP = 25_000_000 * 0.004  # of 4 ms


def spec(**more: object) -> QueueSpec:
    return QueueSpec.of_switch(RATE, 1500, rtt=0.004, **more)  # type: ignore[arg-type]


def test_thresholds_are_multiples_of_the_bandwidth_delay_product() -> None:
    fabric = spec(last_hop=False)
    assert (fabric.ecn_min, fabric.ecn_max) == (0.2 * BDP, 0.8 * BDP)
    assert (fabric.trim_bytes, fabric.data_bytes, fabric.trimmed_dscp) == (BDP, 4 * BDP, 12)


def test_the_last_hop_marks_nothing_and_trims_later_with_a_code_of_its_own() -> None:
    last = spec(last_hop=True)
    assert (last.ecn_min, last.ecn_max, last.trim_bytes, last.trimmed_dscp) == (0, 0, 1.5 * BDP, 16)


def test_what_is_off_is_off() -> None:
    plain = spec(last_hop=False, trimming=False, ecn=False)
    assert (plain.ecn_min, plain.ecn_max, plain.trim_bytes) == (0, 0, 0)


def test_a_slow_line_queues_a_packet_before_anything_happens() -> None:
    slow = QueueSpec.of_switch(100_000, 9000, last_hop=False, rtt=1e-3)
    assert min(slow.ecn_min, slow.ecn_max, slow.trim_bytes) >= 9014
    assert slow.data_bytes >= 8 * 9014


def test_the_round_trip_counts_full_packets_on_every_link() -> None:
    assert base_rtt(8 * 9014 * 1000, 9000) == pytest.approx(4e-3 + 2e-3)
    assert base_rtt(8 * 9014 * 1000, 9000, 6) == pytest.approx(6e-3 + 2e-3)
    two, three = LabSpec(), LabSpec(t0=4, t1=4, t2=4, pods=2, hosts=8)
    assert lab_rtt(three) > lab_rtt(two)
    assert lab_rtt(LabSpec(rate_bps=None)) == 0
    assert lab_rtt(LabSpec(delay_ns=1_000_000, switch="soft")) == pytest.approx(lab_rtt(two) + 8e-3)


@pytest.mark.parametrize(("rate", "mtu"), [(0, 1500), (-1, 1500), (1000, 0)])
def test_no_such_line(rate: int, mtu: int) -> None:
    with pytest.raises(UsageError):
        QueueSpec.of_switch(rate, mtu, last_hop=False)


def test_ports_of_a_lab() -> None:
    lab = LabSpec(planes=1, fabric_rate_bps=100_000_000)
    links = {link.name: link for link in make_plan(lab).links}
    assert port_spec(lab, links["h0.p1"], "a") is None
    down, up = port_spec(lab, links["h0.p1"], "b"), port_spec(lab, links["p1.t0-0.t1-0"], "a")
    assert down is not None
    assert up is not None
    assert (down.last_hop, down.rate_bps, up.last_hop, up.rate_bps) == (True, RATE, False, 100_000_000)


def test_why_a_lab_does_not_trim() -> None:
    assert "off" in why_no_trimming(LabSpec(trimming=False))
    assert "as fast" in why_no_trimming(LabSpec(rate_bps=None))
    assert why_no_trimming(LabSpec()) == why_no_bpf()


def test_settings_are_times_on_the_line() -> None:
    queue = spec(last_hop=False)
    ps, low, high, trim, drop, first, may, code, burst = struct.unpack(
        "=9Q", queue_settings(queue, Dscps().high())
    )
    assert ps == 40_000  # 200 Mbit/s: 40 ns a byte
    assert [t / 1e9 for t in (low, high, trim, drop)] == pytest.approx([0.0008, 0.0032, 0.004, 0.016])
    assert [n for n in range(64) if first >> n & 1] == [12, 16, 46]
    assert [n for n in range(64) if may >> n & 1] == [4, 8]
    assert code == 12
    assert burst == pytest.approx(2e6)  # what the shaper has
    slow = struct.unpack("=9Q", queue_settings(queue, Dscps().high(), RATE // 2))
    assert slow[0] == 80_000
    assert slow[3] == 2 * trim  # the same bytes take twice the time


def test_settings_have_the_size_the_program_reads() -> None:
    programs = bpf_object()
    if programs is None:
        pytest.skip(f"needs clang and BPF: {why_no_bpf()}")
    assert programs.map_bytes["queue_set"] == len(queue_settings(None, ()))


def test_counters_since() -> None:
    before, after = PortCounters(seen=1, trimmed=2, backlog=9), PortCounters(seen=5, trimmed=2, backlog=3)
    assert after.since(before) == PortCounters(seen=4, backlog=3)
