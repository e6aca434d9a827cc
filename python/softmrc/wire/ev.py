"""Entropy values as bits (reference 4.1 to 4.5): split, reflection, SRv6 addresses, uSID shift, expansion."""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Sequence
from typing import Final

from softmrc.errors import WireError
from softmrc.wire.layout import Fields

__all__ = ["ConfigError", "expand", "pack_hops", "reflect", "split", "srv6_destination", "usid_shift"]

_MODE_BITS: Final = {"UDP": 16, "STEV": 32, "SRV6": 128, "SRV6_SRH": 256}


class ConfigError(WireError):
    """A configuration is refused; `reason` is the errno name of reference 4.4."""

    def __init__(self, reason: str, what: str) -> None:
        """Build the refusal with an errno name and the rule in words."""
        super().__init__(f"{reason}: {what}")
        self.reason = reason


def split(ev: int, *, v4: bool) -> Fields:
    """Split an EV into the fields that carry it (D-04): high half in the flow label, which IPv4 lacks."""
    high, low = divmod(ev, 1 << 16)
    label = None if v4 else high
    return {"flow_label": label, "udp_src_port": low, "reflected_entropy": reflect(label or 0, low, v4=v4)}


def reflect(flow_label: int, src_port: int, *, v4: bool) -> int:
    """Rebuild the EV of a received packet; the upper 4 bits of the flow label do not count (D-20)."""
    return src_port if v4 else flow_label % (1 << 16) * (1 << 16) + src_port


def pack_hops(widths: Sequence[int], values: Sequence[int]) -> int:
    """Pack hop fields from the most significant of 32 bits down.

    Raises:
        WireError: lists of different length, a value that does not fit, or more than 32 bits.
    """
    if len(widths) != len(values) or sum(widths) > 32:
        raise WireError("hop_widths: at most 32 bits, one width a value")
    ev, left = 0, 32
    for width, value in zip(widths, values, strict=True):
        if not 0 <= value < 1 << width:
            raise WireError(f"hop_values: {value} does not fit {width} bits")
        left -= width
        ev += value << left
    return ev


def srv6_destination(fields: Fields) -> bytes:
    """Merge plane and uplink of an EV into a uSID template (4.5).

    The plane goes into every slot that is not zero, the uplink number into one slot. EV = plane | uplink, the
    uplink in the low `uplink_bits`.

    Raises:
        WireError: a geometry outside 128 bits.
    """
    block, width = fields["block_bits"], fields["usid_bits"]
    if (
        fields["plane_bits"] + fields["plane_shift"] > width
        or fields["uplink_bits"] + fields["uplink_shift"] > width
    ):
        raise WireError("template: plane or uplink does not fit a slot")
    if block + width * fields["n_slots"] > 128 or fields["uplink_slot"] >= fields["n_slots"]:
        raise WireError("template: slots do not fit 128 bits")
    uplink = fields["ev"] % (1 << fields["uplink_bits"])
    plane = (fields["ev"] >> fields["uplink_bits"]) % (1 << fields["plane_bits"])
    address = int(ipaddress.IPv6Address(fields["template"]))
    for slot in range(fields["n_slots"]):
        shift = 128 - block - width * (slot + 1)
        if address >> shift & (1 << width) - 1 == 0:
            continue
        address |= plane << fields["plane_shift"] + shift
        if slot == fields["uplink_slot"]:
            address |= uplink << fields["uplink_shift"] + shift
    return address.to_bytes(16, "big")


def usid_shift(before: bytes, block_bits: int, usid_bits: int) -> tuple[bytes, bool]:
    """Return the destination after one uN hop, and whether the list has ended (its first slot is zero)."""
    tail_bits = 128 - block_bits
    block, tail = divmod(int.from_bytes(before, "big"), 1 << tail_bits)
    tail = (tail << usid_bits) % (1 << tail_bits)
    return ((block << tail_bits) + tail).to_bytes(16, "big"), tail >> tail_bits - usid_bits == 0


def _check_profile(widths: Sequence[int], fields: Sequence[Fields], mode: str | None) -> None:
    """Apply the rules of 4.4 in the order of its table."""
    limit = 256 if mode is None else _MODE_BITS.get(mode.upper().replace("+", "_"), 0)
    if len(fields) > len(widths):
        raise ConfigError("E2BIG", "more profile fields than format fields")
    if sum(f["width"] for f in fields) > sum(widths):
        raise ConfigError("E2BIG", "profile fields wider than the format")
    if sum(widths) > limit:
        raise ConfigError("E2BIG", "format wider than its mode allows")
    if any(f["width"] > w for f, w in zip(fields, widths, strict=False)):
        raise ConfigError("E2BIG", "a profile field is wider than its format field")
    for f in fields:
        size, bits = 1 << f["width"], f["mask"].bit_count()
        if f["width"] == 0 or f["init_val"] >= size or f["mask"] >= size or f["max_val"] >= 1 << bits:
            raise ConfigError("EINVAL", "width, init_val, mask or max_val do not fit")
        if f["min_val"] > f["max_val"]:
            raise ConfigError("EINVAL", "min_val above max_val")


def expand(fields: Fields) -> tuple[bytes, Fields]:
    """Expand compact EV bits into 32 bytes (4.4).

    Returns:
        The value, bits left aligned, and the facts `field_values`, `ev_bits_consumed`, `expanded_width`.

    Raises:
        ConfigError: a rule of 4.4 is broken, or there are fewer EV bits than the masks ask for.
    """
    widths, profile = fields["fmt_widths"], fields["fields"]
    _check_profile(widths, profile, fields.get("mode"))
    # Absent EV bits are fine for a question about the configuration alone.
    text = "".join(f"{b:08b}" for b in bytes.fromhex(fields.get("ev_bits_hex", "00" * 32)))
    used, values = 0, []
    for f in profile:
        digits = list(f"{f['init_val']:0{f['width']}b}")
        positions = [i for i, bit in enumerate(f"{f['mask']:0{f['width']}b}") if bit == "1"]
        if used + len(positions) > len(text):
            raise ConfigError("EINVAL", "fewer EV bits than the masks ask for")
        for i in positions:
            digits[i] = text[used]
            used += 1
        values.append(int("".join(digits), 2))
    word = 0
    for width, value in itertools.zip_longest(widths, values, fillvalue=0):
        word = word << width | value
    total = sum(widths)
    facts = {"field_values": values, "ev_bits_consumed": used, "expanded_width": total}
    return (word << 256 - total).to_bytes(32, "big"), facts
