"""What verbs contexts and controllers of one device share: lifetimes, events, profiles and who uses them."""

from __future__ import annotations

from softmrc.device.base import Resource, end_block, refusals
from softmrc.device.interfaces import Interface, host_interfaces
from softmrc.device.pump import EventQueue, Pump, Wakeup
from softmrc.device.registry import Device, OpenDevice, ProfileUse, device

__all__ = [
    "Device",
    "EventQueue",
    "Interface",
    "OpenDevice",
    "ProfileUse",
    "Pump",
    "Resource",
    "Wakeup",
    "device",
    "end_block",
    "host_interfaces",
    "refusals",
]
