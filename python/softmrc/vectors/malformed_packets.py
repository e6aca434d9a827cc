"""The packets of malformed.json: at least one for every drop reason, one fault or two at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from softmrc.wire.frames import encode_layer
from softmrc.wire.icrc import icrc
from softmrc.wire.layout import HEADERS, IPV4, IPV6, UDP, Fields

__all__ = ["entries"]

Entry = dict[str, Any]
_A: Final = {"src": "fd00:0:0:1::a", "dst": "fd00:0:0:1::b"}
_V4: Final = {"src": "10.0.0.1", "dst": "10.0.0.2"}
_EV: Final = 0x0102A0B0
_SEGMENT: Final = "fcbb:bb00:10:1010:20:3007::"
_OUTER: Final = {"src": "fd00:0:0:1::a", "dst": _SEGMENT}


def _write(**bth: int) -> Fields:
    """A Write Only of 8 bytes to QPN 18."""
    ib: Fields = {
        "BTH": {"opcode": 0xCA, "dqp": 18, "psn": 0xABCD} | bth,
        "METH": {"msn": 3},
        "RETH": {"va": 0x1000, "r_key": 0x01020304, "dmalen": 8},
        "payload_hex": "0001020304050607",
    }
    return ib | ({"TSETH": {"tx_timestamp": 0x0F0F}} if bth.get("ts") else {})


def _control(opcode: int, dqp: int = 33, **bth: int) -> Fields:
    names = {
        0xD1: ["AETH"],
        0xD8: ["ERTH"],
        0xD9: ["EETH"],
        0xDC: ["SETH", "CC_STATE"],
        0xDD: ["NETH"],
        0xDE: ["PETH"],
    }
    return {"BTH": {"opcode": opcode, "dqp": dqp, "psn": 7} | bth} | {n: {} for n in names[opcode]}


def _frame(ib: Fields, **ip: Any) -> bytes:
    return encode_layer("IPV6", {"ipv6": _A | ip, "udp": {}, "ev": _EV, "ib": ib})


def _frame4(ib: Fields, **ip: Any) -> bytes:
    return encode_layer("IPV4", {"ipv4": _V4 | ip, "udp": {}, "ev": _EV, "ib": ib})


def _srv6(ib: Fields, outer: Fields | None = None, srh: bool = False) -> bytes:
    inner = {"ipv6": _A | {"dscp": 4, "ecn": 2}, "udp": {}, "ev": _EV, "ib": ib}
    fields: Fields = {"outer": _OUTER | (outer or {}), "inner": inner}
    return encode_layer("SRV6", fields | ({"srh": {"segment": _SEGMENT}} if srh else {}))


def _raw(body: bytes, udp_length: int | None = None, **ip: Any) -> bytes:
    """An IPv6 packet around any UDP payload, without an iCRC of its own."""
    length = UDP.size + len(body)
    head = IPV6.encode(_A | {"payload_length": length, "flow_label": _EV >> 16} | ip)
    return head + UDP.encode({"src_port": _EV & 0xFFFF, "length": udp_length or length}) + body


def _sealed(body: bytes) -> bytes:
    """The same with a right iCRC."""
    frame = _raw(body + bytes(4))
    return frame[:-4] + icrc(frame[:40], frame[40:48], body)


def _trimmed(ib: Fields, keep: int, dscp: int = 12) -> bytes:
    body = encode_layer("IB", ib)
    return _raw(body[:keep], udp_length=UDP.size + len(body) + 4, dscp=dscp)


def _patch(data: bytes, at: int, value: int) -> bytes:
    """Replace one byte; a negative position counts from the end."""
    out = bytearray(data)
    out[at] = value
    return bytes(out)


def _entry(name: str, layer: str, data: bytes, expect: Fields, **more: Any) -> Entry:
    return {"name": name, "layer": layer, "hex": data.hex(), "expect": expect} | more


def _drop(name: str, layer: str, data: bytes, reason: str, **more: Any) -> Entry:
    return _entry(name, layer, data, {"result": "drop", "reason": reason}, **more)


def _keep(name: str, layer: str, data: bytes, **more: Any) -> Entry:
    return _entry(name, layer, data, {"result": "ok"}, **more)


def _headers() -> Iterator[Entry]:
    for name, header in HEADERS.items():
        if name not in ("SETH", "CC_STATE"):
            start = b"\xca" if name == "BTH" else b"\x00"
            yield _drop(f"short_{name.lower()}", name, start + bytes(header.size - 2), "truncated")
    yield _drop("short_seth_cc_state", "SETH+CC_STATE", bytes(35), "truncated")
    yield _drop("bth_tver_1", "BTH", bytes.fromhex("ca01ffff0000001200000001"), "bad_tver")
    yield _drop("bth_opcode_rc_write_only", "BTH", bytes.fromhex("0a00ffff0000001200000001"), "bad_opcode")


def _bodies() -> Iterator[Entry]:
    body = encode_layer("IB", _write(ts=1))
    yield _drop("ib_empty", "IB", b"", "truncated", note="no hex: zero bytes arrived")
    yield _drop("ib_half_bth", "IB", body[:11], "truncated")
    yield _drop("ib_bth_only", "IB", body[:12], "truncated", note="METH TSETH RETH are missing: check 7")
    yield _drop("ib_reth_one_byte_short", "IB", body[:35], "truncated")
    yield _drop(
        "ib_tseth_announced_but_absent",
        "IB",
        encode_layer("IB", _write())[:32].replace(
            bytes.fromhex("000000120000abcd"), bytes.fromhex("000000121000abcd"), 1
        ),
        "truncated",
    )
    yield _drop("ib_sack_without_cc_state", "IB", encode_layer("IB", _control(0xDC))[:40], "truncated")
    yield _drop("ib_eeth_one_byte_short", "IB", encode_layer("IB", _control(0xD9, 2))[:47], "truncated")
    for tver in (1, 15):
        yield _drop(f"ib_tver_{tver}", "IB", encode_layer("IB", _write(tver=tver)), "bad_tver")
    for opcode in (0x00, 0x0A, 0x64, 0xC5, 0xCC, 0xD0, 0xDF, 0xFF):
        yield _drop(
            f"ib_opcode_{opcode:02x}", "IB", _patch(encode_layer("IB", _write()), 0, opcode), "bad_opcode"
        )
    yield _drop("ib_pad_3_of_2", "IB", encode_layer("IB", _write(pad=3))[:34], "bad_length")
    yield _drop("ib_pad_on_empty_sack", "IB", encode_layer("IB", _control(0xDC, pad=1))[:48], "bad_length")
    yield _keep(
        "ib_pad_3_of_3", "IB", encode_layer("IB", _write(pad=3))[:35], note="a zero-length payload remains"
    )
    yield _drop("ib_qpn_unknown", "IB", encode_layer("IB", _write(dqp=19)), "bad_qpn")
    yield _drop(
        "ib_qpn_16_bits_match",
        "IB",
        encode_layer("IB", _write(dqp=0x010012)),
        "bad_qpn",
        note="QPN 0x010012 is not 0x0012",
    )
    yield _keep(
        "ib_qpn_24_bits", "IB", encode_layer("IB", _write(dqp=0xFFFFFF)), context={"qps": [{"qpn": 0xFFFFFF}]}
    )
    yield _drop("ib_write_to_endpoint_qpn", "IB", encode_layer("IB", _write(dqp=2)), "bad_qpn")
    yield _drop("ib_endpoint_request_to_qp", "IB", encode_layer("IB", _control(0xD8, 18)), "bad_qpn")
    yield _drop("ib_endpoint_response_to_qp", "IB", encode_layer("IB", _control(0xD9, 33)), "bad_qpn")
    yield from _pkeys()
    yield from _windows()


def _pkeys() -> Iterator[Entry]:
    limited = {"qps": [{"qpn": 18, "p_key": 0x7FFF}]}
    data = encode_layer("IB", _write(p_key=0xFFFE))
    yield _drop("ib_pkey_other_partition", "IB", data, "bad_pkey")
    data = encode_layer("IB", _write(p_key=0x7FFF))
    yield _keep("ib_pkey_limited_to_full", "IB", data)
    yield _drop("ib_pkey_two_limited_members", "IB", data, "bad_pkey", context=limited)
    yield _keep("ib_pkey_full_to_limited", "IB", encode_layer("IB", _write()), context=limited)


def _windows() -> Iterator[Entry]:
    def qp(cack: int, mpr: int) -> Fields:
        return {"qps": [{"qpn": 18, "cack_psn": cack, "mpr": mpr}]}

    refused: Fields = {"result": "nack", "nack_reason": 0x0B, "tx_timestamp": 0x0F0F}
    last = 0xABCD - 1024
    data = encode_layer("IB", _write(ts=1))
    yield _keep(
        "ib_psn_last_of_window", "IB", data, context=qp(last, 8), note="cack + 1024 is inclusive (D-07)"
    )
    yield _entry("ib_psn_above_window", "IB", data, refused | {"nack_psn": 0xABCD}, context=qp(last - 1, 8))
    data = encode_layer("IB", _write(ts=1, psn=5))
    yield _keep("ib_psn_in_window_over_wrap", "IB", data, context=qp(0xFFFFF0, 1))
    yield _entry(
        "ib_psn_above_window_over_wrap", "IB", data, refused | {"nack_psn": 5}, context=qp(0xFFFF80, 1)
    )
    yield _keep(
        "ib_psn_old_duplicate", "IB", data, context=qp(0x100, 1), note="a duplicate is answered by a SACK"
    )


def _control_refusals() -> Iterator[Entry]:
    """NACKs as received, one for each reason; none of them is malformed."""
    for reason in (0x01, 0x02, 0x06, 0x07, 0x0A, 0x0B, 0x19, 0x55):
        ib = _control(0xDD, psn=261) | {"NETH": {"nack_reason": reason, "entropy": _EV, "nack_psn": 261}}
        yield _keep(f"ib_nack_received_{reason:02x}", "IB", encode_layer("IB", ib), fields=ib)
    reserved = _patch(_patch(encode_layer("IB", _control(0xDC)), 12, 0xF0), 24, 0xFF)
    yield _keep(
        "ib_sack_reserved_bits_set", "IB", reserved, note="type, nh and reserved bits are ignored (2.18)"
    )
    yield _keep("ib_sack_m_3", "IB", encode_layer("IB", _control(0xDC) | {"SETH": {"m": 3}}))
    yield _keep(
        "ib_sack_unknown_cc_type", "IB", encode_layer("IB", _control(0xDC) | {"SETH": {"cc_type": 9}})
    )
    yield _keep("ib_tseth_unknown_ftype", "IB", encode_layer("IB", _write(ts=1) | {"TSETH": {"ftype": 7}}))


def _frames() -> Iterator[Entry]:
    good = _frame(_write())
    yield _drop("ipv6_empty", "IPV6", b"", "truncated")
    yield _drop("ipv6_header_only", "IPV6", _patch(good[:40], 5, 0), "truncated")
    yield _drop("ipv6_bth_one_byte_short", "IPV6", _raw(encode_layer("IB", _write())[:11]), "truncated")
    yield _drop("ipv6_cut_in_bth", "IPV6", good[:59], "truncated", note="the IP length still says more")
    yield _drop("ipv6_bth_without_icrc", "IPV6", _raw(encode_layer("IB", _write())[:12]), "bad_icrc")
    yield _drop("ipv6_reth_cut_icrc_right", "IPV6", _sealed(encode_layer("IB", _write())[:30]), "truncated")
    yield _drop("ipv6_udp_length_one_more", "IPV6", _patch(good, 45, good[45] + 1), "bad_length")
    yield _drop("ipv6_udp_length_zero", "IPV6", _patch(good, 45, 0), "bad_length", note="no jumbograms")
    yield _drop("ipv6_icrc_flipped", "IPV6", _patch(good, -1, good[-1] ^ 1), "bad_icrc")
    yield _drop("ipv6_payload_flipped", "IPV6", _patch(good, -5, good[-5] ^ 0x80), "bad_icrc")
    yield _drop(
        "ipv6_src_port_changed",
        "IPV6",
        _patch(good, 41, good[41] ^ 1),
        "bad_icrc",
        note="the source port is covered: a new EV needs a new iCRC",
    )
    yield _drop("ipv6_source_changed", "IPV6", _patch(good, 23, 0x0C), "bad_icrc")
    yield _keep("ipv6_var_res_changed", "IPV6", _patch(good, 52, 0xC0), note="variant byte of BTH is masked")
    yield _keep("ipv6_udp_checksum_present", "IPV6", _patch(good, 46, 0x12), note="masked, and optional")
    yield _drop("ipv6_bth_flags_flipped", "IPV6", _patch(good, 56, 0x80), "bad_icrc")
    yield _drop("ipv6_port_4792", "IPV6", _patch(good, 43, 0xB8), "not_mrc_port")
    port = {"ipv6": _A, "udp": {"dst_port": 4971}, "ev": _EV, "ib": _write()}
    yield _keep("ipv6_port_4971", "IPV6", encode_layer("IPV6", port), note="accepted as well (D-01)")
    yield _drop("ipv6_fragment_header", "IPV6", _patch(good, 6, 44), "fragment")
    yield _drop("ipv6_tcp", "IPV6", _patch(good, 6, 6), "not_udp")
    yield _drop("ipv6_version_5", "IPV6", _patch(good, 0, 0x50), "not_udp")
    yield _drop("ipv6_tver_icrc_right", "IPV6", _frame(_write(tver=1)), "bad_tver")
    yield _drop(
        "ipv6_opcode_icrc_right", "IPV6", _sealed(_patch(encode_layer("IB", _write()), 0, 0xC5)), "bad_opcode"
    )
    yield _drop("ipv6_qpn_unknown", "IPV6", _frame(_write(dqp=0x12345)), "bad_qpn")
    yield _drop("ipv6_pkey", "IPV6", _frame(_write(p_key=0x8001)), "bad_pkey")
    stranger = {"qps": [{"qpn": 18, "peer": "fd00:0:0:1::c"}]}
    yield _drop("ipv6_peer_stranger", "IPV6", good, "bad_peer", context=stranger)
    yield _keep("ipv6_peer_known", "IPV6", good, context={"qps": [{"qpn": 18, "peer": "fd00:0:0:1::a"}]})
    yield _entry(
        "ipv6_psn_above_window",
        "IPV6",
        good,
        {"result": "nack", "nack_reason": 0x0B, "nack_psn": 0xABCD, "entropy": _EV, "tx_timestamp": 0},
        context={"qps": [{"qpn": 18, "cack_psn": 0x100, "mpr": 8}]},
    )
    yield from _frames4()


def _frames4() -> Iterator[Entry]:
    v4 = _frame4(_write())
    yield _drop("ipv4_fragment_first", "IPV4", _frame4(_write(), df=0, mf=1), "fragment")
    yield _drop("ipv4_fragment_later", "IPV4", _frame4(_write(), df=0, fragment_offset=185), "fragment")
    yield _drop("ipv4_icmp", "IPV4", _frame4(_write(), protocol=1), "not_udp")
    yield _drop("ipv4_cut_in_udp", "IPV4", v4[:27], "truncated")
    yield _drop("ipv4_total_length_one_less", "IPV4", _patch(v4, 3, v4[3] - 1), "bad_length")
    yield _drop(
        "ipv4_identification_changed",
        "IPV4",
        _patch(v4, 5, 1),
        "bad_icrc",
        note="covered, unlike TTL and TOS",
    )
    changed = {"ttl": 1, "dscp": 8, "ecn": 3}
    kept = IPV4.decode(v4) | changed
    yield _keep("ipv4_ttl_tos_checksum_changed", "IPV4", IPV4.encode(kept) + v4[20:])
    yield _drop(
        "ipv4_peer_stranger", "IPV4", v4, "bad_peer", context={"qps": [{"qpn": 18, "peer": "10.0.0.9"}]}
    )


def _carriers() -> Iterator[Entry]:
    plain, srh = _srv6(_write()), _srv6(_write(), srh=True)
    yield _drop("srv6_cut_in_inner_header", "SRV6", plain[:79], "truncated")
    yield _drop("srv6_cut_in_srh", "SRV6", srh[:63], "truncated")
    yield _drop(
        "srv6_routing_type_2", "SRV6", _patch(srh, 42, 2), "not_udp", note="not a segment routing header"
    )
    yield _drop("srv6_srh_longer_than_packet", "SRV6", _patch(srh, 41, 250), "not_udp")
    yield _drop("srv6_inner_fragment", "SRV6", _patch(plain, 46, 44), "fragment")
    yield _drop("srv6_outer_fragment", "SRV6", _patch(plain, 6, 44), "fragment")
    yield _drop("srv6_srh_then_fragment", "SRV6", _patch(srh, 40, 44), "fragment")
    yield _drop("srv6_inner_encapsulated_again", "SRV6", _patch(plain, 46, 41), "not_udp")
    yield _drop("srv6_inner_length_wrong", "SRV6", _patch(plain, 45, plain[45] - 1), "bad_length")
    shifted = _OUTER | {"dst": "fcbb:bb00:1010:20:3007::", "hop_limit": 61, "ecn": 3, "flow_label": 0x77}
    yield _keep(
        "srv6_outer_after_one_hop",
        "SRV6",
        _srv6(_write(), outer=shifted),
        note="outer fields are not covered",
    )
    yield _drop("srv6_inner_destination_changed", "SRV6", _patch(plain, 79, 0x0C), "bad_icrc")


def _trims() -> Iterator[Entry]:
    def refusal(reason: int, timestamp: int) -> Fields:
        nack = {"nack_reason": reason, "nack_psn": 0xABCD, "entropy": _EV, "tx_timestamp": timestamp}
        return {"result": "nack"} | nack

    stamped, bare = _write(ts=1), _write()
    layer = "IPV6_TRIMMED"
    yield _entry("trimmed_minimal_no_tseth", layer, _trimmed(bare, 16), refusal(1, 0))
    yield _entry("trimmed_lasthop", layer, _trimmed(stamped, 20, 16), refusal(2, 0x0F0F))
    yield _entry("trimmed_kept_more", layer, _trimmed(stamped, 44), refusal(1, 0x0F0F))
    yield _drop("trimmed_tseth_cut", layer, _trimmed(stamped, 19), "truncated")
    yield _drop("trimmed_meth_cut", layer, _trimmed(bare, 15), "truncated")
    yield _drop("trimmed_bth_cut", layer, _trimmed(bare, 11), "truncated")
    for opcode in (0xD1, 0xDC, 0xDE):
        control = _control(opcode, 18 if opcode == 0xDE else 33)
        yield _drop(f"trimmed_control_{opcode:02x}", layer, _trimmed(control, 16), "trimmed_control")
    yield _drop("trimmed_unknown_opcode", layer, _patch(_trimmed(bare, 16), 48, 0x0A), "trimmed_control")
    yield _drop("trimmed_qpn_unknown", layer, _trimmed(_write(dqp=77), 16), "bad_qpn")
    yield _entry(
        "trimmed_tver_ignored",
        layer,
        _trimmed(_write(tver=3), 16),
        refusal(1, 0),
        note="the trim path checks opcode, length and QPN only",
    )
    other = {"qps": [{"qpn": 18}], "dscp": {"trimmed": 9, "trimmed_lasthop": 10}}
    yield _entry("trimmed_other_class_numbers", layer, _trimmed(bare, 16, 9), refusal(1, 0), context=other)
    yield _drop(
        "trimmed_default_class_not_configured", layer, _trimmed(bare, 16, 12), "bad_length", context=other
    )
    marked = _srv6(stamped, outer={"dscp": 12})
    yield _entry("srv6_trimmed_by_outer_class", "SRV6", marked[: 80 + 8 + 20], refusal(1, 0x0F0F))
    inner = _patch(_srv6(stamped), 40, 0x64)  # dscp 16 in the inner header
    yield _entry("srv6_trimmed_by_inner_class", "SRV6", inner[: 80 + 8 + 20], refusal(2, 0x0F0F))


def _order() -> Iterator[Entry]:
    """Two faults in one packet: the first check names the reason."""
    faulty = _write(tver=1, dqp=99, p_key=1)
    good = _frame(faulty)
    yield _drop(
        "order_length_before_icrc", "IPV6", _patch(_patch(good, 45, 9), -1, good[-1] ^ 1), "bad_length"
    )
    yield _drop("order_icrc_before_tver", "IPV6", _patch(good, -1, good[-1] ^ 1), "bad_icrc")
    yield _drop("order_tver_before_opcode", "IB", _patch(encode_layer("IB", faulty), 0, 0x0A), "bad_tver")
    yield _drop("order_tver_before_qpn", "IPV6", good, "bad_tver")
    yield _drop(
        "order_opcode_before_truncated",
        "IB",
        _patch(encode_layer("IB", _write())[:12], 0, 0x0A),
        "bad_opcode",
    )
    yield _drop("order_truncated_before_pad", "IB", encode_layer("IB", _write(pad=3))[:31], "truncated")
    yield _drop("order_pad_before_qpn", "IB", encode_layer("IB", _write(pad=3, dqp=99))[:33], "bad_length")
    yield _drop("order_qpn_before_pkey", "IB", encode_layer("IB", _write(dqp=99, p_key=1)), "bad_qpn")
    peer = {"qps": [{"qpn": 18, "peer": "fd00:0:0:1::c"}]}
    yield _drop("order_pkey_before_peer", "IPV6", _frame(_write(p_key=1)), "bad_pkey", context=peer)
    cut = _trimmed(_write(tver=1, dqp=99, pad=3), 16)
    yield _drop("order_trim_before_length_icrc_tver", "IPV6_TRIMMED", cut, "bad_qpn")
    sack = _trimmed(_control(0xDC, 99), 12)
    yield _drop("order_trimmed_control_before_truncated", "IPV6_TRIMMED", sack, "trimmed_control")


def entries() -> Iterator[Entry]:
    """Yield all entries in file order."""
    parts: tuple[Callable[[], Iterator[Entry]], ...] = (
        *(_headers, _bodies, _control_refusals, _frames, _carriers, _trims, _order),
    )
    for part in parts:
        yield from part()
