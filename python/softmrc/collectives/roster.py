"""Who takes part: ranks find each other over the store, once, when a mesh begins.

Rank 0 gathers what each rank puts there and publishes the whole, so that a store serves two values a rank and not
one for every pair. Decides what a rank that does not come is called on all the others.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from softmrc.collectives.choose import Card
from softmrc.collectives.store import Store
from softmrc.errors import PeerError, UsageError

__all__ = ["Door", "Roster"]

_LATE, _LATE_SECONDS = 0.05, 0.2
"""How much longer the others wait than rank 0, so that they hear from it who is missing: part of the timeout, and
seconds."""


@dataclass(frozen=True, kw_only=True)
class Door:
    """Where a rank is met."""

    name: str
    generation: str
    addresses: tuple[str, ...]
    port: int
    """TCP, for connections."""
    watch_port: int
    """TCP, for the connections that show whether a process lives."""


class Roster:
    """The two rounds of publishing."""

    def __init__(self, store: Store, prefix: str, rank: int, size: int, timeout: float) -> None:
        """Begin.

        Args:
            store: shared by all ranks.
            prefix: of all names; another one for every mesh of a store.
            rank: 0 to size - 1.
            size: number of ranks.
            timeout: seconds for all rounds together.
        """
        self._store, self._prefix, self._rank, self._size = store, prefix, rank, size
        self._timeout = timeout
        self._end = time.monotonic() + timeout
        self.token = b""
        """Shared by the ranks, and by nobody who cannot read the store."""

    def cards(self, mine: Card) -> list[Card]:
        """Publish one's card and return everybody's.

        Raises:
            PeerError: ranks did not come in time; the same text on all that did.
        """
        told = self._round("card", mine.to_json(), {"token": os.urandom(16).hex()})
        self.token = bytes.fromhex(str(told["token"]))
        return [Card.from_json(item) for item in told["all"]]

    def doors(self, mine: Door) -> list[Door]:
        """Publish where one is met and return where everybody is; errors as `cards`."""
        told = self._round("door", json.dumps(asdict(mine)).encode(), {})
        return [Door(**{**item, "addresses": tuple(item["addresses"])}) for item in told["all"]]

    def _round(self, what: str, mine: bytes, extra: dict[str, str]) -> dict[str, Any]:
        self._store.set(f"{self._prefix}/{what}/{self._rank}", mine)
        if self._rank == 0:
            self._gather(what, extra)
        told: dict[str, Any] = json.loads(self._heard(what))
        if "error" in told:
            raise PeerError(told["error"])
        if len(told["all"]) != self._size:
            raise UsageError(
                f"rank {self._rank} was told of {self._size} ranks, rank 0 of {len(told['all'])}: start all with "
                "one size"
            )
        return told

    def _heard(self, what: str) -> bytes:
        """Return what rank 0 publishes. If that came late, its patience ends later than ours, and it knows more."""
        key, late = f"{self._prefix}/{what}s", self._timeout * _LATE + _LATE_SECONDS
        try:
            return self._store.get(key, max(0.0, self._end - time.monotonic()) + late)
        except TimeoutError:
            pass
        try:
            self._store.get(f"{self._prefix}/{what}/0", 0.001)
            return self._store.get(key, self._timeout)
        except TimeoutError:
            raise PeerError(
                f"rank 0 of {self._size} did not come within {self._timeout:g} s (it publishes who is there); is it "
                "running, with the same store and number of ranks?"
            ) from None

    def _gather(self, what: str, extra: dict[str, str]) -> None:
        found, missing = [], []
        for rank in range(self._size):
            left = max(0.001, self._end - time.monotonic())
            try:
                found.append(json.loads(self._store.get(f"{self._prefix}/{what}/{rank}", left)))
            except TimeoutError:
                missing.append(rank)
        out: dict[str, object] = {"all": found, **extra}
        if missing:
            out = {"error": _missing(missing, self._size, self._timeout)}
        self._store.set(f"{self._prefix}/{what}s", json.dumps(out).encode())


def _missing(ranks: Sequence[int], size: int, timeout: float) -> str:
    who = ", ".join(map(str, ranks[:16])) + (" …" if len(ranks) > 16 else "")
    return (
        f"rank{'s' * (len(ranks) > 1)} {who} of {size} did not come within {timeout:g} s; the others are waiting: was "
        "every rank started, with the same store and number of ranks?"
    )
