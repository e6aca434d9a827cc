"""One controller of a device: changes profiles, tells queue pairs, collects events, probes paths."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from softmrc._core import EvEventQueue
from softmrc.ctl.profiles import CcProfile, EvEntry, EvField, EvFmtProfile, EvMode, EvProfile, ProfileState
from softmrc.device import Device, EventQueue, OpenDevice, Wakeup, device, refusals
from softmrc.errors import UsageError, VerbsError
from softmrc.types import EvState

__all__ = ["Controller", "EvEvent"]

_REPLACE, _SET_STATE, _QUERY_STATE, _QUERY_ARRAY = range(4)
_MAX_PROBE_SECONDS = 4.29  # the API counts nanoseconds in 32 bits


@dataclass(frozen=True)
class EvEvent:
    """A change of state that a profile's event mask asks for (reference 12.5)."""

    profile_id: int
    ev: EvEntry
    state: EvState
    drop_count: int
    """Events lost right before this one."""


class Controller:
    """Access to the profiles of one device; a context manager."""

    def __init__(
        self,
        name: str | OpenDevice = "mrc0",
        *,
        events: int = 1024,
        pid: int | None = None,
        privileged: bool = False,
    ) -> None:
        """Attach to a device of this process.

        Args:
            name: device name, or a context of it. A device needs not be open yet.
            events: events kept for `poll_ev_events`; more are dropped and counted.
            pid: another process. Not supported; asking for it without `privileged` is EPERM, with it ENOTSUP.
            privileged: the caller may administer other processes' devices (CAP_NET_ADMIN).

        Raises:
            VerbsError: EPERM, ENOTSUP.
        """
        if pid is not None:
            if not privileged:
                raise VerbsError(errno.EPERM, f"attach to the device of process {pid}: needs privileged=True")
            raise VerbsError(
                errno.ENOTSUP, f"attach to the device of process {pid}: only devices of this process"
            )
        self._device: Device = device(name) if isinstance(name, str) else name.device
        self._events = EvEventQueue(events)
        self._device.watchers.add(self)
        self._closed = False

    # --- formats and profiles -------------------------------------------------------------------------------

    def modify_ev_fmt_profile(
        self, profile_id: int, profile: EvFmtProfile | None = None, state: ProfileState | str | None = None
    ) -> None:
        """Change an EV format profile, then walk it to `state` in legal steps.

        Raises:
            VerbsError: EINVAL, E2BIG, EBUSY (an ONLINE EV profile names it).
        """
        change = profile.to_core() if profile is not None else {}
        with refusals(f"modify EV format profile {profile_id}"):
            now = ProfileState(self._device.ev.query_format(profile_id)["state"])
            for step in _steps(now, state):
                self._device.ev.modify_format(profile_id, {**change, **step})
                change = {}

    def query_ev_fmt_profile(self, profile_id: int) -> dict[str, Any]:
        """Return state, mode, fields and address template."""
        return dict(self._device.ev.query_format(profile_id))

    def modify_ev_profile(
        self, profile_id: int, profile: EvProfile | None = None, state: ProfileState | str | None = None
    ) -> None:
        """Change an EV profile, populate explicit entries, then walk it to `state` in legal steps.

        Raises:
            VerbsError: EINVAL, E2BIG, EBUSY (queue pairs use it).
        """
        old = self._device.ev.query_ev(profile_id)
        change = self._ev_change(profile, old) if profile is not None else {}
        batch = self._populate(profile) if profile is not None and profile.evs is not None else None
        for step in _steps(ProfileState(old["state"]), state):
            if batch is not None and step.get("state") in (None, int(ProfileState.ONLINE)):
                # Entries need the format and the count, which are known once the attributes are in.
                self._ev_call(profile_id, {**change, **batch})
                change, batch = {}, None
                if not step:
                    continue
            self._ev_call(profile_id, {**change, **step})
            change = {}

    def _ev_change(self, profile: EvProfile, old: dict[str, Any]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        given = {
            "mode": profile.mode,
            "fmt_id": profile.fmt_id,
            "count": profile.ev_count,
            "min_active": profile.min_active,
            "event_mask": profile.event_mask,
        }
        out |= {name: int(value) for name, value in given.items() if value is not None}
        if profile.fields is not None:
            out["fields"] = [vars(f) for f in profile.fields]
        mode = out.get("mode", old["mode"])
        fmt_id = out.get("fmt_id", old["fmt_id"])
        if (
            old["fields"] is None
            and "fields" not in out
            and mode in (EvMode.EXPLICIT, EvMode.GENERATED)
            and fmt_id is not None
        ):
            widths = self._device.ev.query_format(fmt_id)["fields"] or []
            out["fields"] = [vars(EvField.variable(w)) for w in widths]
        count = out.get("count", old["count"])
        if old["min_active"] is None and "min_active" not in out and count is not None:
            out["min_active"] = count // 4
        if old["event_mask"] is None and "event_mask" not in out:
            out["event_mask"] = int(EvState.GOOD | EvState.ASSUMED_BAD)
        return out

    @staticmethod
    def _populate(profile: EvProfile) -> dict[str, Any]:
        empty = (b"", 0)
        entries = [
            {"ev": empty, "ev_new": (e.value, e.port), "state": int(EvState.GOOD)} for e in profile.evs or ()
        ]
        return {"batch": {"op": _REPLACE, "entries": entries}}

    def query_ev_profile(self, profile_id: int) -> dict[str, Any]:
        """Return state, mode, fmt_id, count as adjusted, min_active, event_mask, fields and users."""
        return dict(self._device.ev.query_ev(profile_id))

    def modify_cc_profile(
        self, profile_id: int, profile: CcProfile | None = None, state: ProfileState | str | None = None
    ) -> None:
        """Change a congestion control profile, then walk it to `state` in legal steps.

        Raises:
            VerbsError: EINVAL (algorithm, settings, state), EBUSY (queue pairs use it).
        """
        change = profile.to_core() if profile is not None else {}
        with refusals(f"modify CC profile {profile_id}"):
            now = ProfileState(self._device.cc.query(profile_id)["state"])
            for step in _steps(now, state):
                self._device.cc.modify(profile_id, {**change, **step})
                change = {}

    def query_cc_profile(self, profile_id: int) -> dict[str, Any]:
        """Return state, algorithm, config and users."""
        return dict(self._device.cc.query(profile_id))

    # --- entropy values -------------------------------------------------------------------------------------

    def set_ev_state(
        self,
        profile_id: int,
        ev: int | bytes | EvEntry,
        state: EvState,
        *,
        port: int | None = None,
        all_copies: bool = True,
    ) -> None:
        """Decree the state of an EV for every queue pair of a profile, present and future.

        Args:
            profile_id: EV profile.
            ev: compact bits as a number or bytes, or an entry with its port.
            state: GOOD, ASSUMED_BAD or DENIED; only GOOD leaves DENIED.
            port: of an `ev` without one; None: every port on which the profile has it.
            all_copies: explicit profiles may hold a value more than once.

        Raises:
            VerbsError: ENOENT (no such EV), EINVAL.
        """
        found = False
        for entry in self._entries(profile_id, ev, port):
            item = {"ev": (entry.value, entry.port), "state": int(state), "all_copies": all_copies}
            try:
                self._ev_call(profile_id, {"batch": {"op": _SET_STATE, "entries": [item]}})
                found = True
            except VerbsError as error:
                if error.errno != errno.ENOENT or port is not None or isinstance(ev, EvEntry):
                    raise
        if not found:
            raise VerbsError(errno.ENOENT, f"EV profile {profile_id} has no such EV")

    def replace_ev(self, profile_id: int, ev: EvEntry, new: EvEntry, *, all_copies: bool = False) -> None:
        """Put another EV in the place of one of an explicit profile; running queue pairs follow.

        Raises:
            VerbsError: ENOENT, EINVAL.
        """
        item = {
            "ev": (ev.value, ev.port),
            "ev_new": (new.value, new.port),
            "state": int(EvState.GOOD),
            "all_copies": all_copies,
        }
        self._ev_call(profile_id, {"batch": {"op": _REPLACE, "entries": [item]}})

    def query_ev_state(
        self, profile_id: int, ev: int | bytes | EvEntry, *, port: int | None = None
    ) -> EvState:
        """Return the state of an EV over all queue pairs: ASSUMED_BAD when one of them holds it for bad.

        Raises:
            VerbsError: ENOENT.
        """
        states: list[EvState] = []
        for entry in self._entries(profile_id, ev, port):
            try:
                answer = self._ev_call(
                    profile_id,
                    {"batch": {"op": _QUERY_STATE, "entries": [{"ev": (entry.value, entry.port)}]}},
                )
            except VerbsError as error:
                if error.errno != errno.ENOENT:
                    raise
                continue
            states.append(EvState(answer["entries"][0][1]))
        if not states:
            raise VerbsError(errno.ENOENT, f"EV profile {profile_id} has no such EV")
        return max(states)

    def query_ev_array(self, profile_id: int) -> list[EvEntry]:
        """Return the EVs of an explicit profile, unpopulated ones as empty entries on port 0."""
        room = self._device.ev.query_ev(profile_id)["count"] or 0
        batch = {"op": _QUERY_ARRAY, "entries": [{} for _ in range(room)]}
        answer = self._ev_call(profile_id, {"batch": batch})
        return [EvEntry(value, port) for (value, port), _ in answer["entries"][: answer["count"]]]

    def _entries(self, profile_id: int, ev: int | bytes | EvEntry, port: int | None) -> list[EvEntry]:
        if isinstance(ev, EvEntry):
            return [ev]
        value = ev if isinstance(ev, bytes) else self._bytes_of(profile_id, ev)
        ports = [port] if port is not None else self._device.ports()
        return [EvEntry(value, p) for p in ports]

    def _bytes_of(self, profile_id: int, ev: int) -> bytes:
        fields = self._device.ev.query_ev(profile_id)["fields"]
        width = sum(f["mask"].bit_count() for f in fields) if fields else 32
        if not 0 <= ev < 1 << width:
            raise UsageError(f"an EV of this profile has {width} bits; {ev:#x} has more")
        size = (width + 7) // 8
        return (ev << (size * 8 - width)).to_bytes(size, "big")

    def _ev_call(self, profile_id: int, change: dict[str, Any]) -> dict[str, Any]:
        call = f"modify EV profile {profile_id}"
        with refusals(call):
            answer = dict(self._device.ev.modify_ev(profile_id, change, self._device.state_of(profile_id)))
        self._device.tell_qps(profile_id, answer["effects"])
        if answer["errno"]:
            raise VerbsError(answer["errno"], call)
        return answer

    # --- events and probes ----------------------------------------------------------------------------------

    def poll_ev_events(self, max_events: int = 16) -> list[EvEvent]:
        """Take up to `max_events` events; never blocks."""
        self._device.pump()
        return [
            EvEvent(profile_id, EvEntry(*entry), EvState(state), dropped)
            for profile_id, entry, state, dropped in self._events.poll(max_events)
        ]

    def probe(
        self,
        address: str,
        evs: Iterable[int] | None = None,
        timeout: float = 1.0,
        *,
        plane: int = 1,
        udp_port: int = 4791,
        dscp: int = 0,
        context: OpenDevice | None = None,
    ) -> dict[int, int | None]:
        """Measure the round trip of paths with EV probes (reference 9.1); no queue pair is needed.

        Only endpoints that know each other answer: there is a queue pair between them, or both were opened
        with `accept_only_known_peers=False`.

        Args:
            address: of the peer's plane.
            evs: wire tags to try; None: those of the local plane.
            timeout: seconds for all answers, at most 4.29.
            plane: local plane.
            udp_port: of the peer.
            dscp: class of the requests; answers are always CONTROL.
            context: which open context; None: the only one of the device.

        Returns:
            Round trip in nanoseconds by EV; None: no answer in time.

        Raises:
            VerbsError: EAGAIN (too many at once), EINVAL.
            UsageError: the device is not open, or open more than once.
        """
        if not 0 <= timeout <= _MAX_PROBE_SECONDS:
            raise UsageError(f"timeout is 0 to {_MAX_PROBE_SECONDS} s")
        ctx = context or self._only_context()
        wanted = list(evs) if evs is not None else list(ctx.planes[plane - 1]["evs"])
        return _probe(
            ctx, lambda ev: ctx.driver.send_ev_probe(plane, address, udp_port, ev, dscp), wanted, timeout
        )

    def _only_context(self) -> OpenDevice:
        open_ones = list(self._device.contexts)
        if len(open_ones) != 1:
            raise UsageError(f"device {self._device.name!r} is open {len(open_ones)} times; pass context=")
        return open_ones[0]

    def _on_ev_event(self, profile_id: int, entry: tuple[bytes, int], state: int, dropped: int) -> None:
        if dropped:
            self._events.note_dropped(dropped)
        self._events.push(profile_id, entry, state)

    def close(self) -> None:
        """Detach. Profiles stay. Idempotent."""
        self._device.watchers.discard(self)
        self._closed = True

    def __enter__(self) -> Controller:
        """Enter: nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Detach."""
        self.close()


def _steps(now: ProfileState, wanted: ProfileState | str | None) -> list[dict[str, int]]:
    """Changes of state from `now` to `wanted`; one empty change when the state stays."""
    if wanted is None:
        return [{}]
    target = ProfileState.of(wanted)
    if target == now:
        return [{"cur_state": int(now)}]
    step = 1 if target > now else -1
    return [{"state": s} for s in range(now + step, target + step, step)]


def _probe(
    ctx: OpenDevice, send: Callable[[int], int], evs: Sequence[int], timeout: float
) -> dict[int, int | None]:
    rtts: dict[int, int | None] = dict.fromkeys(evs)
    waiting: dict[int, int] = {}
    answers = EventQueue(Wakeup(ctx.driver.event_fd()))
    ctx.pump.add_sink(answers.push)
    try:
        end = time.monotonic() + timeout
        with refusals("EV probe"):
            for ev in rtts:
                waiting[send(ev)] = ev
        while waiting:
            left = end - time.monotonic()
            if not ctx.pump.wait_for(answers.wakeup, lambda: len(answers) > 0, max(left, 0.0)):
                break
            event = answers.pop()
            if event is not None and event["kind"] == "endpoint_response" and event["request_id"] in waiting:
                ev = waiting.pop(event["request_id"])
                rtts[ev] = event["rtt_ns"] if event["up"] else None
    finally:
        ctx.pump.remove_sink(answers.push)
        answers.wakeup.close()
    return rtts
