"""Devices of this process by name: what lives longer than one context, namely the profiles."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softmrc.verbs.context import Context
    from softmrc.verbs.structs import MrcQPAttr

__all__ = ["Device", "ProfileUse", "device"]


class ProfileUse:
    """The profiles a queue pair holds; they cannot leave ONLINE meanwhile (EBUSY, reference 12.2)."""

    def __init__(self) -> None:
        """Start with none."""
        self._releases: list[Callable[[], None]] = []

    def add(self, release: Callable[[], None]) -> None:
        """Hold one more; `release` gives it back."""
        self._releases.append(release)

    def take_over(self, other: ProfileUse) -> None:
        """Hold what `other` holds."""
        self._releases += other._releases
        other._releases = []

    def release(self) -> None:
        """Give everything back."""
        for give_back in self._releases:
            give_back()
        self._releases = []


class Device:
    """A named device: its profile stores and its open contexts."""

    def __init__(self, name: str) -> None:
        """Use `device(name)` instead."""
        self.name = name
        self.contexts: weakref.WeakSet[Context] = weakref.WeakSet()

    def attach(self, ctx: Context) -> None:
        """A context was opened."""
        self.contexts.add(ctx)

    def detach(self, ctx: Context) -> None:
        """A context is being closed."""
        self.contexts.discard(ctx)

    def use_profiles(self, mrc: MrcQPAttr, out: dict[str, Any]) -> ProfileUse:
        """Resolve profile ids into attributes of the engine."""
        return ProfileUse()


_devices: dict[str, Device] = {}
_lock = threading.Lock()


def device(name: str) -> Device:
    """Return the device of that name, the same object every time."""
    with _lock:
        return _devices.setdefault(name, Device(name))
