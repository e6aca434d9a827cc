"""Captures as scapy reads them back."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from scapy.layers.inet import TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.utils import RawPcapNgReader, RawPcapReader, rdpcap

from softmrc.errors import UsageError
from softmrc.sim.result.captures import file_name
from softmrc.sim.result.frames import Frame, packet_of
from softmrc.sim.result.pcap import LINKTYPE_RAW, Packet, pcap_bytes, write_pcap


def packet(port: int, payload: int = 8) -> bytes:
    return bytes(IPv6(src="fd00::1", dst="fd00::2") / UDP(sport=port, dport=4791) / bytes(payload))


def test_scapy_reads_it_in_order_of_time(tmp_path: Path) -> None:
    file = tmp_path / "link.pcap"
    late, early = packet(2_000), packet(1_000)
    write_pcap(file, [Packet(5_000_000_123, late, 4_150), Packet(77, early, len(early))])
    found = rdpcap(str(file))
    assert [p[UDP].sport for p in found] == [1_000, 2_000]
    assert [p[UDP].dport for p in found] == [4_791, 4_791]
    assert [p.wirelen for p in found] == [len(early), 4_150]
    assert found[1].time == pytest.approx(5.000000123, abs=1e-9)


def test_times_are_nanoseconds(tmp_path: Path) -> None:
    file = tmp_path / "link.pcap"
    write_pcap(file, [Packet(1_999_999_999, packet(1), 100)])
    with RawPcapReader(str(file)) as reader:
        assert reader.nano
        assert reader.linktype == LINKTYPE_RAW
        assert not isinstance(reader, RawPcapNgReader)
        _, meta = next(reader)
    assert (meta.sec, meta.usec, meta.wirelen) == (1, 999_999_999, 100)


def test_an_empty_capture_opens(tmp_path: Path) -> None:
    file = tmp_path / "none.pcap"
    write_pcap(file, [])
    assert len(file.read_bytes()) == 24
    assert len(rdpcap(str(file))) == 0


def test_impossible_packets_are_refused() -> None:
    with pytest.raises(UsageError, match=r"2\^32 s"):
        pcap_bytes([Packet((1 << 32) * 1_000_000_000, b"x", 1)])
    with pytest.raises(UsageError, match="cannot begin with 3"):
        pcap_bytes([Packet(0, b"abc", 2)])


def frame(**changes: object) -> Frame:
    made = {
        "at_ps": 5_000,
        "port": 0,
        "src": 3,
        "dst": 70_000,
        "plane": 2,
        "tag": 0x0012_C001,
        "dscp": 26,
        "ecn": 3,
        "payload": 4_096,
        "size": 4_300,
        "sids": (0x0205, 0x0A07),
        "head": bytes(28),
    }
    return Frame(**{**made, **changes})  # type: ignore[arg-type]


def test_a_frame_goes_to_its_usids() -> None:
    made = packet_of(frame(), "mrc")
    packet = IPv6(made.data)
    assert (made.at_ns, made.length) == (5, 40 + 8 + 28 + 4_096 + 4)
    assert (packet.src, packet.dst) == ("fd00:0:2::3", "fcbb:bb00:205:a07::")
    assert packet.plen == made.length - 40
    assert (packet.fl, packet.tc >> 2, packet.tc & 3) == (0x12, 26, 3)
    assert (packet[UDP].sport, packet[UDP].dport, packet[UDP].len) == (0xC001, 4_791, made.length - 40)


def test_without_usids_it_goes_to_the_host() -> None:
    made = packet_of(frame(sids=(), payload=0), "rocev2")
    assert IPv6(made.data).dst == "fd00:0:2::1:1170"
    assert IPv6(made.data)[UDP].len == 8 + 28 + 4
    assert made.length == len(made.data)


def test_a_trimmed_frame_says_what_it_was() -> None:
    made = packet_of(frame(payload=0, dscp=12, head=bytes(20), full_udp=4_200), "mrc")
    packet = IPv6(made.data)
    assert (packet.plen, packet[UDP].len, packet.tc >> 2) == (28, 4_200, 12)
    assert made.length == len(made.data)


def test_a_payload_is_filled_up_to_four_bytes() -> None:
    head = b"\0\x30" + bytes(26)  # BTH.pad = 3
    made = packet_of(frame(sids=(), payload=4_093, head=head), "mrc")
    assert IPv6(made.data)[UDP].len == 8 + 28 + 4_096 + 4


def test_tcp_is_no_udp() -> None:
    note = struct.pack("<QII6I", 7, 99, 1, 2, 3, 0, 0, 0, 0)
    made = packet_of(frame(sids=(), head=b"", raw=bytes(24) + note), "tcp", mss=1_000)
    tcp = IPv6(made.data)[TCP]
    assert (tcp.sport, tcp.dport, tcp.seq, tcp.ack, tcp.flags) == (0xC001, 5_001, 7_000, 0, "PA")
    assert made.length == 40 + 32 + 4_096
    made = packet_of(frame(sids=(), head=b"", raw=bytes(24) + note, payload=0), "tcp", mss=1_000)
    tcp = IPv6(made.data)[TCP]
    assert (tcp.sport, tcp.dport, tcp.seq, tcp.ack, tcp.flags) == (5_001, 0xC001, 0, 7_000, "A")
    assert ("SAck", (9_000, 10_000)) in tcp.options
    assert made.length == len(made.data)


def test_names_of_files() -> None:
    assert file_name("p1.t0-0.t1-3.up") == "p1.t0-0.t1-3.up.pcap"
    assert file_name("a/b c") == "a-b-c.pcap"
