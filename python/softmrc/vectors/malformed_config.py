"""The configurations of malformed.json: every rule of reference 4.4 broken once, and its near miss kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from softmrc.wire.ev import expand
from softmrc.wire.layout import Fields

__all__ = ["entries"]

Entry = dict[str, Any]


def _field(width: int = 16, **values: int) -> Fields:
    return {"width": width, "init_val": 0, "min_val": 0, "max_val": 0, "mask": 0} | values


def _config(widths: Sequence[int], fields: Sequence[Fields], mode: str, bits: str = "00" * 32) -> Fields:
    return {"mode": mode, "fmt_widths": list(widths), "fields": list(fields), "ev_bits_hex": bits}


def _error(name: str, reason: str, config: Fields, **more: Any) -> Entry:
    expect = {"result": "error", "reason": reason}
    return {"name": name, "layer": "EV_EXPANSION", "fields": config, "hex": "", "expect": expect} | more


def _keep(name: str, config: Fields) -> Entry:
    value = expand(config)[0].hex()
    return {"name": name, "layer": "EV_EXPANSION", "fields": config, "hex": value, "expect": {"result": "ok"}}


def entries() -> Iterator[Entry]:
    """Yield all entries in file order."""
    yield _error("config_more_fields_than_format", "E2BIG", _config([16], [_field(8), _field(8)], "STEV"))
    yield _error("config_fields_wider_than_format", "E2BIG", _config([8, 8], [_field(8), _field(16)], "STEV"))
    for mode, limit in (("UDP", 16), ("STEV", 32), ("SRV6", 128), ("SRV6_SRH", 256)):
        widths = [8] * (limit // 8)
        yield _keep(f"config_{mode.lower()}_widest", _config(widths, [_field(8)], mode))
        yield _error(f"config_{mode.lower()}_too_wide", "E2BIG", _config([*widths, 1], [_field(8)], mode))
    yield _error(
        "config_field_wider_than_its_format", "E2BIG", _config([8, 16], [_field(16), _field(8)], "STEV")
    )
    yield _error("config_init_val_too_large", "EINVAL", _config([16], [_field(4, init_val=16)], "UDP"))
    yield _keep("config_init_val_largest", _config([16], [_field(4, init_val=15)], "UDP"))
    yield _error("config_mask_outside_width", "EINVAL", _config([16], [_field(4, mask=0x10)], "UDP"))
    yield _error(
        "config_max_val_beyond_mask", "EINVAL", _config([16], [_field(mask=0x0F, max_val=16)], "UDP")
    )
    yield _keep("config_max_val_largest", _config([16], [_field(mask=0xF00F, max_val=255)], "UDP", "a5"))
    yield _error(
        "config_min_above_max", "EINVAL", _config([16], [_field(mask=0xFF, min_val=3, max_val=2)], "UDP")
    )
    yield _error("config_max_val_on_fixed_field", "EINVAL", _config([16], [_field(max_val=1)], "UDP"))
    yield _keep("config_no_fields", _config([16, 16], [], "STEV"))
    mixed = [_field(16, mask=0x0F, max_val=99), _field(16)]
    yield _error(
        "config_order_e2big_before_einval", "E2BIG", _config([16], mixed, "UDP"), note="rules in table order"
    )
