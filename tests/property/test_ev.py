"""Expansion and SRv6 templates: the engine and the independent model agree on what neither has seen."""

from __future__ import annotations

import errno
import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softmrc import _core
from softmrc.wire import ev as model

MODES = ["UDP", "STEV", "SRV6", "SRV6_SRH"]
LIMITS = {"UDP": 16, "STEV": 32, "SRV6": 128, "SRV6_SRH": 256}


@st.composite
def fields(draw: st.DrawFn, width: int) -> dict[str, int]:
    """Draw a profile field, most often a legal one, otherwise just beyond."""
    top = (1 << width) - 1
    slack = draw(st.sampled_from([0, 0, 0, 0, 1]))
    mask = draw(st.integers(0, min(top + slack, (1 << 64) - 1)))
    most = (1 << mask.bit_count()) - 1
    high = draw(st.integers(0, min(most + slack, (1 << 64) - 1)))
    low = draw(st.integers(0, min(high + slack, (1 << 64) - 1)))
    init = draw(st.integers(0, min(top + slack, (1 << 64) - 1)))
    return {"width": width, "init_val": init, "min_val": low, "max_val": high, "mask": mask}


@st.composite
def expansions(draw: st.DrawFn) -> dict[str, Any]:
    """Draw an expansion: format, fields that mostly fit it, and some EV bits."""
    mode = draw(st.sampled_from(MODES))
    widths = draw(st.lists(st.integers(1, min(40, LIMITS[mode])), min_size=1, max_size=12))
    count = draw(st.integers(0, len(widths) + draw(st.sampled_from([0, 0, 0, 1]))))
    profile = []
    for i in range(count):
        room = widths[i] if i < len(widths) else 4
        profile.append(draw(fields(draw(st.integers(1, room + draw(st.sampled_from([0, 0, 0, 0, 0, 1])))))))
    bits = draw(st.binary(min_size=0, max_size=40))
    return {"mode": mode, "fmt_widths": widths, "fields": profile, "ev_bits_hex": bits.hex()}


@given(expansions())
def test_engine_and_model_expand_alike(expansion: dict[str, Any]) -> None:
    """The same value and facts, or the same errno."""
    try:
        expected, facts = model.expand(expansion)
    except model.ConfigError as e:
        reason = e.reason
    else:
        reason = ""
    if reason:
        with pytest.raises(OSError, match="EV expansion") as refused:
            _core.ev_expand(expansion)
        assert errno.errorcode[refused.value.errno or 0] == reason
        return
    got = dict(_core.ev_expand(expansion))
    assert got.pop("value") == expected
    assert got == facts


@st.composite
def templates(draw: st.DrawFn) -> tuple[dict[str, Any], int]:
    """Draw a template with whole-byte uSIDs and an EV that fits it."""
    usid = draw(st.sampled_from([16, 32]))
    block = draw(st.sampled_from([16, 32, 48]))
    slots = draw(st.integers(1, (128 - block) // usid))
    plane_bits, uplink_bits = draw(st.integers(0, 4)), draw(st.integers(0, 8))
    uplink_shift = draw(st.integers(0, usid - plane_bits - uplink_bits))
    plane_shift = uplink_shift + uplink_bits
    slot = draw(st.integers(0, slots - 1))
    plane, uplink = ((1 << plane_bits) - 1) << plane_shift, ((1 << uplink_bits) - 1) << uplink_shift
    address = draw(st.integers(0, (1 << block) - 1))
    for i in range(slots):
        free = ((1 << usid) - 1) & ~(plane | (uplink if i == slot else 0))
        word = draw(st.integers(0, (1 << usid) - 1)) & free
        if i == slot:
            word |= free & -free
        address = address << usid | word
    address <<= 128 - block - usid * slots
    geometry = {
        "template": str(ipaddress.IPv6Address(address)), "block_bits": block, "usid_bits": usid,
        "n_slots": slots, "plane_bits": plane_bits, "plane_shift": plane_shift, "uplink_bits": uplink_bits,
        "uplink_shift": uplink_shift, "uplink_slot": slot,
    }  # fmt: skip
    return geometry, draw(st.integers(0, (1 << plane_bits + uplink_bits) - 1))


@given(templates())
def test_a_destination_gives_its_ev_back(drawn: tuple[dict[str, Any], int]) -> None:
    """Engine and model build the same destination, and it leads back to the EV."""
    geometry, value = drawn
    destination = _core.ev_srv6_destination({**geometry, "ev": value})
    assert destination == model.srv6_destination({**geometry, "ev": value})
    assert _core.ev_srv6_ev(geometry, str(ipaddress.IPv6Address(destination))) == value


@given(templates(), st.integers(0, 127))
def test_a_changed_bit_is_another_ev_or_none(drawn: tuple[dict[str, Any], int], at: int) -> None:
    """No destination leads to an EV that would not build it."""
    geometry, value = drawn
    changed = int.from_bytes(_core.ev_srv6_destination({**geometry, "ev": value}), "big") ^ 1 << at
    found = _core.ev_srv6_ev(geometry, str(ipaddress.IPv6Address(changed)))
    if found is not None:
        assert found != value
        assert int.from_bytes(_core.ev_srv6_destination({**geometry, "ev": found}), "big") == changed
