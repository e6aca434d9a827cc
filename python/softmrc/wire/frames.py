"""Packets from the IP header to the iCRC, and the layers of a vector file (reference 2.15, 3.2, 3.3, 4.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from softmrc.errors import WireError
from softmrc.wire import calc, ev
from softmrc.wire.icrc import icrc
from softmrc.wire.layout import HEADERS, IPV4, IPV6, SRH, UDP, Fields
from softmrc.wire.packet import (
    BTH_SIZE,
    DATA_OPCODES,
    Dropped,
    decode_ib,
    decode_seth,
    encode_ib,
    encode_seth,
)

__all__ = [
    "DSCP",
    "FRAME_LAYERS",
    "Frame",
    "decode_layer",
    "derive_layer",
    "encode_layer",
    "open_frame",
    "parse_frame",
]

DSCP: Final = {
    "no_trim": 0,
    "trimmable": 4,
    "trimmable_retx": 8,
    "trimmed": 12,
    "trimmed_lasthop": 16,
    "control": 46,
}
FRAME_LAYERS: Final = ("IPV4", "IPV6", "SRV6", "IPV6_TRIMMED")
_PORTS: Final = (4791, 4971)  # D-01
_UDP, _IPV6, _ROUTING, _FRAGMENT = 17, 41, 43, 44


def ones_complement(data: bytes) -> int:
    """Return the internet checksum of `data` (RFC 1071)."""
    total = sum(int.from_bytes(data[i : i + 2].ljust(2, b"\0"), "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


def udp_checksum(src: bytes, dst: bytes, datagram: bytes) -> int:
    """Return the checksum of a UDP datagram whose own checksum field is 0; a computed 0 becomes 0xFFFF."""
    pseudo = src + dst + len(datagram).to_bytes(4, "big") + _UDP.to_bytes(4, "big")
    return ones_complement(pseudo + datagram) or 0xFFFF


@dataclass
class Frame:
    """A frame taken apart, before any check of what it carries."""

    family: str  # "ipv4" or "ipv6": the innermost header
    ip: Fields
    ip_bytes: bytes
    rest: bytes  # what follows that header, bounded by its length field
    outer: Fields | None = None
    srh: Fields | None = None
    udp: Fields | None = None

    @property
    def datagram(self) -> bytes:
        """Bytes behind the UDP header."""
        return self.rest[UDP.size :]

    @property
    def entropy(self) -> int:
        """EV as the receiver reflects it (4.2)."""
        udp = self.udp or {}
        return ev.reflect(self.ip.get("flow_label", 0), udp["src_port"], v4=self.family == "ipv4")

    def trim(self, dscp: Fields) -> str | None:
        """Name of the trimmed class the frame travels in: outer header first, then inner (3.3)."""
        for header in (self.outer, self.ip):
            for name in ("trimmed", "trimmed_lasthop"):
                if header is not None and header["dscp"] == dscp[name]:
                    return name
        return None


def _open_v4(data: bytes) -> Frame:
    size = (data[0] & 15) * 4
    if len(data) < max(size, IPV4.size) or size < IPV4.size:
        raise Dropped("truncated")
    ip = IPV4.decode(data)
    if ip["mf"] or ip["fragment_offset"]:
        raise Dropped("fragment")
    if ip["protocol"] != _UDP:
        raise Dropped("not_udp")
    if ip["total_length"] < size:
        raise Dropped("truncated")
    return Frame("ipv4", ip, data[:size], data[size : ip["total_length"]])


def _open_v6(data: bytes) -> Frame:
    if len(data) < IPV6.size:
        raise Dropped("truncated")
    ip = IPV6.decode(data)
    if ip["next_header"] == _FRAGMENT:
        raise Dropped("fragment")
    return Frame("ipv6", ip, data[: IPV6.size], data[IPV6.size :][: ip["payload_length"]])


def open_frame(data: bytes) -> Frame:
    """Strip IP, SRH and outer headers down to UDP: check 1, and what is no MRC at all.

    Raises:
        Dropped: `truncated`, `fragment`, `not_udp` or `not_mrc_port`.
    """
    if not data:
        raise Dropped("truncated")
    version = data[0] >> 4
    if version not in (4, 6):
        raise Dropped("not_udp")
    frame = _open_v4(data) if version == 4 else _open_v6(data)
    if version == 6 and frame.ip["next_header"] != _UDP:
        frame = _decapsulate(frame)
    if len(frame.rest) < UDP.size + BTH_SIZE:
        raise Dropped("truncated")
    frame.udp = UDP.decode(frame.rest)
    if frame.udp["dst_port"] not in _PORTS:
        raise Dropped("not_mrc_port")
    return frame


def _decapsulate(frame: Frame) -> Frame:
    proto, rest, srh = frame.ip["next_header"], frame.rest, None
    if proto == _ROUTING:
        if len(rest) < SRH.size:
            raise Dropped("truncated")
        srh = SRH.decode(rest)
        size = 8 + 8 * srh["hdr_ext_len"]
        if srh["routing_type"] != 4 or not SRH.size <= size <= len(rest):
            raise Dropped("not_udp")
        proto, rest = srh["next_header"], rest[size:]
    if proto == _FRAGMENT:
        raise Dropped("fragment")
    if proto == _UDP:
        frame.rest, frame.srh = rest, srh
        return frame
    if proto != _IPV6:
        raise Dropped("not_udp")
    inner = _open_v6(rest)
    if inner.ip["next_header"] != _UDP:
        raise Dropped("not_udp")
    inner.outer, inner.srh = frame.ip, srh
    return inner


def parse_frame(data: bytes, dscp: Fields) -> tuple[Frame, str | None, Fields]:
    """Run checks 1 to 8, or the trim path.

    Returns:
        The frame, the trimmed class or None, and the decoded headers (BTH, METH, TSETH only when trimmed).

    Raises:
        Dropped: the first check that fails.
    """
    frame = open_frame(data)
    body = frame.datagram
    if trim := frame.trim(dscp):
        bth = HEADERS["BTH"].decode(body)
        if bth["opcode"] not in DATA_OPCODES:
            raise Dropped("trimmed_control")
        if len(body) < (20 if bth["ts"] else 16):
            raise Dropped("truncated")
        ib: Fields = {"BTH": bth, "METH": HEADERS["METH"].decode(body[12:])}
        if bth["ts"]:
            ib["TSETH"] = HEADERS["TSETH"].decode(body[16:])
        return frame, trim, ib
    if (frame.udp or {})["length"] != len(frame.rest):
        raise Dropped("bad_length")
    if len(body) < BTH_SIZE + 4 or icrc(frame.ip_bytes, frame.rest[: UDP.size], body[:-4]) != body[-4:]:
        raise Dropped("bad_icrc")
    return frame, None, decode_ib(body[:-4])


def _need(fields: Fields, key: str) -> Fields:
    value = fields.get(key)
    if not isinstance(value, dict):
        raise WireError(f"missing '{key}'" if value is None else f"'{key}' is not an object")
    return value


def _split(fields: Fields, v4: bool) -> tuple[Fields, Fields]:
    """Return defaults for UDP and IP from the EV, if the fields give one."""
    if "ev" not in fields:
        return {}, {}
    parts = ev.split(fields["ev"], v4=v4)
    return {"src_port": parts["udp_src_port"]}, {} if v4 else {"flow_label": parts["flow_label"]}


def _encode_packet(fields: Fields, v4: bool) -> bytes:
    body = encode_ib(_need(fields, "ib"))
    length = UDP.size + len(body) + 4
    udp_default, ip_default = _split(fields, v4)
    udp = UDP.encode(udp_default | {"length": length} | _need(fields, "udp"))
    if v4:
        given = {"total_length": IPV4.size + length} | _need(fields, "ipv4")
        ip = IPV4.encode(given | {"checksum": 0})
        ip = IPV4.encode(given | {"checksum": ones_complement(ip)})
    else:
        ip = IPV6.encode(ip_default | {"payload_length": length} | _need(fields, "ipv6"))
    return ip + udp + body + icrc(ip, udp, body)


def _encode_srv6(fields: Fields) -> bytes:
    inner = _encode_packet(_need(fields, "inner"), v4=False)
    like_inner = IPV6.decode(inner)
    srh = SRH.encode(fields["srh"]) if "srh" in fields else b""
    default = {k: like_inner[k] for k in ("dscp", "ecn", "flow_label", "hop_limit", "src", "dst")}
    default |= {"next_header": _ROUTING if srh else _IPV6, "payload_length": len(srh) + len(inner)}
    return IPV6.encode(default | _need(fields, "outer")) + srh + inner


def _encode_trimmed(fields: Fields) -> bytes:
    bth = HEADERS["BTH"].encode(_need(fields, "bth"))
    body = bth + HEADERS["METH"].encode(_need(fields, "meth"))
    if HEADERS["BTH"].decode(bth)["ts"]:
        body += HEADERS["TSETH"].encode(fields.get("tseth", {}))
    length = UDP.size + len(body)
    udp_default, ip_default = _split(fields, v4=False)
    udp = UDP.encode(udp_default | {"length": length} | _need(fields, "udp"))
    return IPV6.encode(ip_default | {"payload_length": length} | _need(fields, "ipv6")) + udp + body


def encode_layer(layer: str, fields: Fields) -> bytes:
    """Encode one layer of a vector file.

    Raises:
        WireError: unknown layer or field, or a value that does not fit.
    """
    if layer == "SETH+CC_STATE":
        return encode_seth(_need(fields, "SETH")) + HEADERS["CC_STATE"].encode(_need(fields, "CC_STATE"))
    if layer in HEADERS and layer not in ("SETH", "CC_STATE"):
        return HEADERS[layer].encode(fields)
    if layer == "IB":
        return encode_ib(fields)
    if layer in ("IPV4", "IPV6"):
        return _encode_packet(fields, v4=layer == "IPV4")
    if layer == "SRV6":
        return _encode_srv6(fields)
    if layer == "IPV6_TRIMMED":
        return _encode_trimmed(fields)
    raise WireError(f"unknown layer '{layer}'")


def _decode_frame(data: bytes) -> Fields:
    frame, trim, ib = parse_frame(data, DSCP)
    out: Fields = {frame.family: frame.ip, "udp": frame.udp, "ev": frame.entropy}
    if trim:
        out |= {name.lower(): header for name, header in ib.items()}
    else:
        out["ib"] = ib
    if frame.outer is None:
        return out
    return {"outer": frame.outer, "inner": out} | ({"srh": frame.srh} if frame.srh else {})


def decode_layer(layer: str, data: bytes) -> Fields:
    """Decode one layer of a vector file into all its fields.

    Raises:
        WireError: unknown layer, wrong length, or a packet that would be dropped.
    """
    if layer == "SETH+CC_STATE":
        if len(data) != HEADERS["SETH"].size + HEADERS["CC_STATE"].size:
            raise WireError("SETH+CC_STATE: wrong length")
        return {
            "SETH": decode_seth(data),
            "CC_STATE": HEADERS["CC_STATE"].decode(data[HEADERS["SETH"].size :]),
        }
    if layer in HEADERS and layer not in ("SETH", "CC_STATE"):
        if len(data) != HEADERS[layer].size:
            raise WireError(f"{layer}: wrong length")
        return HEADERS[layer].decode(data)
    if layer == "IB":
        return decode_ib(data)
    if layer in FRAME_LAYERS:
        return _decode_frame(data)
    raise WireError(f"unknown layer '{layer}'")


def _sack_facts(seth: Fields) -> Fields:
    """Facts of a SACK (2.9): PSNs count modulo 2^24; bits at or before cack_psn say nothing."""
    cack, offset, bitmap = seth["cack_psn"], seth["sack_offset"], seth["sack_bitmap"]
    base = (cack + offset) % (1 << 24)
    told = [i for i in range(bitmap.bit_length()) if offset + i > 0]
    facts: Fields = {
        "sack_base_psn": base,
        "received_psns": [(base + i) % (1 << 24) for i in told if bitmap >> i & 1],
        "missing_psns": [(base + i) % (1 << 24) for i in told if not bitmap >> i & 1],
    }
    if not seth["pr"]:
        facts["ack_psn"] = facts["trigger_psn"] = (cack + seth["ack_psn_offset"]) % (1 << 24)
    return facts


def _frame_facts(data: bytes) -> Fields:
    frame, trim, ib = parse_frame(data, DSCP)
    length = (frame.udp or {})["length"]
    facts: Fields = {"reflected_entropy": frame.entropy, "udp_length": length}
    facts["nominal_pktsize"] = calc.nominal_size(length)
    if trim:
        tseth = ib.get("TSETH", {"ftype": 0})
        facts["expected_nack"] = {
            "nack_reason": 1 if trim == "trimmed" else 2,
            "nack_psn": ib["BTH"]["psn"],
            "entropy": frame.entropy,
            "tx_timestamp": tseth["tx_timestamp"] if tseth["ftype"] == 1 else 0,
        }
        return facts
    return (
        facts | {"icrc_wire": data[len(data) - 4 :].hex()} | (_sack_facts(ib["SETH"]) if "SETH" in ib else {})
    )


def derive_layer(layer: str, fields: Fields, data: bytes) -> Fields:
    """Return the facts that vectors call "derived" for a wire layer or a calculation; {} when there are none.

    Raises:
        WireError: bytes that are no such layer, or fields no formula takes.
    """
    if layer == "CALC":
        return calc.calculate(fields)
    if layer == "SETH+CC_STATE":
        return _sack_facts(decode_seth(data))
    if layer == "IB":
        ib = decode_ib(data)
        return _sack_facts(ib["SETH"]) if "SETH" in ib else {}
    return _frame_facts(data) if layer in FRAME_LAYERS else {}
