"""Strict reading of a TOML table into a dataclass: every key known, every value of its type.

Decides how a wrong key or value is refused (the path of the key, what is allowed, what was perhaps meant); leaves
ranges to the dataclasses.
"""

from __future__ import annotations

import difflib
import math
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from softmrc.errors import UsageError
from softmrc.sim.quantity import parse_bytes, parse_ns

__all__ = ["check_keys", "mapping", "read_table"]

T = TypeVar("T")

# Keys that count bytes, beside those that end in _bytes.
_BYTES = (
    "size",
    "victim_size",
    "ecn_min",
    "ecn_max",
    "trim_last_hop",
    "shared_buffer",
    "pfc_xoff",
    "pfc_xon",
)
_MAX_INT = (1 << 63) - 1
_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", Mapping: "a table"}


def mapping(value: object, where: str) -> dict[str, Any]:
    """Return a table.

    Raises:
        UsageError: it is none.
    """
    if not isinstance(value, Mapping):
        raise UsageError(f"{where} is a table, not {value!r}")
    return {str(k): v for k, v in value.items()}


def check_keys(given: Iterable[str], known: Iterable[str], where: str) -> None:
    """Refuse keys that are not known.

    Raises:
        UsageError: names the key, what is close to it, and all that are known.
    """
    names = list(known)
    for key in given:
        if key not in names:
            close = difflib.get_close_matches(key, names, n=1, cutoff=0.6)
            hint = f"did you mean {close[0]}? " if close else ""
            path = f"{where}.{key}" if where else key
            raise UsageError(f"{path} is unknown; {hint}known here: {', '.join(sorted(names))}")


def read_table(cls: type[T], table: Mapping[str, Any], where: str) -> T:
    """Return the dataclass that a table describes.

    Args:
        cls: a dataclass; keys are its fields. A text is read as a time for fields that end in `_ns`, as bytes for those
            that count bytes.
        table: as TOML has it.
        where: path of the table, for messages.

    Raises:
        UsageError: an unknown key, a missing one, a wrong type, or what the dataclass refuses.
    """
    members = [f for f in fields(cls) if f.init]  # type: ignore[arg-type]
    check_keys(table, [f.name for f in members], where)
    hints = get_type_hints(cls)
    values = {}
    for f in members:
        if f.name in table:
            values[f.name] = _convert(table[f.name], hints[f.name], f"{where}.{f.name}", f.name)
        elif f.default is MISSING and f.default_factory is MISSING:
            raise UsageError(f"{where}.{f.name} is missing")
    try:
        return cls(**values)
    except UsageError as e:
        raise UsageError(f"[{where}] {e}") from None


def _convert(value: Any, hint: Any, where: str, key: str) -> Any:
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    options = tuple(o for o in options if o is not type(None))
    if isinstance(value, str) and int in options and str not in options:
        if key.endswith("_ns"):
            value = parse_ns(value, where)
        elif key.endswith("_bytes") or key in _BYTES:
            value = parse_bytes(value, where)
    if isinstance(value, int) and not -_MAX_INT <= value <= _MAX_INT:
        raise UsageError(f"{where} = {value} is out of range")
    for option in options:
        made = _as(value, option, where)
        if made is not None:
            return made
    raise UsageError(f"{where} is {' or '.join(_name(o) for o in options)}, not {value!r}")


def _as(value: Any, option: Any, where: str) -> Any:
    """Return the value as that type, None if it is none."""
    origin = get_origin(option) or option
    if origin is Any:
        return value
    if origin is tuple and isinstance(value, list):
        item = get_args(option)[0]
        made = [_as(v, item, where) for v in value]
        return None if any(m is None for m in made) else tuple(made)
    if origin is Mapping or origin is dict:
        return dict(value) if isinstance(value, Mapping) else None
    if origin is bool:
        return value if isinstance(value, bool) else None
    if isinstance(value, bool):
        return None
    if origin is float and isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    return value if origin in (int, str) and isinstance(value, origin) else None


def _name(option: Any) -> str:
    origin = get_origin(option) or option
    if origin is tuple:
        item = get_args(option)[0]
        return "a list of " + {int: "whole numbers", str: "texts", float: "numbers"}.get(item, "tables")
    return _NAMES.get(origin, str(origin))
