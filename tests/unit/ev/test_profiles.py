"""EV-format and EV profiles through the compiled module: a state machine against a model (reference 12.2)."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from softmrc import _core

INIT, OFFLINE, ONLINE = range(3)
NEXT = {(INIT, OFFLINE), (OFFLINE, ONLINE), (ONLINE, OFFLINE), (OFFLINE, INIT)}
AUTO, EXPLICIT, GENERATED = 1, 2, 4
REPLACE, MODIFY_STATE, QUERY_STATE, QUERY_ARRAY = range(4)
GOOD, BAD, DENIED, UNKNOWN = 1, 2, 4, 1 << 31
STEV = 1

FIELDS = [
    {"width": 16, "init_val": 0, "min_val": 1, "max_val": 15, "mask": 0x0F},
    {"width": 16, "init_val": 0, "min_val": 0, "max_val": 255, "mask": 0xFF},
]
BAD_FIELDS = [{"width": 16, "init_val": 0, "min_val": 2, "max_val": 1, "mask": 0x0F}]

COMPLETE = {"mode": GENERATED, "fmt_id": 1, "count": 16, "min_active": 4, "event_mask": 3, "fields": FIELDS}

states = st.sampled_from([None, INIT, OFFLINE, ONLINE])
present = st.sampled_from([None, None, None, None, INIT, OFFLINE, ONLINE])


def seldom(*values: Any) -> st.SearchStrategy[Any]:
    """Most calls leave an attribute alone."""
    return st.sampled_from([None] * (3 * len(values)) + list(values))


def error_of(call: Any, *args: Any) -> int:
    """Return the errno of the call, 0 when it succeeds."""
    try:
        call(*args)
    except OSError as e:
        return e.errno or -1
    return 0


def given(**members: Any) -> dict[str, Any]:
    """Return the members that are not None."""
    return {k: v for k, v in members.items() if v is not None}


def value(compact: int) -> bytes:
    """Twelve compact bits, left aligned."""
    return (compact << 20).to_bytes(4, "big")


class EvProfileMachine(RuleBasedStateMachine):
    """One format and one generated profile that names it; the model keeps what was accepted."""

    def __init__(self) -> None:
        super().__init__()
        self.store = _core.EvProfileStore({"caps": 0})
        self.fmt: dict[str, Any] = {"state": INIT}
        self.ev: dict[str, Any] = {"state": INIT}
        self.users = 0

    @rule(
        cur=present,
        to=states,
        mode=seldom(STEV, STEV, 3),
        fields=seldom([16, 16], [16, 16], [16, 16, 1], []),
    )
    def format(self, cur: int | None, to: int | None, mode: int | None, fields: list[int] | None) -> None:
        """Change the format in every combination."""
        self._change_format(cur, to, given(mode=mode, fields=fields))

    def _change_format(self, cur: int | None, to: int | None, change: dict[str, Any]) -> None:
        want = {**self.fmt, **change}
        expected = self._expected_of_format(cur, to, change, want)
        got = error_of(self.store.modify_format, 1, given(cur_state=cur, state=to) | change)
        assert got == expected
        if got == 0:
            self.fmt = (
                {"state": INIT} if to == INIT else {**want, "state": self.fmt["state"] if to is None else to}
            )

    def _expected_of_format(
        self, cur: int | None, to: int | None, change: dict[str, Any], want: dict[str, Any]
    ) -> int:
        state = self.fmt["state"]
        if cur is not None and cur != state:
            return errno.EINVAL
        if state == ONLINE and self.ev["state"] == ONLINE and (change or to is not None):
            return errno.EBUSY
        if change and (state == ONLINE or to == INIT):
            return errno.EINVAL
        if want.get("mode") == 3 or ("mode" in want and want.get("fields") == []):
            return errno.EINVAL
        if "mode" in want and sum(want.get("fields", [])) > 32:
            return errno.E2BIG
        if to is None:
            return 0
        ready = {INIT: True, OFFLINE: "mode" in want, ONLINE: "mode" in want and "fields" in want}
        return 0 if (state, to) in NEXT and (state == ONLINE or ready[to]) else errno.EINVAL

    @rule(
        cur=present,
        to=states,
        mode=seldom(GENERATED, 3),
        fmt_id=seldom(1),
        count=seldom(16, 0, 5000),
        low=seldom(4, 17),
        mask=seldom(3, 4),
        fields=seldom(FIELDS, FIELDS, BAD_FIELDS),
    )
    def profile(self, cur: int | None, to: int | None, **attributes: Any) -> None:
        """Change the EV profile in every combination."""
        names = {"low": "min_active", "mask": "event_mask"}
        self._change(cur, to, given(**{names.get(k, k): v for k, v in attributes.items()}))

    def _change(self, cur: int | None, to: int | None, change: dict[str, Any]) -> None:
        want = {**self.ev, **change}
        got = self.store.modify_ev(7, given(cur_state=cur, state=to) | change)["errno"]
        assert got == self._expected(cur, to, change, want)
        if got == 0:
            self.ev = (
                {"state": INIT} if to == INIT else {**want, "state": self.ev["state"] if to is None else to}
            )

    def _expected(self, cur: int | None, to: int | None, change: dict[str, Any], want: dict[str, Any]) -> int:
        state = self.ev["state"]
        if cur is not None and cur != state:
            return errno.EINVAL
        if to == INIT and change:
            return errno.EINVAL
        if to is not None and state == ONLINE and self.users:
            return errno.EBUSY
        if state == ONLINE and change:
            return errno.EINVAL
        known = "mode" in self.fmt and "fields" in self.fmt and "fmt_id" in want
        if want.get("mode") == 3 or want.get("count", 16) != 16 or want.get("event_mask") == 4:
            return errno.EINVAL
        if want.get("min_active", 0) > want.get("count", 1 << 32):
            return errno.EINVAL
        if known and want.get("fields") == BAD_FIELDS:
            return errno.EINVAL
        if to is None:
            return 0
        ready = {"mode", "fmt_id", "count", "fields"} <= want.keys()
        if to == ONLINE:
            ready = ready and {"min_active", "event_mask"} <= want.keys() and self.fmt["state"] == ONLINE
            ready = ready and want["fields"] == FIELDS
        legal = (state, to) in NEXT and (state == ONLINE or to == INIT or ready)
        return 0 if legal else errno.EINVAL

    @rule(
        to=states,
        lacking=st.sampled_from(
            [None, None, "mode", "fmt_id", "count", "min_active", "event_mask", "fields"]
        ),
    )
    def nearly_complete(self, to: int | None, lacking: str | None) -> None:
        """Give all attributes but one at once."""
        change = dict(COMPLETE)
        change.pop(lacking or "", None)
        self._change(None, to, change)

    @rule(to=states)
    def complete_format(self, to: int | None) -> None:
        """Give the format all it needs."""
        self._change_format(None, to, {"mode": STEV, "fields": [16, 16]})

    @rule(to=states)
    def move_profile(self, to: int | None) -> None:
        """Nothing but a change of state."""
        self._change(None, to, {})

    @rule(to=states)
    def move_format(self, to: int | None) -> None:
        """Nothing but a change of state."""
        self._change_format(None, to, {})

    @rule()
    def climb(self) -> None:
        """Both one state up, with all they need."""
        if self.fmt["state"] != ONLINE:
            self._change_format(None, self.fmt["state"] + 1, {"mode": STEV, "fields": [16, 16]})
        if self.ev["state"] != ONLINE:
            self._change(None, self.ev["state"] + 1, dict(COMPLETE))

    @rule()
    def hold(self) -> None:
        """A queue pair takes the profile, which works only ONLINE."""
        expected = 0 if self.ev["state"] == ONLINE else errno.EINVAL
        assert error_of(self.store.hold, 7) == expected
        self.users += 1 if expected == 0 else 0

    @rule()
    def release(self) -> None:
        """A queue pair gives it back."""
        assert error_of(self.store.release, 7) == (0 if self.users else errno.EINVAL)
        self.users = max(self.users - 1, 0)

    @invariant()
    def query_agrees(self) -> None:
        """The store shows what the model holds."""
        fmt, ev = self.store.query_format(1), self.store.query_ev(7)
        for key in ("state", "mode", "fields"):
            assert fmt[key] == self.fmt.get(key)
        for key in ("state", "mode", "fmt_id", "count", "min_active", "event_mask", "fields"):
            assert ev[key] == self.ev.get(key)
        assert ev["users"] == self.users
        assert error_of(self.store.make_set, 7, 1, 0b110) == (
            0 if self.ev["state"] == ONLINE else errno.EINVAL
        )


TestEvProfileMachine = EvProfileMachine.TestCase
TestEvProfileMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def online_store(mode: int, count: int, **limits: Any) -> Any:
    """Return a store with profile 7 ONLINE, or populated later when explicit."""
    store = _core.EvProfileStore(limits)
    store.modify_format(1, {"mode": STEV, "fields": [16, 16], "state": OFFLINE})
    store.modify_format(1, {"state": ONLINE})
    change = {
        "mode": mode,
        "fmt_id": 1,
        "count": count,
        "min_active": 1,
        "event_mask": 2,
        "fields": FIELDS,
        "state": OFFLINE,
    }
    assert store.modify_ev(7, change)["errno"] == 0
    if mode == EXPLICIT:
        entries = [{"ev": (b"", 0), "ev_new": (value(0x100 + i), 1 + i % 4)} for i in range(count)]
        assert store.modify_ev(7, {"batch": {"op": REPLACE, "entries": entries}})["errno"] == 0
    assert store.modify_ev(7, {"state": ONLINE})["errno"] == 0
    return store


def test_a_batch_reports_what_it_did_before_its_error() -> None:
    """Effects and count come back with the errno, so that queue pairs hear of the entries applied."""
    store = online_store(EXPLICIT, 8)
    entries = [
        {"ev": (value(0x100), 1), "state": DENIED},
        {"ev": (value(0x777), 1), "state": DENIED},
        {"ev": (value(0x101), 2), "state": DENIED},
    ]
    out = store.modify_ev(7, {"batch": {"op": MODIFY_STATE, "entries": entries}})
    assert out["errno"] == errno.ENOENT
    assert out["count"] == 1
    assert out["effects"] == [(0x10000, 1, 0x10000, 1, DENIED)]
    asked = [{"ev": (value(0x100), 1)}, {"ev": (value(0x101), 2)}]
    out = store.modify_ev(7, {"batch": {"op": QUERY_STATE, "entries": asked}})
    assert [state for _, state in out["entries"]] == [DENIED, GOOD]


def test_queue_pairs_are_asked_for_their_states() -> None:
    """ASSUMED_BAD when one of them holds it so; DENIED stands above that."""
    store = online_store(EXPLICIT, 4)
    asked = {"batch": {"op": QUERY_STATE, "entries": [{"ev": (value(0x100), 1)}]}}
    seen: list[tuple[int, int]] = []

    def state_of(tag: int, port: int) -> int:
        seen.append((tag, port))
        return BAD

    assert store.modify_ev(7, asked, state_of)["entries"][0][1] == BAD
    assert seen == [(0x10000, 1)]
    assert store.modify_ev(7, asked, lambda tag, port: None)["entries"][0][1] == GOOD


def test_array_query_says_how_much_room_it_needs() -> None:
    """E2BIG stores the needed size in the count; the array itself has bytes and ports."""
    store = online_store(EXPLICIT, 8)
    out = store.modify_ev(7, {"batch": {"op": QUERY_ARRAY, "entries": []}})
    assert (out["errno"], out["count"]) == (errno.E2BIG, 8)
    out = store.modify_ev(7, {"batch": {"op": QUERY_ARRAY, "entries": [{}] * 8}})
    assert out["entries"][3][0] == (value(0x103).ljust(32, b"\0"), 4)


@pytest.mark.parametrize("planes", [1, 3, 8])
def test_a_set_has_equal_planes_and_spares_on_each(planes: int) -> None:
    """Equal numbers per plane, no tag twice; spares a quarter of the active ones."""
    store = online_store(GENERATED, 20 * planes)
    got = store.make_set(7, 5, (2 << planes) - 2)
    active, backup = got["active"], got["backup"]
    per_port = {p: sum(port == p for _, port in active) for p in range(1, planes + 1)}
    assert set(per_port.values()) == {16}
    assert {p: sum(port == p for _, port in backup) for p in per_port} == dict.fromkeys(per_port, 4)
    assert len({tag for tag, _ in active + backup}) == 20 * planes
    for (tag, port), packet in zip(active, got["active_values"], strict=True):
        assert int.from_bytes(packet[:4], "big") == tag
        compact, back_port = store.entry_of(7, tag, port)
        assert back_port == port
        expansion = {"fmt_widths": [16, 16], "fields": FIELDS, "ev_bits_hex": compact.hex()}
        assert _core.ev_expand(expansion)["value"] == packet


def test_events_are_dropped_not_overrun() -> None:
    """The next event delivered carries the exact number of those lost."""
    queue = _core.EvEventQueue(2)
    for i in range(5):
        queue.push(7, (value(i), 1), BAD)
    assert [drops for *_, drops in queue.poll(16)] == [0, 0]
    queue.push(7, (value(9), 1), GOOD)
    assert queue.poll(1) == [(7, (value(9).ljust(32, b"\0"), 1), GOOD, 3)]
    assert len(queue) == 0


def test_wrong_arguments_are_value_errors() -> None:
    """Names and types are the caller's business, not the store's."""
    store = _core.EvProfileStore()
    with pytest.raises(ValueError, match="unknown member 'colour'"):
        store.modify_ev(7, {"colour": 1})
    with pytest.raises(ValueError, match="more than 32 bytes"):
        store.modify_ev(7, {"batch": {"op": QUERY_STATE, "entries": [{"ev": (bytes(33), 1)}]}})
    with pytest.raises(ValueError, match="count has a wrong type"):
        store.modify_ev(7, {"count": -1})
