"""Devices of this process by name: what lives longer than one context, namely profiles and who uses them."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from softmrc._core import CcProfileStore, EvProfileStore
from softmrc.device.base import refusals
from softmrc.errors import VerbsError

if TYPE_CHECKING:
    from softmrc._core import NetDriver
    from softmrc.device.pump import Pump

__all__ = ["Device", "OpenDevice", "ProfileUse", "device"]

_STATES = {"good": 1, "skip": 1, "assumed_bad": 2, "denied": 4}
_AUTO = 1


class OpenDevice(Protocol):
    """What a context offers to the device and its controllers."""

    device: Device
    driver: NetDriver
    pump: Pump

    @property
    def planes(self) -> list[dict[str, Any]]:
        """The planes as opened."""


class QueuePair(Protocol):
    """What a queue pair offers."""

    ctx: Any
    qp_num: int
    profiles: ProfileUse

    @property
    def closed(self) -> bool:
        """True once it is gone."""

    def path_stats(self) -> list[dict[str, Any]]:
        """Return one dict for each EV."""


class ProfileUse:
    """The profiles one queue pair holds; they cannot leave ONLINE meanwhile (EBUSY, reference 12.2)."""

    def __init__(self) -> None:
        """Start with none."""
        self.ev_profile: int | None = None
        self.marks: list[tuple[int, int]] = []
        self._releases: list[Callable[[], None]] = []

    def add(self, release: Callable[[], None]) -> None:
        """Hold one more; `release` gives it back."""
        self._releases.append(release)

    def take_over(self, other: ProfileUse) -> None:
        """Hold what `other` holds."""
        if other.ev_profile is not None:
            self.ev_profile = other.ev_profile
        self._releases += other._releases
        other._releases = []

    def release(self) -> None:
        """Give everything back."""
        for give_back in self._releases:
            give_back()
        self._releases = []
        self.ev_profile = None
        self.marks = []


class Device:
    """A named device: its profile stores, its open contexts, and its controllers."""

    def __init__(self, name: str) -> None:
        """Use `device(name)` instead."""
        self.name = name
        self.ev = EvProfileStore()
        self.cc = CcProfileStore()
        self.contexts: weakref.WeakSet[OpenDevice] = weakref.WeakSet()
        self.watchers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._qps: weakref.WeakSet[QueuePair] = weakref.WeakSet()
        self._sinks: weakref.WeakKeyDictionary[OpenDevice, Callable[[dict[str, Any]], None]] = (
            weakref.WeakKeyDictionary()
        )

    def attach(self, ctx: OpenDevice) -> None:
        """A context was opened."""
        self.contexts.add(ctx)
        driver = weakref.ref(ctx)

        def sink(event: dict[str, Any]) -> None:
            self._on_event(driver(), event)

        self._sinks[ctx] = sink
        ctx.pump.add_sink(sink)

    def detach(self, ctx: OpenDevice) -> None:
        """A context is being closed."""
        self.contexts.discard(ctx)
        sink = self._sinks.pop(ctx, None)
        if sink is not None:
            ctx.pump.remove_sink(sink)

    def pump(self) -> None:
        """Fetch what the drivers have to say."""
        for ctx in list(self.contexts):
            with contextlib.suppress(OSError):
                ctx.pump.run()

    def ports(self) -> list[int]:
        """Port numbers of the open contexts; 1 when none is open."""
        numbers = {p["port"] for ctx in self.contexts for p in ctx.planes}
        return sorted(numbers) or [1]

    # --- queue pairs ----------------------------------------------------------------------------------------

    def use_profiles(self, ev_id: int | None, cc_id: int | None, out: dict[str, Any]) -> ProfileUse:
        """RESET to INIT: hold the profiles and put what they say into the attributes of the engine.

        Raises:
            VerbsError: EINVAL, a profile is not ONLINE.
        """
        use = ProfileUse()
        try:
            if cc_id:
                with refusals(f"CC profile {cc_id}"):
                    held = self.cc.hold(cc_id)
                use.add(lambda: self.cc.release(cc_id))
                out["cc_profile_id"] = cc_id
                out["cc_algorithm"] = held["algorithm"] or ""
                out["cc_config"] = held["config"]
            if ev_id:
                with refusals(f"EV profile {ev_id}"):
                    self.ev.hold(ev_id)
                use.add(lambda: self.ev.release(ev_id))
                use.ev_profile = out["ev_profile_id"] = ev_id
        except BaseException:
            use.release()
            raise
        return use

    def draw_evs(self, use: ProfileUse, out: dict[str, Any]) -> None:
        """INIT to RTR: the peer's planes are known, draw the EVs of this queue pair.

        Raises:
            VerbsError: EINVAL, the profile has no EV on these planes.
        """
        if use.ev_profile is None or "ev_set" in out:
            return
        attr = self.ev.query_ev(use.ev_profile)
        table = dict(out.get("ev_table") or {})
        table["min_active"] = attr["min_active"] or 0
        out["ev_table"] = table
        if attr["mode"] == _AUTO:
            out["ev_count"] = attr["count"]
            return
        ports = sum(1 << p[0] for p in out.get("peer_ports", ()))
        seed = int.from_bytes(os.urandom(8), "little")
        with refusals(f"EV profile {use.ev_profile}"):
            made = self.ev.make_set(use.ev_profile, seed, ports)
        out["ev_set"] = (made["active"], made["backup"])
        use.marks = list(made["marks"])

    def started(self, qp: QueuePair, use: ProfileUse) -> None:
        """The queue pair has its paths: tell it what the controller decreed before, and remember it."""
        self._qps.add(qp)
        for ev, state in use.marks:
            _tell(qp, ev, ev, 0, state)

    def state_of(self, profile_id: int) -> Callable[[int, int], int | None]:
        """Return a function (tag, port) to the state of an EV over the queue pairs of a profile."""
        worst: dict[tuple[int, int], int] = {}
        for qp in self._users(profile_id):
            for path in qp.path_stats():
                key = (path["ev"], path["plane"])
                worst[key] = max(worst.get(key, 0), _STATES[path["state"]] & 3 or 1)
        return lambda tag, port: worst.get((tag, port))

    def tell_qps(self, profile_id: int, effects: Iterable[tuple[int, int, int, int, int]]) -> None:
        """Carry changes of a profile to its queue pairs; one that does not hold the EV has nothing to do."""
        users = self._users(profile_id)
        for was, was_port, now, now_port, state in effects:
            for qp in users:
                _tell(qp, was, now, now_port if (was, was_port) != (now, now_port) else 0, state)

    def _users(self, profile_id: int) -> list[QueuePair]:
        return [qp for qp in self._qps if not qp.closed and qp.profiles.ev_profile == profile_id]

    def _on_event(self, ctx: OpenDevice | None, event: dict[str, Any]) -> None:
        if event["kind"] != "ev_state" or not self.watchers:
            return
        qp = next((q for q in self._qps if q.ctx is ctx and q.qp_num == event["qpn"]), None)
        if qp is None or qp.profiles.ev_profile is None:
            return
        profile_id, state = qp.profiles.ev_profile, _STATES[event["state"]]
        if not self.ev.wants_event(profile_id, state):
            return
        entry = self.ev.entry_of(profile_id, event["ev"], event["port"])
        if entry is not None:
            for watcher in list(self.watchers):
                watcher._on_ev_event(profile_id, entry, state, event["dropped"])


def _tell(qp: QueuePair, was: int, now: int, port: int, state: int) -> None:
    try:
        with refusals("change an EV of a running QP"):
            if port:
                qp.ctx.driver.replace_ev(qp.qp_num, was, now, port)
            qp.ctx.driver.set_ev_state(qp.qp_num, now, state)
    except VerbsError as error:
        if error.errno not in (errno.ENOENT, errno.EINVAL):
            raise


_devices: dict[str, Device] = {}
_lock = threading.Lock()


def device(name: str) -> Device:
    """Return the device of that name, the same object every time."""
    with _lock:
        return _devices.setdefault(name, Device(name))
