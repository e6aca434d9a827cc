"""Invariant CRC, checksums and carriers against scapy (field cases B22, B23, B24)."""

from __future__ import annotations

from typing import Any

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrSegmentRouting
from scapy.packet import Raw

from softmrc import _core
from softmrc.vectors.impl import Core, Oracle
from softmrc.wire.frames import udp_checksum

SIZES = (0, 1, 1452, 8952)
CODECS = {"core": Core(), "oracle": Oracle()}
A, B = "fd00:0:0:1::a", "fd00:0:0:1::b"
V4_A, V4_B = "10.0.0.1", "10.0.0.2"
SIDS = "fcbb:bb00:10:1010:20:3007::"
ICRC_BYTES = 4


def ib_fields(size: int) -> dict[str, Any]:
    return {
        "BTH": {"opcode": 0xCA, "dqp": 18, "psn": 0xABCD, "a": 1, "pad": -size % 4},
        "METH": {"msn": 3},
        "RETH": {"va": 0x1000, "r_key": 0x01020304, "dmalen": size},
        "payload_hex": (bytes(range(256)) * 36)[:size].hex(),
    }


def inner_fields(size: int, **ip: Any) -> dict[str, Any]:
    return {"ipv6": {"src": A, "dst": B} | ip, "udp": {}, "ev": 0x0102A0B0, "ib": ib_fields(size)}


def v4_fields(size: int, **ip: Any) -> dict[str, Any]:
    return {"ipv4": {"src": V4_A, "dst": V4_B} | ip, "udp": {}, "ev": 0xA0B0, "ib": ib_fields(size)}


def scapy_roce(size: int) -> Any:
    body = CODECS["oracle"].encode("IB", ib_fields(size))
    bth = BTH(opcode=0xCA, padcount=-size % 4, dqpn=18, ackreq=1, psn=0xABCD)
    return UDP(sport=0xA0B0, dport=4791, chksum=0) / bth / Raw(body[12:])


@pytest.fixture(params=CODECS)
def codec(request: pytest.FixtureRequest) -> Any:
    return CODECS[request.param]


@pytest.mark.parametrize("size", SIZES)
def test_ipv6_frame_equals_scapy(codec: Any, size: int) -> None:
    want = bytes(IPv6(src=A, dst=B, fl=0x102, hlim=64, tc=4 << 2 | 2) / scapy_roce(size))
    assert codec.encode("IPV6", inner_fields(size, dscp=4, ecn=2)) == want


@pytest.mark.parametrize("size", SIZES)
def test_ipv4_frame_equals_scapy(codec: Any, size: int) -> None:
    want = bytes(IP(src=V4_A, dst=V4_B, id=0, flags="DF", ttl=64, tos=4 << 2 | 2) / scapy_roce(size))
    assert codec.encode("IPV4", v4_fields(size, dscp=4, ecn=2)) == want


@pytest.mark.parametrize("size", SIZES)
def test_ipv6_in_ipv6_equals_scapy(codec: Any, size: int) -> None:
    inner = IPv6(src=A, dst=B, fl=0x102, hlim=64) / scapy_roce(size)
    want = bytes(IPv6(src=A, dst=SIDS, fl=0x102, hlim=64) / inner)
    outer = {"src": A, "dst": SIDS}
    assert codec.encode("SRV6", {"outer": outer, "inner": inner_fields(size)}) == want


@pytest.mark.parametrize("size", SIZES)
def test_segment_routing_header_equals_scapy(codec: Any, size: int) -> None:
    inner = IPv6(src=A, dst=B, fl=0x102, hlim=64) / scapy_roce(size)
    srh = IPv6ExtHdrSegmentRouting(addresses=[SIDS], segleft=0, lastentry=0, nh=41)
    want = bytes(IPv6(src=A, dst=SIDS, fl=0x102, hlim=64) / srh / inner)
    fields = {"outer": {"src": A, "dst": SIDS}, "srh": {"segment": SIDS}, "inner": inner_fields(size)}
    assert codec.encode("SRV6", fields) == want


