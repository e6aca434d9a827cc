"""Profiles as a controller writes them (reference 12.1 to 12.4). None means: not given, keeps what it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any

from softmrc.errors import UsageError

__all__ = [
    "CcProfile",
    "EvEntry",
    "EvField",
    "EvFmtMode",
    "EvFmtProfile",
    "EvMode",
    "EvProfile",
    "ProfileState",
]


class EvFmtMode(IntEnum):
    """How an EV travels; SRV6_SRH is the variant with a segment routing header, told apart here."""

    STEV = 1
    SRV6 = 2
    UDP = 4
    SRV6_SRH = 8


class EvMode(IntEnum):
    """Where the EVs of a profile come from."""

    AUTO = 1
    EXPLICIT = 2
    GENERATED = 4
    GEN = 4


class ProfileState(IntEnum):
    """Life of a profile: INIT, OFFLINE, ONLINE and back, one step at a time."""

    INIT = 0
    OFFLINE = 1
    ONLINE = 2

    @classmethod
    def of(cls, state: ProfileState | str | int) -> ProfileState:
        """Read a state, also by its name; UsageError when there is none like it."""
        try:
            return cls[state.upper()] if isinstance(state, str) else cls(state)
        except (KeyError, ValueError):
            raise UsageError(f"a profile is init, offline or online, not {state!r}") from None


@dataclass(frozen=True)
class EvField:
    """One field of an EV profile (reference 4.4)."""

    width: int
    init_val: int = 0
    min_val: int = 0
    max_val: int = 0
    mask: int = 0
    """Bits that the EV fills; 0: a fixed part."""

    @classmethod
    def variable(cls, width: int) -> EvField:
        """Return a field that takes every value of its width."""
        full = (1 << width) - 1
        return cls(width=width, max_val=full, mask=full)


@dataclass(frozen=True)
class EvEntry:
    """One entropy value: up to 32 bytes in network order, and the 1-based port it leaves by."""

    value: bytes
    port: int


@dataclass(frozen=True)
class EvFmtProfile:
    """Widths of the parts of an EV, from its most significant bit."""

    mode: EvFmtMode | None = None
    fields: Sequence[int] | None = None
    address_template: Mapping[str, Any] | None = None
    """SRv6: `template` (an address), `block_bits`, `usid_bits`, `n_slots`, ... (reference 4.5)."""

    def to_core(self) -> dict[str, Any]:
        """Return what was given, as the compiled core reads it."""
        out: dict[str, Any] = {}
        if self.mode is not None:
            out["mode"] = int(self.mode)
        if self.fields is not None:
            out["fields"] = list(self.fields)
        if self.address_template is not None:
            out["address_template"] = dict(self.address_template)
        return out


@dataclass(frozen=True)
class EvProfile:
    """A set of EVs for queue pairs."""

    fmt_id: int | None = None
    """Format profile; AUTO needs none."""
    mode: EvMode | None = None
    ev_count: int | None = None
    min_active: int | None = None
    """Floor of the active set; None on first use: a quarter of `ev_count`."""
    event_mask: int | None = None
    """States to report: `EvState.GOOD | EvState.ASSUMED_BAD`; both on first use."""
    fields: Sequence[EvField] | None = None
    """None for GENERATED and EXPLICIT on first use: every field of the format takes every value."""
    evs: Sequence[EvEntry] | None = None
    """EXPLICIT: entries that fill the unpopulated ones."""


@dataclass(frozen=True)
class CcProfile:
    """An algorithm and its settings; times in nanoseconds, sizes in bytes, 0: derive the default (12.4)."""

    algorithm: str | None = None
    """For instance "uet-1.0-nscc" or "fixed-window"; "" for no congestion control."""
    disable_qa: bool | None = None
    adjust_bytes_threshold: int | None = None
    adjust_period_threshold_ns: int | None = None
    base_rtt_ns: int | None = None
    qa_threshold_ns: int | None = None
    target_delay_ns: int | None = None
    eta: float | None = None
    fi: float | None = None
    fi_scale: float | None = None
    gamma: float | None = None
    max_md_jump: float | None = None
    max_cwnd: int | None = None
    qa_gate: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Settings of this implementation beyond the API."""

    def to_core(self) -> dict[str, Any]:
        """Return what was given, as the compiled core reads it; without any setting: all defaults."""
        config = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name not in ("algorithm", "extra") and getattr(self, f.name) is not None
        }
        out: dict[str, Any] = {"config": {**config, **self.extra}}
        if self.algorithm is not None:
            out["algorithm"] = self.algorithm
        return out
