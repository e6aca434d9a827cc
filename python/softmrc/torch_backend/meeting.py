"""Ranks of one start of a job find each other in a store that may still hold what earlier starts left there.

torchrun restarts workers on the same store, with the same names. So every rank says hello with a number of its own,
rank 0 calls the roll with all these numbers and one for the meeting, and a rank that finds its own number in the roll
knows that it is of this start. Rank 0 calls again when a hello changes: the first one may have been an old one.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from softmrc.errors import PeerError

__all__ = ["Counting", "meet"]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05
# How much longer than rank 0 the others wait, so that they hear from it who is missing.
_LATE, _LATE_SECONDS = 0.05, 0.2
_HINT = "; was every rank started, with the same store and number of ranks?"
_T = TypeVar("_T")


class Counting(Protocol):
    """What the meeting needs of a store; `TorchStore` has it."""

    def set(self, key: str, value: bytes) -> None:
        """Put a value there."""

    def find(self, key: str) -> bytes | None:
        """Return a value, or None where there is none."""

    def add(self, key: str, amount: int) -> int:
        """Add to a counter and return it; 0 reads it."""


def meet(store: Counting, prefix: str, rank: int, size: int, timeout: float) -> str:
    """Wait for all ranks of this start and return a name for their meeting that no other has.

    Args:
        store: shared by all ranks.
        prefix: of all names used there.
        rank: 0 to size - 1.
        size: number of ranks.
        timeout: seconds to wait for the others.

    Raises:
        PeerError: ranks did not come; the text names them, the same on all ranks that did.
    """
    mine = os.urandom(8).hex()
    if rank == 0:
        return _call_roll(store, prefix, mine, size, timeout)
    store.set(f"{prefix}/hello/{rank}", mine.encode())
    store.add(f"{prefix}/hellos", 1)
    answered: set[str] = set()

    def closed() -> dict[str, Any] | None:
        roll = _json(store.find(f"{prefix}/roll"))
        if roll is None or roll["hellos"].get(str(rank)) != mine:
            return None
        meeting = roll["meeting"]
        if meeting not in answered:
            answered.add(meeting)
            store.set(f"{prefix}/{meeting}/here/{rank}", b"1")
            store.add(f"{prefix}/{meeting}/here", 1)
        return roll if roll["closed"] else None

    roll = _until(closed, timeout * (1 + _LATE) + _LATE_SECONDS)
    if roll is None:
        raise PeerError(f"rank 0 of {size} did not come within {timeout:g} s (it calls the roll){_HINT}")
    if roll["error"]:
        raise PeerError(roll["error"])
    return str(roll["meeting"])


def _call_roll(store: Counting, prefix: str, meeting: str, size: int, timeout: float) -> str:
    """Rank 0: call until all have answered, and tell them."""
    heard = -1

    def publish(closed: bool, error: str = "") -> None:
        found = {str(rank): store.find(f"{prefix}/hello/{rank}") for rank in range(1, size)}
        hellos = {rank: value.decode() for rank, value in found.items() if value}
        roll = {"meeting": meeting, "hellos": hellos, "closed": closed, "error": error}
        store.set(f"{prefix}/roll", json.dumps(roll).encode())

    def answered() -> bool | None:
        nonlocal heard
        hellos = store.add(f"{prefix}/hellos", 0)
        if hellos != heard:
            heard = hellos
            publish(closed=False)
        return store.add(f"{prefix}/{meeting}/here", 0) >= size - 1 or None

    if size == 1 or _until(answered, timeout):
        publish(closed=True)
        return meeting
    missing = [rank for rank in range(1, size) if not store.find(f"{prefix}/{meeting}/here/{rank}")]
    named = ", ".join(map(str, missing[:16])) + (" …" if len(missing) > 16 else "")
    text = f"rank{'s' * (len(missing) > 1)} {named} of {size} did not come within {timeout:g} s{_HINT}"
    publish(closed=True, error=text)
    raise PeerError(text)


def _json(value: bytes | None) -> dict[str, Any] | None:
    return json.loads(value) if value else None


def _until(ask: Callable[[], _T | None], timeout: float) -> _T | None:
    """Ask again and again, ever less often; None after the timeout."""
    deadline = time.monotonic() + timeout
    pause = _FIRST_PAUSE
    while (answer := ask()) is None:
        if time.monotonic() > deadline:
            return None
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    return answer
