"""What a receiver does with bytes: keep, drop for the first failing check (2.17), or refuse by NACK."""

from __future__ import annotations

import ipaddress
from typing import Final

from softmrc.errors import WireError
from softmrc.wire.frames import DSCP, FRAME_LAYERS, parse_frame
from softmrc.wire.layout import HEADERS, Fields
from softmrc.wire.packet import DATA_OPCODES, ENDPOINT_OPCODES, Dropped, decode_ib, headers_of

__all__ = ["DEFAULT_CONTEXT", "classify_layer"]

# The QPs that the shipped vectors speak of. Peers are not checked unless given.
DEFAULT_CONTEXT: Final[Fields] = {"qps": [{"qpn": 18}, {"qpn": 33}]}
_ENDPOINT_QPN: Final = 2
_QP_KEYS: Final = {"qpn", "p_key", "peer", "cack_psn", "mpr"}


def _context(context: Fields) -> tuple[dict[int, Fields], Fields]:
    if unknown := sorted(set(context) - {"qps", "dscp"}):
        raise WireError(f"context: unknown field '{unknown[0]}'")
    dscp = context.get("dscp", {})
    if unknown := sorted(set(dscp) - set(DSCP)):
        raise WireError(f"context.dscp: unknown field '{unknown[0]}'")
    qps: dict[int, Fields] = {}
    if "qps" not in context:
        raise WireError("context: missing 'qps'")
    for qp in context["qps"]:
        if unknown := sorted(set(qp) - _QP_KEYS):
            raise WireError(f"context.qps: unknown field '{unknown[0]}'")
        qps.setdefault(qp["qpn"], qp)
    return qps, DSCP | dscp


def _pkey_ok(a: int, b: int) -> bool:
    """Compare partition keys: the same partition, and not two limited members."""
    return a % 0x8000 == b % 0x8000 and (a >= 0x8000 or b >= 0x8000)


def _above_window(psn: int, qp: Fields) -> bool:
    """Tell whether a PSN lies beyond the receive window (6.2)."""
    distance = (psn - qp["cack_psn"]) % (1 << 24)
    return bool(128 * qp.get("mpr", 8) < distance < 1 << 23)


def _judge(ib: Fields, qps: dict[int, Fields], src: str | None, entropy: int | None) -> Fields:
    bth = ib["BTH"]
    if (bth["dqp"] == _ENDPOINT_QPN) != (bth["opcode"] in ENDPOINT_OPCODES):
        raise Dropped("bad_qpn")
    qp = {} if bth["dqp"] == _ENDPOINT_QPN else qps.get(bth["dqp"])
    if qp is None:
        raise Dropped("bad_qpn")
    if not _pkey_ok(bth["p_key"], qp.get("p_key", 0xFFFF)):
        raise Dropped("bad_pkey")
    if src is not None and "peer" in qp and ipaddress.ip_address(src) != ipaddress.ip_address(qp["peer"]):
        raise Dropped("bad_peer")
    if bth["opcode"] in DATA_OPCODES and "cack_psn" in qp and _above_window(bth["psn"], qp):
        return _nack(0x0B, ib, entropy)
    return {"result": "ok"}


def _nack(reason: int, ib: Fields, entropy: int | None) -> Fields:
    tseth = ib.get("TSETH", {"ftype": 0})
    out: Fields = {
        "result": "nack",
        "nack_reason": reason,
        "nack_psn": ib["BTH"]["psn"],
        "tx_timestamp": tseth["tx_timestamp"] if tseth["ftype"] == 1 else 0,
    }
    return out if entropy is None else out | {"entropy": entropy}


def _judge_header(layer: str, data: bytes) -> None:
    names = ("SETH", "CC_STATE") if layer == "SETH+CC_STATE" else (layer,)
    if unknown := [n for n in names if n not in HEADERS]:
        raise WireError(f"unknown layer '{unknown[0]}'")
    if len(data) < sum(HEADERS[n].size for n in names):
        raise Dropped("truncated")
    if layer == "BTH":
        bth = HEADERS["BTH"].decode(data)
        if bth["tver"]:
            raise Dropped("bad_tver")
        if headers_of(bth) is None:
            raise Dropped("bad_opcode")


def classify_layer(layer: str, data: bytes, context: Fields) -> Fields:
    """Judge the bytes of one layer as a receiver with the QPs of `context` would.

    Args:
        layer: a header, IB (no IP header and no iCRC: checks 3, 4 and 11 do not apply) or a frame layer.
        data: the bytes.
        context: `qps`: list of `{qpn, p_key, peer, cack_psn, mpr}` (all but qpn optional; with `cack_psn` the
            receive window is checked too); `dscp`: numbers of the classes that differ from the default.

    Returns:
        `{"result": "ok"}`, `{"result": "drop", "reason": ...}` or `{"result": "nack", ...}` with its fields.

    Raises:
        WireError: unknown layer or context field.
    """
    qps, dscp = _context(context)
    try:
        if layer == "IB":
            return _judge(decode_ib(data), qps, None, None)
        if layer not in FRAME_LAYERS:
            _judge_header(layer, data)
            return {"result": "ok"}
        frame, trim, ib = parse_frame(data, dscp)
        if trim is None:
            return _judge(ib, qps, frame.ip["src"], frame.entropy)
        if ib["BTH"]["dqp"] not in qps:
            raise Dropped("bad_qpn")
        return _nack(1 if trim == "trimmed" else 2, ib, frame.entropy)
    except Dropped as e:
        return {"result": "drop", "reason": e.reason}
