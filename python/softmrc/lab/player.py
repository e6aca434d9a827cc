"""Carries out a script's actions at their times and keeps a log of what was done when."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from softmrc.errors import MrcError
from softmrc.lab.faults import fail, heal

if TYPE_CHECKING:
    from softmrc.lab.lab import Lab
    from softmrc.lab.script import Action

__all__ = ["Play"]


class Play(threading.Thread):
    """A running script.

    Attributes:
        start_ns: CLOCK_MONOTONIC of time 0.
        log: an entry an action: what `Action.to_json` gives, when it was due (`due_ns`), begun and done (`begun_ns`,
            `done_ns`; all CLOCK_MONOTONIC), the number of the fault, and the error if there was one.
    """

    def __init__(self, lab: Lab, actions: Sequence[Action], start_ns: int | None = None) -> None:
        """Plan; `start` begins.

        Args:
            lab: where.
            actions: in order of time.
            start_ns: CLOCK_MONOTONIC of time 0; None: when the thread starts.
        """
        super().__init__(name="script", daemon=True)
        self.start_ns = start_ns or 0
        self.log: list[dict[str, Any]] = []
        self._lab, self._actions = lab, list(actions)
        self._faults: dict[int, int] = {}
        self._halt = threading.Event()

    def start(self) -> None:
        """Begin."""
        self.start_ns = self.start_ns or time.monotonic_ns()
        super().start()

    def run(self) -> None:
        """Do one action after the other."""
        for action in self._actions:
            due = self.start_ns + round(action.at * 1e9)
            if not self._sleep_until(due):
                return
            self.log.append(self._do(action, due))

    def _sleep_until(self, due_ns: int) -> bool:
        while (left := (due_ns - time.monotonic_ns()) / 1e9) > 0:
            if self._halt.wait(left):
                return False
        return not self._halt.is_set()

    def _do(self, action: Action, due: int) -> dict[str, Any]:
        entry = {**action.to_json(), "due_ns": due, "begun_ns": time.monotonic_ns()}
        try:
            if action.harm is not None:
                fault = fail(self._lab, action.target, **_words(action), flap=action.flap)
                self._faults[action.key] = fault.number
                entry["fault"] = fault.number
            elif action.key:
                number = self._faults.pop(action.key, None)
                entry["fault"] = number
                if number is not None:
                    heal(self._lab, number)
            else:
                heal(self._lab, action.target)
        except MrcError as error:
            entry["error"] = str(error)
        entry["done_ns"] = time.monotonic_ns()
        return entry

    @property
    def errors(self) -> list[str]:
        """What went wrong with single actions."""
        return [
            f"{entry['target']} at {entry['at']:g} s: {entry['error']}"
            for entry in self.log
            if "error" in entry
        ]

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the last action is done; returns whether it is."""
        self.join(timeout)
        return not self.is_alive()

    def stop(self) -> None:
        """Do nothing more, and heal what this script has broken. Idempotent."""
        self._halt.set()
        self.join()
        for number in self._faults.values():
            heal(self._lab, number)
        self._faults.clear()


def _words(action: Action) -> dict[str, Any]:
    return {} if action.harm is None else action.harm.to_json()
