"""The controller level, after mrc_ctl.h.

EV format, EV and CC profiles, EV states, events and probes of a device.

Profiles live as long as the process and are shared by all controllers and contexts of one device name. In an
ordinary user-space device nothing is privileged inside its own process; reaching into another process is not
supported.
"""

from __future__ import annotations

from softmrc.ctl.controller import Controller, EvEvent
from softmrc.ctl.profiles import (
    CcProfile,
    EvEntry,
    EvField,
    EvFmtMode,
    EvFmtProfile,
    EvMode,
    EvProfile,
    ProfileState,
)
from softmrc.types import EvState

__all__ = [
    "CcProfile",
    "Controller",
    "EvEntry",
    "EvEvent",
    "EvField",
    "EvFmtMode",
    "EvFmtProfile",
    "EvMode",
    "EvProfile",
    "EvState",
    "ProfileState",
]
