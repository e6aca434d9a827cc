"""The two codecs a vector file can be checked against, behind one face.

`core` is the engine that moves packets; `oracle` is the independent model in `softmrc.wire`.
"""

from __future__ import annotations

import errno
import ipaddress
from typing import Any, Final, Protocol

from softmrc.errors import WireError
from softmrc.wire import classify_layer, decode_layer, derive_layer, encode_layer
from softmrc.wire import ev as ev_model
from softmrc.wire.layout import Fields

__all__ = ["IMPLEMENTATIONS", "Codec", "Core", "Oracle", "make"]

EV_LAYERS: Final = ("EV", "EV_SRV6", "USID_SHIFT", "EV_EXPANSION")


class Codec(Protocol):
    """What a vector check asks of an implementation. All methods raise `WireError` for what they refuse."""

    def encode(self, layer: str, fields: Fields) -> bytes:
        """Return the bytes of one layer."""
        ...

    def decode(self, layer: str, data: bytes) -> Fields:
        """Return all fields of one layer."""
        ...

    def derive(self, layer: str, fields: Fields, data: bytes) -> Fields:
        """Return further facts about the same bytes."""
        ...

    def classify(self, layer: str, data: bytes, context: Fields) -> Fields:
        """Return what a receiver does with the bytes."""
        ...


def _text(address: bytes) -> str:
    return str(ipaddress.IPv6Address(address))


def _usid_facts(fields: Fields, before: bytes, after: bytes, end: bool) -> Fields:
    matched = (fields["block_bits"] + fields["usid_bits"]) // 8
    return {
        "before": _text(before),
        "after": _text(after),
        "match_prefix48": before[:matched].hex(),
        "next_lookup48": after[:matched].hex(),
        "end_of_stack": end,
    }


class Oracle:
    """The pure Python model."""

    def encode(self, layer: str, fields: Fields) -> bytes:
        """Return the bytes of one layer."""
        if layer == "EV":
            hops = "hop_widths" in fields
            ev = ev_model.pack_hops(fields["hop_widths"], fields["hop_values"]) if hops else fields["ev"]
            return int(ev).to_bytes(4, "big")
        if layer == "EV_SRV6":
            return ev_model.srv6_destination(fields)
        if layer == "USID_SHIFT":
            return ev_model.usid_shift(
                bytes.fromhex(fields["before"]), fields["block_bits"], fields["usid_bits"]
            )[0]
        if layer == "EV_EXPANSION":
            return ev_model.expand(fields)[0]
        return encode_layer(layer, fields)

    def decode(self, layer: str, data: bytes) -> Fields:
        """Return all fields of one layer."""
        return decode_layer(layer, data)

    def derive(self, layer: str, fields: Fields, data: bytes) -> Fields:
        """Return further facts about the same bytes."""
        if layer == "EV":
            ev = int.from_bytes(data, "big")
            low_only = fields.get("mode") == "UDP"
            return ev_model.split(ev % (1 << 16) if low_only else ev, v4=fields.get("ip") == 4)
        if layer == "EV_SRV6":
            return {"dst": _text(data)}
        if layer == "USID_SHIFT":
            before = bytes.fromhex(fields["before"])
            after, end = ev_model.usid_shift(before, fields["block_bits"], fields["usid_bits"])
            return _usid_facts(fields, before, after, end)
        if layer == "EV_EXPANSION":
            return ev_model.expand(fields)[1]
        return derive_layer(layer, fields, data)

    def classify(self, layer: str, data: bytes, context: Fields) -> Fields:
        """Return what a receiver does with the bytes."""
        return classify_layer(layer, data, context)


class Core:
    """The engine, through the compiled module."""

    def __init__(self) -> None:
        """Load the compiled module; ImportError when the package was not built."""
        from softmrc import _core

        self._core: Any = _core

    def _call(self, name: str, *args: object) -> Any:
        """Call the module, with its refusals as the model states them."""
        try:
            return getattr(self._core, name)(*args)
        except OSError as e:
            raise ev_model.ConfigError(errno.errorcode.get(e.errno or 0, str(e.errno)), str(e)) from None
        except (ValueError, TypeError, RuntimeError) as e:
            raise WireError(str(e).splitlines()[0]) from None

    def encode(self, layer: str, fields: Fields) -> bytes:
        """Return the bytes of one layer."""
        if layer == "EV":
            return self._pack_ev(fields)
        if layer == "EV_SRV6":
            return bytes(self._call("ev_srv6_destination", fields))
        if layer == "USID_SHIFT":
            return bytes(self._shift(fields)["after"])
        if layer == "EV_EXPANSION":
            return bytes(self._expand(fields)["value"])
        return bytes(self._call("wire_encode", layer, fields))

    def _shift(self, fields: Fields) -> Fields:
        before = bytes.fromhex(fields["before"])
        return dict(self._call("wire_usid_shift", before, fields["block_bits"], fields["usid_bits"]))

    def _expand(self, fields: Fields) -> Fields:
        mode = {"mode": fields["mode"].upper().replace("+", "_")} if "mode" in fields else {}
        return dict(self._call("ev_expand", fields | mode))

    def _pack_ev(self, fields: Fields) -> bytes:
        """Hop fields are an expansion whose fields are all fixed."""
        if "hop_widths" not in fields:
            return int(fields["ev"]).to_bytes(4, "big")
        widths, values = fields["hop_widths"], fields["hop_values"]
        hops = [
            {"width": w, "init_val": v, "min_val": 0, "max_val": 0, "mask": 0}
            for w, v in zip(widths, values, strict=True)
        ]
        expansion = {"fmt_widths": widths, "fields": hops, "ev_bits_hex": "", "mode": "STEV"}
        return bytes(self._call("ev_expand", expansion)["value"])[:4]

    def decode(self, layer: str, data: bytes) -> Fields:
        """Return all fields of one layer."""
        return dict(self._call("wire_decode", layer, data))

    def derive(self, layer: str, fields: Fields, data: bytes) -> Fields:
        """Return further facts about the same bytes."""
        if layer == "EV":
            ev = int.from_bytes(data, "big")
            low_only = fields.get("mode") == "UDP"
            return dict(
                self._call("wire_split_ev", ev % (1 << 16) if low_only else ev, fields.get("ip") == 4)
            )
        if layer == "EV_SRV6":
            return {"dst": _text(data)}
        if layer == "USID_SHIFT":
            moved = self._shift(fields)
            return _usid_facts(fields, bytes.fromhex(fields["before"]), moved["after"], moved["end_of_stack"])
        if layer == "EV_EXPANSION":
            facts = self._expand(fields)
            del facts["value"]
            return facts
        return dict(self._call("wire_derive", layer, fields, data))

    def classify(self, layer: str, data: bytes, context: Fields) -> Fields:
        """Return what a receiver does with the bytes."""
        return dict(self._call("wire_classify", layer, data, context))


IMPLEMENTATIONS: Final = ("core", "oracle")


def make(name: str) -> Codec:
    """Return the codec of that name.

    Raises:
        ValueError: an unknown name.
    """
    if name not in IMPLEMENTATIONS:
        raise ValueError(f"unknown implementation '{name}': choose one of {', '.join(IMPLEMENTATIONS)}")
    return Core() if name == "core" else Oracle()
