"""CC profiles through the compiled module: a state machine against a small model of reference 12.2."""

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

states = st.one_of(st.none(), st.integers(INIT, ONLINE))
algorithms = st.sampled_from([None, "", "null", "fixed-window", "uet-1.0-nscc", "bbr"])
configs = st.sampled_from([None, {}, {"gamma": 0.5}, {"gamma": 1.5}])


def error_of(call: Any, *args: Any) -> int:
    """Return the errno of the call, 0 when it succeeds."""
    try:
        call(*args)
    except OSError as e:
        return e.errno or -1
    return 0


class ProfileMachine(RuleBasedStateMachine):
    """One profile with every combination of members; the model keeps what was accepted."""

    def __init__(self) -> None:
        super().__init__()
        self.store = _core.CcProfileStore(modify_online=True)
        self.state, self.algorithm, self.config, self.users = INIT, None, None, 0

    def expected(self, cur: int | None, to: int | None, algorithm: str | None, config: Any) -> int:
        if cur is not None and cur != self.state:
            return errno.EINVAL
        if algorithm == "bbr" or (config or {}).get("gamma", 0) > 1:
            return errno.EINVAL
        if to == INIT and (algorithm is not None or config is not None):
            return errno.EINVAL
        if self.state == ONLINE and algorithm is not None:
            return errno.EINVAL
        if to is None:
            return 0
        if (self.state, to) not in NEXT:
            return errno.EINVAL
        if to in (OFFLINE, ONLINE) and algorithm is None and self.algorithm is None:
            return errno.EINVAL
        if to == ONLINE and config is None and self.config is None:
            return errno.EINVAL
        if self.state == ONLINE and self.users:
            return errno.EBUSY
        return 0

    @rule(cur=states, to=states, algorithm=algorithms, config=configs)
    def modify(self, cur: int | None, to: int | None, algorithm: str | None, config: Any) -> None:
        change = {"cur_state": cur, "state": to, "algorithm": algorithm, "config": config}
        want = self.expected(cur, to, algorithm, config)
        assert error_of(self.store.modify, 5, change) == want
        if want:
            return
        self.state = self.state if to is None else to
        self.algorithm = self.algorithm if algorithm is None else algorithm
        self.config = self.config if config is None else config
        if to == INIT:
            self.algorithm = self.config = None

    @rule()
    def step(self) -> None:
        """Take the usual way up, which random members rarely find."""
        self.modify(None, min(self.state + 1, ONLINE), "null" if self.state == INIT else None, {})

    @rule()
    def hold(self) -> None:
        want = 0 if self.state == ONLINE else errno.EINVAL
        assert error_of(self.store.hold, 5) == want
        self.users += want == 0

    @rule()
    def release(self) -> None:
        self.store.release(5)
        self.users = max(0, self.users - 1)

    @invariant()
    def agrees(self) -> None:
        p = self.store.query(5)
        assert (p["state"], p["algorithm"], p["users"]) == (self.state, self.algorithm, self.users)
        assert (p["config"] is None) == (self.config is None)
        if self.config is not None:
            assert p["config"]["gamma"] == self.config.get("gamma", 0)
        blank = self.state == INIT and self.algorithm is None and self.config is None
        assert self.store.ids() == ([] if blank else [5])


TestProfileMachine = ProfileMachine.TestCase
TestProfileMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_config_comes_back_as_it_was_given() -> None:
    store = _core.CcProfileStore()
    given = {
        "disable_qa": True,
        "adjust_bytes_threshold": 1,
        "adjust_period_threshold_ns": 2,
        "base_rtt_ns": 3,
        "qa_threshold_ns": 4,
        "target_delay_ns": 5,
        "eta": 6.5,
        "fi": 7.5,
        "fi_scale": 0.25,
        "gamma": 0.5,
        "max_md_jump": 0.75,
        "max_cwnd": 8,
        "qa_gate": 9,
        "min_base_rtt_ns": 10,
        "clear_delay_fraction": 0.125,
        "avg_weight": 0.0625,
    }
    store.modify(1, {"algorithm": "uet-1.0-nscc", "config": given})
    assert store.query(1)["config"] == given


def test_an_online_profile_without_the_capability_is_fixed() -> None:
    store = _core.CcProfileStore(modify_online=False)
    store.modify(1, {"state": OFFLINE, "algorithm": "null"})
    store.modify(1, {"state": ONLINE, "config": {}})
    with pytest.raises(OSError, match="refused") as refused:
        store.modify(1, {"config": {"gamma": 0.5}})
    assert refused.value.errno == errno.EINVAL


def test_unknown_members_and_states_are_refused() -> None:
    store = _core.CcProfileStore(max_profiles=1)
    with pytest.raises(ValueError, match="unknown member"):
        store.modify(1, {"algo": "null"})
    assert error_of(store.modify, 1, {"state": 3}) == errno.EINVAL
    store.modify(1, {"algorithm": "null"})
    assert error_of(store.modify, 2, {"algorithm": "null"}) == errno.EINVAL