@pytest.mark.parametrize("size", SIZES)
def test_icrc_from_meta_data_equals_the_frame(size: int) -> None:
    body = CODECS["oracle"].encode("IB", ib_fields(size))
    for layer, fields, src, dst in (
        ("IPV6", inner_fields(size), A, B),
        ("IPV4", v4_fields(size), V4_A, V4_B),
    ):
        wire = CODECS["oracle"].encode(layer, fields)[-ICRC_BYTES:]
        assert _core.wire_icrc(src, dst, 0xA0B0, 4791, body).to_bytes(4, "little") == wire


def test_what_the_icrc_does_not_cover(codec: Any) -> None:
    want = codec.encode("IPV6", inner_fields(8))[-ICRC_BYTES:]
    for change in ({"hop_limit": 1}, {"dscp": 8}, {"ecn": 3}, {"flow_label": 0xFFFFF}):
        assert codec.encode("IPV6", inner_fields(8, **change))[-ICRC_BYTES:] == want
    want = codec.encode("IPV4", v4_fields(8))[-ICRC_BYTES:]
    for change in ({"ttl": 1}, {"dscp": 8}, {"ecn": 3}):
        assert codec.encode("IPV4", v4_fields(8, **change))[-ICRC_BYTES:] == want


def test_every_other_bit_is_covered(codec: Any) -> None:
    frame = codec.encode("IPV6", inner_fields(8))
    context = {"qps": [{"qpn": 18}]}
    # version; traffic class and flow label; hop limit; UDP checksum; BTH var_res
    free = {*range(4), 7, 46, 47, 52}
    lengths = {4, 5, 6, 42, 43, 44, 45}  # other checks come first
    for at in range(len(frame)):
        for bit in range(8):
            changed = bytearray(frame)
            changed[at] ^= 1 << bit
            verdict = codec.classify("IPV6", bytes(changed), context)
            if at in free - set(range(4)):
                assert verdict == {"result": "ok"}
            elif at not in free | lengths:
                assert verdict == {"result": "drop", "reason": "bad_icrc"}, at
            elif at in lengths:
                assert verdict["result"] == "drop"


def test_usid_shifts_keep_the_icrc(codec: Any) -> None:
    fields = {"outer": {"src": A, "dst": SIDS}, "inner": inner_fields(8)}
    frame = bytearray(codec.encode("SRV6", fields))
    for hop in range(4):
        step = _core.wire_usid_shift(bytes(frame[24:40]))
        frame[24:40] = step["after"]
        frame[7] -= 1
        assert codec.classify("SRV6", bytes(frame), {"qps": [{"qpn": 18}]}) == {"result": "ok"}
        assert step["end_of_stack"] == (hop == 3)


@pytest.mark.parametrize(("src", "dst"), [(A, B), (V4_A, V4_B)])
@pytest.mark.parametrize("size", [0, 1, 2, 1453])
def test_udp_checksum_equals_scapy(src: str, dst: str, size: int) -> None:
    ip = IPv6(src=src, dst=dst) if ":" in src else IP(src=src, dst=dst)
    packet = bytes(ip / UDP(sport=1, dport=4791) / Raw(bytes(range(1, 256)) * 6)[Raw].load[:size])
    datagram = packet[-(8 + size) :]
    cleared = datagram[:6] + b"\0\0" + datagram[8:]
    assert _core.wire_udp_checksum(src, dst, datagram).to_bytes(2, "big") == datagram[6:8]
    size_of = 16 if ":" in src else 4
    at = 8 if size_of == 16 else 12
    head = packet[at : at + 2 * size_of]
    assert udp_checksum(head[:size_of], head[size_of:], cleared).to_bytes(2, "big") == datagram[6:8]


def test_a_udp_checksum_of_zero_is_sent_as_ones() -> None:
    """B22: over all values of a running counter one sum is 0; the field must never be."""
    header = bytes.fromhex("a0b012b7000a0000")
    sums = {n: _core.wire_udp_checksum(A, B, header + n.to_bytes(2, "big")) for n in range(1 << 16)}
    assert 0 not in sums.values()
    ones = [n for n, c in sums.items() if c == 0xFFFF]
    assert ones
    packed = [
        bytes.fromhex(h) for h in ("fd00000000000001000000000000000a", "fd00000000000001000000000000000b")
    ]
    for n in ones:
        assert udp_checksum(packed[0], packed[1], header + n.to_bytes(2, "big")) == 0xFFFF
