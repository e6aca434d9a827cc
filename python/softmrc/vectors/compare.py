"""When two values of a vector file are the same: number spellings, address spellings, defaults, tolerance."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterator
from typing import Any, Final

from softmrc.errors import WireError
from softmrc.vectors.report import Difference
from softmrc.wire.layout import HEADERS, SETH_PROBE, Fields
from softmrc.wire.packet import DATA_OPCODES

__all__ = ["differences", "opcode_of", "plain", "tolerance_of", "with_defaults"]

_ABSENT: Final = "(absent)"
_FLOAT_NOISE: Final = 1e-9
_MAX_RELATIVE: Final = 0.01
_ROUNDING: Final = 2
"""Steps of a number that two roundings may be apart, however small it is."""
_WITH_HEADER: Final[dict[str, int | range | tuple[int, ...]]] = {
    "METH": DATA_OPCODES, "TSETH": DATA_OPCODES, "RETH": DATA_OPCODES, "ImmDt": (0xC9, 0xCB),
    "AETH": 0xD1, "ERTH": 0xD8, "EETH": 0xD9, "SETH+CC_STATE": 0xDC, "NETH": 0xDD, "PETH": 0xDE,
}  # fmt: skip


def plain(value: Any) -> Any:
    """Turn "0x..." text into integers, everywhere inside `value`.

    Raises:
        ValueError: text that starts with 0x and is no number.
    """
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, str) and value[:2].lower() == "0x":
        return int(value, 16)
    return value


def _address(value: object) -> object:
    if isinstance(value, str) and (":" in value or value.count(".") == 3):
        try:
            return ipaddress.ip_address(value)
        except ValueError:
            return value
    return value


def _header_defaults(name: str, fields: Fields) -> Fields:
    header = SETH_PROBE if name == "SETH" and fields.get("pr") else HEADERS[name]
    return {f.name: f.default for f in header.fields if not f.name.startswith("_")} | fields


def with_defaults(layer: str, fields: Fields) -> Fields:
    """Fill in what an absent field of an MRC header means (`meta.conventions` of the vector file).

    Fields of IP, UDP and SRH that the vector does not give are computed ones and stay absent.
    """
    if layer in HEADERS:
        return _header_defaults(layer, fields)
    out: Fields = {}
    for key, value in fields.items():
        name = key if key in HEADERS else key.upper()
        if not isinstance(value, dict):
            out[key] = value
        elif name in HEADERS:
            out[key] = _header_defaults(name, value)
        else:
            out[key] = with_defaults("IB" if key == "ib" else "", value)
    if layer == "IB" and out.get("BTH", {}).get("opcode") in DATA_OPCODES:
        out.setdefault("payload_hex", "")
    return out


def opcode_of(layer: str, fields: Fields) -> int | range | tuple[int, ...] | None:
    """Return the opcode of a decoded packet, those a lone header can stand behind, None where there is none."""
    if layer in _WITH_HEADER:
        return _WITH_HEADER[layer]
    opcode = fields.get("opcode", fields.get("BTH", {}).get("opcode"))
    if isinstance(opcode, int):
        return opcode
    inner = (opcode_of("", value) for value in fields.values() if isinstance(value, dict))
    return next((found for found in inner if found is not None), None)


def tolerance_of(entry: Fields, derived: Fields) -> float | None:
    """Return how far derived numbers may be off: absolute, or relative when below 1; None: not at all.

    Raises:
        WireError: not a number, or so much that the check means little.
    """
    if "tolerance" not in entry:
        return None
    slack = entry["tolerance"]
    if isinstance(slack, bool) or not isinstance(slack, int | float) or not 0 <= slack < math.inf:
        raise WireError(f"tolerance: not a number from 0 on: {slack!r}")
    if slack < 1:
        most = _MAX_RELATIVE
    else:
        sizes = [abs(v) for v in derived.values() if isinstance(v, int | float) and not isinstance(v, bool)]
        most = max(_ROUNDING, _MAX_RELATIVE * max(sizes, default=0))
    if slack > most:
        raise WireError(f"tolerance: {slack!r} is more than {most:g}, a hundredth of what is checked")
    return float(slack)


def _same(expected: Any, actual: Any, tolerance: float | None) -> bool:
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(
            _same(e, a, tolerance) for e, a in zip(expected, actual, strict=True)
        )
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (expected, actual))
    if numbers and (tolerance is not None or isinstance(expected, float) or isinstance(actual, float)):
        slack = tolerance if tolerance is not None else _FLOAT_NOISE
        scale = max(abs(expected), abs(actual)) if slack < 1 else 1
        return bool(abs(expected - actual) <= slack * scale)
    if isinstance(expected, bool) != isinstance(actual, bool) and {expected, actual} <= {0, 1}:
        return bool(expected) == bool(actual)  # JSON writes flags either way
    return bool(_address(expected) == _address(actual))


def differences(
    expected: Fields, actual: Fields, path: str = "", *, tolerance: float | None = None, closed: bool = False
) -> Iterator[Difference]:
    """Yield every field of `expected` that `actual` lacks or has otherwise.

    Args:
        expected: what the vector says, `plain`.
        actual: what the implementation says.
        path: prefix of the field names reported.
        tolerance: absolute, or relative when below 1; only for numbers.
        closed: also report headers that `actual` has and `expected` lacks, below keys that hold headers.
    """
    for key, want in expected.items():
        where = f"{path}{key}"
        got = actual.get(key, _ABSENT)
        if isinstance(want, dict) and isinstance(got, dict):
            yield from differences(want, got, f"{where}.", tolerance=tolerance, closed=closed)
        elif not _same(want, got, tolerance):
            yield Difference(where, want, got)
    if closed and "BTH" in expected:
        for key in actual.keys() - expected.keys():
            yield Difference(f"{path}{key}", _ABSENT, actual[key])
