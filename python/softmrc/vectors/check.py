"""Checks one vector file entry by entry.

Decides what an entry asks for: bytes from fields, fields from bytes, derived facts, and the verdict of a
receiver (`expect`). Leaves the answers to the codecs of `impl`.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any, Final

from softmrc.errors import WireError
from softmrc.vectors.compare import differences, opcode_of, plain, tolerance_of, with_defaults
from softmrc.vectors.impl import EV_LAYERS, Codec, make
from softmrc.vectors.report import Difference, Report, Result, VectorFileError
from softmrc.wire.ev import ConfigError
from softmrc.wire.frames import FRAME_LAYERS
from softmrc.wire.layout import HEADERS, Fields
from softmrc.wire.verdict import DEFAULT_CONTEXT

__all__ = ["LAYERS", "check_file", "check_vectors", "shipped"]

LAYERS: Final = (
    *(n for n in HEADERS if n not in ("SETH", "CC_STATE")),
    "SETH+CC_STATE",
    "IB",
    *FRAME_LAYERS,
    *EV_LAYERS,
    "CALC",
)
TOO_DEEP: Final = "nested too deeply for a vector file"
_KEYS: Final = {
    *("id", "name", "layer", "opcode", "fields", "hex", "derived", "expect", "context", "tolerance"),
    *("note", "source_agreement", "disputed"),
}
_NACK_REASONS: Final = {
    "TRIMMED": 0x01,
    "TRIMMED_LASTHOP": 0x02,
    "NO_BITMAP": 0x06,
    "NO_PKT_BUFFER": 0x07,
    "NO_RESOURCE": 0x0A,
    "PSN_OOR_WINDOW": 0x0B,
    "UNEXP_EVENT": 0x19,
}


def shipped(name: str) -> Path:
    """Path of a vector file that comes with the package: `vectors.json` or `malformed.json`."""
    return Path(str(resources.files("softmrc.vectors") / "data" / name))


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise VectorFileError(f"{path}: {e.strerror}") from None
    except RecursionError:
        raise VectorFileError(f"{path}: {TOO_DEEP}") from None
    except ValueError as e:
        raise VectorFileError(f"{path}: not JSON: {e}") from None


def check_file(path: str | Path, impl: str = "core") -> Report:
    """Check every entry of a vector file.

    Args:
        path: a JSON file of the schema of `vectors.json`.
        impl: `core` or `oracle`.

    Raises:
        VectorFileError: the file cannot be read, is no JSON, or holds no list of vectors.
        ValueError: an unknown implementation.
    """
    codec = make(impl)
    document = _load(Path(path))
    if not isinstance(document, dict) or not isinstance(document.get("vectors"), list):
        raise VectorFileError(f"{path}: no object with a list 'vectors'")
    meta = document.get("meta")
    _check_meta(path, meta, len(document["vectors"]))
    return Report(str(path), impl, check_vectors(document["vectors"], codec, meta))


def _check_meta(path: str | Path, meta: Any, entries: int) -> None:
    """Refuse a head that says nothing or something else than the file holds; a file without one is fine."""
    if meta is None:
        return
    if not isinstance(meta, dict) or not meta:
        raise VectorFileError(f"{path}: 'meta' is not an object with members")
    for key in ("context", "dscp"):
        if not isinstance(meta.get(key, {}), dict):
            raise VectorFileError(f"{path}: 'meta.{key}' is not an object")
    count = meta.get("count", entries)
    if type(count) is not int or count != entries:
        raise VectorFileError(f"{path}: 'meta.count' is {count!r}, the file has {entries} vectors")


def check_vectors(vectors: list[Any], codec: Codec, meta: Fields | None = None) -> list[Result]:
    """Check entries against a codec; `meta` gives their common context."""
    results = []
    for number, entry in enumerate(vectors, start=1):
        known = isinstance(entry, dict)
        name = str(entry.get("name") or entry.get("id") or f"#{number}") if known else f"#{number}"
        result = Result(name, str(entry.get("layer", "?")) if known else "?")
        try:
            if not known:
                raise WireError("entry is not an object")
            _Entry(plain(entry), codec, plain(meta or {}), result).check()
        except RecursionError:
            result.differences.append(Difference("entry", "usable", TOO_DEEP))
        except (WireError, KeyError, TypeError, ValueError, OverflowError, AttributeError) as e:
            what = f"missing {e}" if isinstance(e, KeyError) else str(e)
            result.differences.append(Difference("entry", "usable", what))
        results.append(result)
    return results


class _Entry:
    """One entry under check."""

    def __init__(self, entry: Fields, codec: Codec, meta: Fields, result: Result) -> None:
        self._entry, self._codec, self._meta, self._result = entry, codec, meta, result
        self._layer = str(entry.get("layer", ""))
        self._fields: Fields = entry.get("fields", {})
        text = entry.get("hex", "")
        # A number-like hex ("0x...") is not what the schema says, but it is clear what is meant.
        self._hex = f"{text:x}" if isinstance(text, int) else str(text)

    def check(self) -> None:
        if self._layer not in LAYERS:
            raise WireError(f"unknown layer '{self._layer}'")
        for key in ("fields", "derived", "expect", "context"):
            if not isinstance(self._entry.get(key, {}), dict):
                raise WireError(f"'{key}' is not an object")
        for key in ("derived", "expect"):
            if self._entry.get(key, True) == {}:
                raise WireError(f"'{key}' is empty: it checks nothing")
        if unknown := sorted(set(self._entry) - _KEYS):
            self._result.warnings.append(f"unknown keys ignored: {', '.join(unknown)}")
        expect = self._entry.get("expect")
        if not (self._hex or self._entry.get("derived") or expect):
            raise WireError("nothing to check: no hex, derived or expect")
        outcome = (expect or {"result": "ok"}).get("result")
        if outcome == "error":
            self._check_error(expect or {})
        elif outcome == "ok":
            self._check_codec()
            if expect and self._layer not in (*EV_LAYERS, "CALC"):
                self._check_verdict(expect)
        elif outcome in ("drop", "nack"):
            self._check_verdict(expect or {})
        else:
            raise WireError(f"expect.result: unknown value {outcome!r}")

    def _add(self, field: str, expected: object, actual: object) -> None:
        self._result.differences.append(Difference(field, expected, actual))

    def _data(self) -> bytes:
        try:
            return bytes.fromhex(self._hex)
        except ValueError:
            raise WireError("hex: not hexadecimal") from None

    def _check_codec(self) -> None:
        data = self._data()
        if data and (self._fields or "fields" in self._entry):
            made = self._codec.encode(self._layer, self._fields)
            if made != data:
                self._add("hex", data.hex(), made.hex())
        if data and self._layer not in EV_LAYERS:
            read = self._codec.decode(self._layer, data)
            if "fields" in self._entry:
                want = with_defaults(self._layer, self._fields)
                self._result.differences += differences(want, read, closed=True)
            self._check_opcode(opcode_of(self._layer, read))
        elif "opcode" in self._entry:
            self._check_opcode(None)
        if derived := self._entry.get("derived"):
            facts = self._codec.derive(self._layer, self._fields, data)
            slack = tolerance_of(self._entry, derived)
            self._result.differences += differences(derived, facts, "derived.", tolerance=slack)
        elif self._layer == "CALC":
            raise WireError("nothing to check: a calculation without derived values")

    def _check_opcode(self, found: int | range | tuple[int, ...] | None) -> None:
        """The opcode an entry names beside its fields is that of its packet, or one that has its header."""
        named = self._entry.get("opcode")
        if named is None or named == found:
            return
        if isinstance(named, bool) or isinstance(found, int | None) or named not in found:
            self._add("opcode", named, "none" if found is None else found)

    def _context(self) -> Fields:
        context: Fields = {"dscp": self._meta.get("dscp", {})} | self._meta.get("context", {})
        context |= self._entry.get("context", {})
        return DEFAULT_CONTEXT | context

    def _check_verdict(self, expect: Fields) -> None:
        verdict = self._codec.classify(self._layer, self._data(), self._context())
        want = dict(expect)
        if isinstance(name := want.get("nack_reason"), str):
            want["nack_reason"] = _NACK_REASONS.get(name.upper(), name)
        self._result.differences += differences(want, verdict, "expect.")

    def _check_error(self, expect: Fields) -> None:
        """A configuration must be refused with the errno the entry names."""
        want = expect.get("reason", "(any)")
        try:
            made = self._codec.encode(self._layer, self._fields)
        except ConfigError as e:
            if want not in ("(any)", e.reason):
                self._add("expect.reason", want, e.reason)
        else:
            self._add("expect.result", "error", f"accepted: {made.hex()}")
