"""What follows the UDP header: BTH, the headers of its opcode, payload and pad (reference 2.1, 2.2, 2.17)."""

from __future__ import annotations

from typing import Final

from softmrc.errors import WireError
from softmrc.wire.layout import HEADERS, SETH_PROBE, Fields, Header

__all__ = [
    "BTH_SIZE",
    "DATA_OPCODES",
    "ENDPOINT_OPCODES",
    "Dropped",
    "decode_ib",
    "decode_seth",
    "encode_ib",
    "encode_seth",
]

BTH_SIZE: Final = 12
DATA_OPCODES: Final = range(0xC6, 0xCC)
ENDPOINT_OPCODES: Final = (0xD8, 0xD9)
_CONTROL: Final = {
    0xD1: ("AETH",),
    0xD8: ("ERTH",),
    0xD9: ("EETH",),
    0xDC: ("SETH", "CC_STATE"),
    0xDD: ("NETH",),
    0xDE: ("PETH",),
}


class Dropped(WireError):
    """A received packet failed a check; `reason` is its name in reference 2.17."""

    def __init__(self, reason: str) -> None:
        """Build the refusal for one drop reason."""
        super().__init__(f"dropped: {reason}")
        self.reason = reason


def headers_of(bth: Fields) -> tuple[str, ...] | None:
    """Names of the headers behind this BTH, or None when the opcode is no MRC opcode."""
    opcode = bth["opcode"]
    if opcode in DATA_OPCODES:
        imm = opcode in (0xC9, 0xCB)
        return ("METH", *(("TSETH",) if bth["ts"] else ()), "RETH", *(("ImmDt",) if imm else ()))
    return _CONTROL.get(opcode)


def _seth_form(pr: object) -> Header:
    return SETH_PROBE if pr else HEADERS["SETH"]


def encode_seth(fields: Fields) -> bytes:
    """Encode SETH, whose bytes 2-3 depend on pr."""
    return _seth_form(fields.get("pr", 0)).encode(fields)


def decode_seth(data: bytes) -> Fields:
    """Decode SETH, whose bytes 2-3 depend on pr."""
    plain = HEADERS["SETH"].decode(data)
    return _seth_form(plain["pr"]).decode(data)


def encode_ib(fields: Fields) -> bytes:
    """Encode BTH .. pad, without iCRC.

    Raises:
        WireError: an unknown opcode, a header that is missing or does not belong, a value that does not fit.
    """
    given = dict(fields)
    payload = bytes.fromhex(given.pop("payload_hex", ""))
    try:
        out = HEADERS["BTH"].encode(given["BTH"])
        bth = HEADERS["BTH"].decode(out)
        names = headers_of(bth)
        if names is None:
            raise WireError("BTH.opcode: not an MRC opcode")
        for name in names:
            out += encode_seth(given[name]) if name == "SETH" else HEADERS[name].encode(given[name])
    except KeyError as e:
        raise WireError(f"missing {e}") from None
    if set(given) != {"BTH", *names}:
        raise WireError("IB: a header that this opcode does not have")
    return out + payload + bytes(bth["pad"])


def decode_ib(data: bytes) -> Fields:
    """Decode BTH .. pad, without iCRC: checks 1 and 5 to 8.

    Raises:
        Dropped: the first check that fails.
    """
    if len(data) < BTH_SIZE:
        raise Dropped("truncated")
    bth = HEADERS["BTH"].decode(data)
    if bth["tver"] != 0:
        raise Dropped("bad_tver")
    names = headers_of(bth)
    if names is None:
        raise Dropped("bad_opcode")
    rest = data[BTH_SIZE:]
    if len(rest) < sum(HEADERS[n].size for n in names):
        raise Dropped("truncated")
    out: Fields = {"BTH": bth}
    for name in names:
        out[name] = decode_seth(rest) if name == "SETH" else HEADERS[name].decode(rest)
        rest = rest[HEADERS[name].size :]
    if bth["pad"] > len(rest):
        raise Dropped("bad_length")
    if bth["opcode"] in DATA_OPCODES:
        out["payload_hex"] = rest[: len(rest) - bth["pad"]].hex()
    return out
