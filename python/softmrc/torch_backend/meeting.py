"""Ranks of one start of a job find each other in a store that may still hold what earlier starts left there.

torchrun restarts workers on the same store, with the same names. So every rank says hello with a number of its own,
rank 0 calls each number once, and a rank that is called answers: hellos of ranks that are no more are called in vain.
When all have answered rank 0 closes the meeting. Each rank asks the store a fixed number of things, besides waiting;
rank 0 a fixed number for each rank.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from softmrc.errors import PeerError

__all__ = ["Counting", "Guest", "Host", "meet"]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05
_PAUSE_A_RANK = 5e-5
# How much longer than rank 0 the others wait, so that they hear from it who is missing.
_LATE, _LATE_SECONDS = 0.05, 0.2
_HINT = "; was every rank started, with the same store and number of ranks?"
_ALL_HERE = b"all are here"
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
    longest = _LONGEST_PAUSE + _PAUSE_A_RANK * size
    if rank == 0:
        host = Host(store, prefix, size)
        if not _until(host.look, timeout, longest):
            raise PeerError(host.give_up(timeout))
        return host.close()
    guest = Guest(store, prefix, rank)
    met = _until(guest.look, timeout * (1 + _LATE) + _LATE_SECONDS, longest)
    if met is None:
        raise PeerError(f"rank 0 of {size} did not come within {timeout:g} s (it calls the roll){_HINT}")
    return met


class Guest:
    """Any rank but rank 0."""

    def __init__(self, store: Counting, prefix: str, rank: int) -> None:
        """Say hello."""
        self._store, self._prefix, self._rank = store, prefix, rank
        self._mine = os.urandom(8).hex()
        self._meeting = ""
        ticket = store.add(f"{prefix}/hellos", 1)
        store.set(f"{prefix}/hello/{ticket}", f"{rank} {self._mine}".encode())

    def look(self) -> str | None:
        """Answer when called; return the name of the meeting once all are there, None until then.

        Raises:
            PeerError: rank 0 has given up.
        """
        called = self._store.find(f"{self._prefix}/call/{self._mine}")
        if called is None:
            return None
        meeting = called.decode()
        if meeting != self._meeting:  # a rank 0 of an earlier start may have called, too
            self._meeting = meeting
            self._store.set(f"{self._prefix}/{meeting}/here/{self._rank}", b"1")
            self._store.add(f"{self._prefix}/{meeting}/here", 1)
        closed = self._store.find(f"{self._prefix}/{meeting}/closed")
        if closed is None:
            return None
        if closed != _ALL_HERE:
            raise PeerError(closed.decode())
        return meeting


class Host:
    """Rank 0."""

    def __init__(self, store: Counting, prefix: str, size: int) -> None:
        """Open a meeting."""
        self._store, self._prefix, self._size = store, prefix, size
        self._meeting = os.urandom(8).hex()
        taken = store.find(f"{prefix}/taken")  # by starts whose meeting was closed
        self._heard = int(taken) if taken else 0
        self._unwritten: list[int] = []

    def look(self) -> bool | None:
        """Call those who have said hello since; True once all have answered, None until then."""
        if self._size == 1:
            return True
        hellos = self._store.add(f"{self._prefix}/hellos", 0)
        tickets = [*self._unwritten, *range(self._heard + 1, hellos + 1)]
        self._heard = max(self._heard, hellos)
        self._unwritten = [ticket for ticket in tickets if not self._call(ticket)]
        return self._store.add(f"{self._prefix}/{self._meeting}/here", 0) >= self._size - 1 or None

    def _call(self, ticket: int) -> bool:
        hello = self._store.find(f"{self._prefix}/hello/{ticket}")
        if hello is None:  # counted, and not written yet
            return False
        self._store.set(f"{self._prefix}/call/{hello.decode().split()[1]}", self._meeting.encode())
        return True

    def close(self, error: str = "") -> str:
        """Let all go, with an error if there is one; return the name of the meeting."""
        taken = min([self._heard, *(ticket - 1 for ticket in self._unwritten)])
        self._store.set(f"{self._prefix}/taken", str(taken).encode())
        self._store.set(f"{self._prefix}/{self._meeting}/closed", error.encode() or _ALL_HERE)
        return self._meeting

    def give_up(self, timeout: float) -> str:
        """Tell all who has not come within `timeout` seconds, and return that."""
        here = f"{self._prefix}/{self._meeting}/here"
        missing = [rank for rank in range(1, self._size) if not self._store.find(f"{here}/{rank}")]
        named = ", ".join(map(str, missing[:16])) + (" …" if len(missing) > 16 else "")
        text = (
            f"rank{'s' * (len(missing) > 1)} {named} of {self._size} did not come within {timeout:g} s{_HINT}"
        )
        self.close(text)
        return text


def _until(ask: Callable[[], _T | None], timeout: float, longest: float) -> _T | None:
    """Ask again and again, ever less often; None after the timeout."""
    deadline = time.monotonic() + timeout
    pause = _FIRST_PAUSE
    while (answer := ask()) is None:
        if time.monotonic() > deadline:
            return None
        time.sleep(pause)
        pause = min(2 * pause, longest)
    return answer
