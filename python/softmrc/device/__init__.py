"""What verbs contexts and controllers of one device share: lifetimes, events, profiles and who uses them."""

from __future__ import annotations

from softmrc.device.base import Resource, refusals
from softmrc.device.pump import EventQueue, Pump, Wakeup
from softmrc.device.registry import Device, OpenDevice, ProfileUse, device

__all__ = [
    "Device",
    "EventQueue",
    "OpenDevice",
    "ProfileUse",
    "Pump",
    "Resource",
    "Wakeup",
    "device",
    "refusals",
]
