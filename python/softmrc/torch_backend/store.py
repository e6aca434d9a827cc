"""Torch's rendezvous store as the store of a mesh.

Decides how a value is waited for. Torch's clients serve one call at a time, so a blocking wait would lock out every
other thread of the rank: here it asks again instead.
"""

from __future__ import annotations

import time
from typing import Any

from softmrc.errors import PeerError

__all__ = ["TorchStore"]

_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.05
_PAUSE_A_RANK = 5e-5
"""So that a server is not asked more often by many ranks than by few."""


class TorchStore:
    """A `torch.distributed.Store` behind the protocol of `softmrc.collectives`."""

    def __init__(self, store: Any, ranks: int = 1) -> None:
        """Use `store`, which torch hands to every process group, together with so many ranks."""
        self._store = store
        self._longest = _LONGEST_PAUSE + _PAUSE_A_RANK * ranks

    def set(self, key: str, value: bytes) -> None:
        """Put a value there.

        Raises:
            PeerError: the store is gone, most often with the rank that serves it.
        """
        self._ask("set", key, value)

    def get(self, key: str, timeout: float) -> bytes:
        """Return the value under `key`, waiting for it for at most `timeout` seconds.

        Raises:
            TimeoutError: nobody has put it there in time.
            PeerError: the store is gone.
        """
        deadline = time.monotonic() + timeout
        pause = _FIRST_PAUSE
        while not self._ask("check", [key]):
            if time.monotonic() > deadline:
                raise TimeoutError(f"nothing under {key!r} in the process group's store after {timeout:g} s")
            time.sleep(pause)
            pause = min(2 * pause, self._longest)
        return bytes(self._ask("get", key))

    def find(self, key: str) -> bytes | None:
        """Return the value under `key` if there is one now."""
        return bytes(self._ask("get", key)) if self._ask("check", [key]) else None

    def add(self, key: str, amount: int) -> int:
        """Add to a counter, which begins at 0, and return it."""
        return int(self._ask("add", key, amount))

    def delete(self, key: str) -> None:
        """Take a value away; stores that cannot are left as they are."""
        try:
            self._store.delete_key(key)
        except (NotImplementedError, RuntimeError):
            return

    def _ask(self, what: str, *args: object) -> Any:
        try:
            return getattr(self._store, what)(*args)
        except RuntimeError as error:
            first = str(error).splitlines()[0]
            raise PeerError(
                f"the process group's store does not answer ({what}: {first}); "
                "it ends with the rank that serves it, usually rank 0"
            ) from error
