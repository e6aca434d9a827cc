"""Captures of real runs: every frame is a packet that dissectors understand, at every hop."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet
from scapy.utils import rdpcap

from softmrc.sim.builder import Builder
from softmrc.sim.config import Clos, Fault, Mrc, Queues, Rocev2, Tcp, Transport
from softmrc.sim.result.captures import write_captures
from softmrc.sim.result.frames import Frame, packet_of
from softmrc.sim.run import simulate
from softmrc.wire.frames import DSCP, parse_frame

FABRIC = Clos(hosts=8, planes=2, hosts_per_t0=4, t1_per_plane=2)
UP = ["h0.p1.up", "p1.t0-0.t1-0.up", "p1.t0-1.t1-0.down", "h4.p1.down"]
ENDPOINT_REQUEST, SACK, PROBE = 0xD8, 0xDC, 0xDE


def captured(
    folder: Path, transport: Transport, *, links: list[str] = UP, **more: Any
) -> dict[str, list[Packet]]:
    builder = Builder()
    builder.sends(np.array([0, 1, 2, 3]), np.full(4, 4), np.full(4, 400_002))
    outcome = simulate(FABRIC, builder.build(), transport, pcap_links=links, seed=2, **more)
    assert outcome.stopped == "done"
    settings = {"transport": {"name": transport.name, **vars(transport)}}
    result = SimpleNamespace(outcome=outcome, transport=transport.name, settings=settings)
    files = write_captures(cast(Any, result), folder)
    return {f.name.removesuffix(".pcap"): list(rdpcap(str(f))) for f in files}


def body_of(packet: Packet) -> bytes:
    """What stands behind the UDP header, whatever scapy makes of it."""
    return bytes(packet[UDP])[8:]


def wire_length(packet: Packet) -> int:
    """The length that the record says the packet had."""
    assert packet.wirelen is not None
    return int(packet.wirelen)


def key_of(packet: Packet) -> tuple[str, bytes]:
    """Who sent it, and its QP and PSN with all flags."""
    return packet.src, body_of(packet)[:12]


@pytest.fixture(scope="module")
def mrc(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Packet]]:
    queues = Queues(trim_bytes=30_000, trim_last_hop=40_000, ecn_min=5_000, ecn_max=20_000)
    return captured(tmp_path_factory.mktemp("mrc"), Mrc(evs=8, backups=0), queues=queues)


def test_all_links_were_captured(mrc: dict[str, list[Packet]]) -> None:
    assert sorted(mrc) == sorted(UP)
    assert all(len(packets) > 50 for packets in mrc.values())


def test_usids_are_shifted_hop_by_hop(mrc: dict[str, list[Packet]]) -> None:
    seen: dict[tuple[str, bytes], list[tuple[str, str]]] = defaultdict(list)
    for link in UP:
        for packet in mrc[link]:
            seen[key_of(packet)].append((link, packet.dst))
    whole = [[dst for _, dst in hops] for hops in seen.values() if [link for link, _ in hops] == UP]
    assert len(whole) > 20
    for hops in whole:
        raw = [bytes(IPv6(dst=h))[24:40] for h in hops]
        assert all(r[:4] == bytes.fromhex("fcbbbb00") for r in raw)
        for before, after in pairwise(raw):
            assert after == before[:4] + before[6:] + b"\0\0"
        # T0, T1, T0 and host at first, the host alone at last.
        assert raw[0][10:12] != b"\0\0"
        assert raw[0][12:] == raw[3][6:10] == bytes(4)
        assert raw[3][4:6] == b"\0\1"


LINK_BYTES = 38  # preamble, Ethernet header, FCS and gap, which a capture of IP packets has not


def test_lengths_are_those_of_the_wire(tmp_path: Path) -> None:
    builder = Builder()
    builder.sends([0, 1, 2, 3], 4, 400_002)
    queues = Queues(trim_bytes=30_000, trim_last_hop=40_000)
    for transport in (Mrc(evs=8, backups=0), Mrc(evs=8, mode="ecmp"), Rocev2(), Tcp()):
        found = simulate(FABRIC, builder.build(), transport, queues=queues, pcap_links=["h0.p1", "h4.p1"])
        frames = [Frame.of(record) for record in found.pcap]
        assert len(frames) > 100
        for frame in frames:
            made = packet_of(frame, transport.name)
            assert frame.size == max(made.length + LINK_BYTES, 84)
            assert made.length == 40 + IPv6(made.data).plen


def test_udp_says_the_length_before_a_trim(mrc: dict[str, list[Packet]]) -> None:
    for packet in (p for link in UP for p in mrc[link]):
        assert packet.nh == 17
        assert packet[UDP].dport == 4791
        trimmed = packet.tc >> 2 in (12, 16)
        assert (packet[UDP].len > packet.plen) if trimmed else (packet[UDP].len == packet.plen)


def test_data_has_its_headers_and_no_payload(mrc: dict[str, list[Packet]]) -> None:
    data = [p for p in mrc["h0.p1.up"] if 0xC6 <= body_of(p)[0] <= 0xCB]
    assert data
    for packet in data:
        assert len(bytes(packet)) < wire_length(packet)
        assert packet.tc & 3 == 2
        # The EV names the plane in its high byte, half of it in the flow label.
        assert packet.fl >> 8 == 1
        last = body_of(packet)[0] in (0xC8, 0xC9)
        assert wire_length(packet) - len(bytes(packet)) == (400_002 % 4096 + 2 if last else 4096) + 4


def test_marks_and_trims_are_those_of_the_hop(mrc: dict[str, list[Packet]]) -> None:
    assert not [p for p in mrc["h0.p1.up"] if p.tc & 3 == 3 or p.tc >> 2 in (12, 16)]
    # The queues build up towards host 4.
    down = mrc["h4.p1.down"] + mrc["p1.t0-1.t1-0.down"]
    assert [p for p in down if p.tc & 3 == 3]
    trimmed = [p for p in down if p.tc >> 2 in (12, 16)]
    assert trimmed
    for packet in trimmed:
        assert wire_length(packet) == len(bytes(packet))
        _, trim, fields = parse_frame(bytes(packet), DSCP)
        assert trim == ("trimmed" if packet.tc >> 2 == 12 else "trimmed_lasthop")
        assert set(fields) == {"BTH", "METH", "TSETH"}


def test_answers_are_whole_and_their_icrc_is_right(tmp_path: Path) -> None:
    """At the receiver: the iCRC covers the destination that is left at the end of the list."""
    packets = captured(tmp_path, Mrc(evs=8, backups=0), links=["h0.p1.down"])["h0.p1.down"]
    assert [p for p in packets if body_of(p)[0] == SACK]
    for packet in packets:
        assert packet.tc >> 2 == 46 or body_of(packet)[0] in (ENDPOINT_REQUEST, PROBE)
        assert wire_length(packet) == len(bytes(packet))
        _, trim, fields = parse_frame(bytes(packet), DSCP)
        assert trim is None
        assert fields["BTH"]["psn"] is not None


@pytest.mark.parametrize("mode", ["stev", "ecmp"])
def test_without_srv6_packets_go_to_the_host(tmp_path: Path, mode: str) -> None:
    packets = captured(tmp_path, Mrc(evs=8, backups=0, mode=mode))["h0.p1.up"]
    assert packets
    assert all(p.nh == 17 and p.dst == "fd00:0:1::4" for p in packets)


def test_rocev2_is_rocev2(tmp_path: Path) -> None:
    found = captured(tmp_path, Rocev2(), links=["h0.p1", "h0.p2"])
    up = found.get("h0.p1.up", []) + found.get("h0.p2.up", [])
    bths = [BTH(body_of(p) + bytes(4)) for p in up]  # scapy looks for an iCRC at the end
    assert [b.opcode for b in bths[:2]] == [0x06, 0x07]
    assert {b.opcode for b in bths} <= {0x06, 0x07, 0x08}
    assert max(b.psn for b in bths) == 400_002 // 4096
    down = found.get("h0.p1.down", []) + found.get("h0.p2.down", [])
    acks = [BTH(body_of(p)) for p in down]
    assert {a.opcode for a in acks} <= {0x11, 0x81}
    assert any(AETH in a for a in acks)
    assert all(p.plen == p[UDP].len and wire_length(p) == 40 + p.plen for p in up + down)


def test_tcp_is_tcp(tmp_path: Path) -> None:
    lossy = [Fault(0, "link_loss", "h4.p1", 0.02), Fault(0, "link_loss", "h4.p2", 0.02)]
    found = captured(tmp_path, Tcp(), links=["h4.p1", "h4.p2"], faults=lossy)
    down = [p for name, packets in found.items() if name.endswith("down") for p in packets]
    segments = [p[TCP] for p in down]
    assert all(s.dport == 5001 and s.seq % 4096 == 0 and s.dataofs == 8 for s in segments)
    assert all(wire_length(p) - 40 - 32 in (4096, 400_002 % 4096) for p in down)
    assert max(s.seq for s in segments) == 400_002 // 4096 * 4096
    assert sum(s.flags == "PA" for s in segments) >= 4  # one a message, sent again or not
    acks = [p[TCP] for name, packets in found.items() if name.endswith("up") for p in packets]
    assert all(a.sport == 5001 and a.ack % 4096 == 0 for a in acks)
    blocks = [value for a in acks for kind, value in a.options if kind == "SAck"]
    assert blocks
    assert all(begin < end for value in blocks for begin, end in zip(value[::2], value[1::2], strict=True))
