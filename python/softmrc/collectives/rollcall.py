"""Who has come to a barrier, and who has not: rank 0 of a group calls the roll, and all learn what it found."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field

from softmrc.collectives.groups import GroupState
from softmrc.collectives.peers import Peers

__all__ = ["RollCall"]

_CHANNEL = b"R"
_LATE = 0.05
"""Part of the timeout that the others wait longer than rank 0."""


@dataclass
class _Roll:
    here: dict[int, set[int]] = field(default_factory=dict)
    said: dict[int, list[int]] = field(default_factory=dict)
    mine: int = 0


class RollCall:
    """The roll calls of all groups of a rank."""

    def __init__(self, peers: Peers) -> None:
        """Begin to listen."""
        self._peers = peers
        self._rolls: dict[str, _Roll] = {}
        self._changed = threading.Condition()
        peers.on(_CHANNEL, self._on_message)

    def call(self, state: GroupState, timeout: float) -> list[int]:
        """Be there, and wait for the others.

        Args:
            state: the group.
            timeout: seconds.

        Returns:
            Ranks of the group that had not come to this call in time, in order: the same on all that had. [0] when
            rank 0 does not say.

        Raises:
            PeerError: the group is broken.
        """
        with self._changed:
            roll = self._rolls.setdefault(state.key, _Roll())
            roll.mine += 1
            number = roll.mine
        end = time.monotonic() + timeout
        if state.me == 0:
            return self._lead(state, roll, number, end)
        self._peers.tell([state.ranks[0]], _CHANNEL, _pack(state.key, number, None))
        with self._changed:
            while number not in roll.said and state.broken is None:
                left = end + timeout * _LATE - time.monotonic()
                if left <= 0:
                    return [0]
                self._changed.wait(min(left, 0.2))
            if (error := state.error()) is not None and number not in roll.said:
                raise error
            return roll.said.pop(number)

    def _lead(self, state: GroupState, roll: _Roll, number: int, end: float) -> list[int]:
        with self._changed:
            while True:
                here = roll.here.get(number, set())
                missing = [i for i, r in enumerate(state.ranks) if i != state.me and r not in here]
                left = end - time.monotonic()
                if not missing or left <= 0 or state.broken is not None:
                    break
                self._changed.wait(min(left, 0.2))
            roll.here.pop(number, None)
        self._peers.tell(state.others, _CHANNEL, _pack(state.key, number, missing))
        if missing and (error := state.error()) is not None:
            raise error
        return missing

    def _on_message(self, rank: int, data: bytes) -> None:
        try:
            key, number, missing = json.loads(data)
            with self._changed:
                roll = self._rolls.setdefault(str(key), _Roll())
                if missing is None:
                    roll.here.setdefault(int(number), set()).add(rank)
                else:
                    roll.said[int(number)] = [int(i) for i in missing]
                self._changed.notify_all()
        except (ValueError, TypeError):
            return


def _pack(key: str, number: int, missing: list[int] | None) -> bytes:
    return json.dumps([key, number, missing]).encode()
