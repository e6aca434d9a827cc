"""Headers as lists of bit fields (reference 2.3 to 2.15), packed and unpacked as one big-endian integer.

Decides names, widths and defaults; leaves which headers a packet has to `packet`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from softmrc.errors import WireError

__all__ = ["HEADERS", "IPV4", "IPV6", "SETH_PROBE", "SRH", "UDP", "Fields", "Header"]

# One JSON object of a vector file: integers, text, or nested objects.
Fields = dict[str, Any]


class Field(NamedTuple):
    """One run of bits. A name that starts with "_" is reserved: sent as its default, ignored on receipt."""

    name: str
    bits: int
    default: int = 0
    kind: str = "uint"  # or "int" (two's complement), "v4", "v6" (address text)


@dataclass(frozen=True)
class Header:
    """A header of fixed size."""

    name: str
    fields: tuple[Field, ...]

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return sum(f.bits for f in self.fields) // 8

    def encode(self, values: Mapping[str, Any]) -> bytes:
        """Pack `values`; absent fields get their default.

        Raises:
            WireError: a name this header lacks, or a value that does not fit its bits.
        """
        names = {f.name for f in self.fields if not f.name.startswith("_")}
        if unknown := sorted(set(values) - names):
            raise WireError(f"{self.name}: unknown field '{unknown[0]}'")
        word = 0
        for f in self.fields:
            word = word << f.bits | self._number(f, values.get(f.name, f.default))
        return word.to_bytes(self.size, "big")

    def decode(self, data: bytes) -> Fields:
        """Unpack the first `size` bytes of `data`.

        Raises:
            WireError: fewer bytes than that.
        """
        if len(data) < self.size:
            raise WireError(f"{self.name}: wrong length")
        word = int.from_bytes(data[: self.size], "big")
        left = self.size * 8
        out: Fields = {}
        for f in self.fields:
            left -= f.bits
            if not f.name.startswith("_"):
                out[f.name] = self._value(f, word >> left & (1 << f.bits) - 1)
        return out

    def _number(self, f: Field, value: object) -> int:
        if f.kind in ("v4", "v6"):
            kind = ipaddress.IPv4Address if f.kind == "v4" else ipaddress.IPv6Address
            try:
                return int(kind(value if isinstance(value, int) else str(value).partition("%")[0]))
            except ValueError as e:
                raise WireError(f"{self.name}.{f.name}: {e}") from None
        low, high = (-(1 << f.bits - 1), 1 << f.bits - 1) if f.kind == "int" else (0, 1 << f.bits)
        if not isinstance(value, int) or not low <= value < high:
            raise WireError(f"{self.name}.{f.name}: value {value!r} does not fit")
        return value & (1 << f.bits) - 1

    @staticmethod
    def _value(f: Field, bits: int) -> int | str:
        if f.kind == "v4":
            return str(ipaddress.IPv4Address(bits))
        if f.kind == "v6":
            return str(ipaddress.IPv6Address(bits))
        return bits - (1 << f.bits) if f.kind == "int" and bits >> f.bits - 1 else bits


def _header(name: str, text: str) -> Header:
    """Build a header from words like `name:bits`, `name:bits=default`, `name:bits:int`."""
    fields = []
    for word in text.split():
        spec, _, default = word.partition("=")
        parts = spec.split(":")
        fields.append(
            Field(parts[0], int(parts[1]), int(default or "0", 0), parts[2] if len(parts) > 2 else "uint")
        )
    return Header(name, tuple(fields))


_START = "type:4 nh:5"  # SETH, NETH, PETH, ERTH, EETH begin alike
_CLOCK = "tx_timestamp:16 tsr:1 _res:11 ftype:4=1"
_SETH = (
    _START + " m:2 _res:3 pr:1 _res:1 {echo} entropy:32 spdcid:16 dpdcid:16 _res:8 cack_psn:24"
    " cc_type:4 cc_fl:4 mpr:8 sack_offset:16:int sack_bitmap:64"
)

HEADERS: dict[str, Header] = {
    h.name: h
    for h in (
        _header(
            "BTH",
            "opcode:8 se:1 m:1 pad:2 tver:4 p_key:16=0xFFFF var_res:8 dqp:24"
            " a:1 r:1 rtx:1 ts:1 inv_res:4 psn:24",
        ),
        _header("METH", "rqmsn:16 msn:16"),
        _header("TSETH", "tx_timestamp:16 tsr:1 reserved:11 ftype:4=1"),
        _header("RETH", "va:64 r_key:32 dmalen:32"),
        _header("ImmDt", "imm:32"),
        _header("AETH", "syndrome:8 msn:24"),
        _header("SETH", _SETH.format(echo="ack_psn_offset:16:int")),
        _header(
            "CC_STATE", "tx_timestamp:16 _res:1 ooo_count:15 restore_cwnd:1 rcv_cwnd_pen:7 rcvd_bytes:24"
        ),
        _header(
            "NETH",
            _START + " _res:7 nack_reason:8 vendor_info:8 entropy:32 spdcid:16 dpdcid:16 _res:8 nack_psn:24"
            " cc_type:4=2 cc_fl:4 _res:8 tx_timestamp:16",
        ),
        _header("PETH", _START + " _res:15 vendor_info:8 probe_id:16 _res:16 spdcid:16 dpdcid:16 " + _CLOCK),
        _header("ERTH", _START + " _res:5 op:2 _res:8 vendor_info:8 port_status_mask:32 _res:32 " + _CLOCK),
        _header("EETH", _START + " _res:3 op:2 _res:2 _res:208 tx_timestamp:16 _res:48"),  # D-03: op at 0x0C
    )
}
# The same bytes when pr = 1: the answer to a probe names the probe instead of a PSN.
SETH_PROBE = _header("SETH", _SETH.format(echo="probe_id:16"))

IPV6 = _header(
    "ipv6",
    "_version:4=6 dscp:6 ecn:2 flow_label:20 payload_length:16 next_header:8=17 hop_limit:8=64"
    " src:128:v6 dst:128:v6",
)
IPV4 = _header(
    "ipv4",
    "_version:4=4 _ihl:4=5 dscp:6 ecn:2 total_length:16 id:16 _res:1 df:1=1 mf:1 fragment_offset:13 ttl:8=64"
    " protocol:8=17 checksum:16 src:32:v4 dst:32:v4",
)
UDP = _header("udp", "src_port:16 dst_port:16=4791 length:16 checksum:16")
SRH = _header(
    "srh",
    "next_header:8=41 hdr_ext_len:8=2 routing_type:8=4 segments_left:8 last_entry:8 flags:8 tag:16"
    " segment:128:v6",
)
