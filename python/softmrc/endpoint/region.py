"""Registered memory of this end, and windows into the memory of the other."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

from softmrc.device import end_block
from softmrc.errors import UsageError
from softmrc.verbs import MR

__all__ = ["Exposed", "Region", "RemoteWindow"]


@dataclass(frozen=True)
class RemoteWindow:
    """Memory a peer lets us write to. Picklable; `to_json` and `from_json` carry it over any channel."""

    addr: int
    """First address, as the peer counts."""
    rkey: int
    """Key that opens it."""
    length: int
    """Bytes."""

    def to_json(self) -> dict[str, int]:
        """Return the window as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> RemoteWindow:
        """Read what `to_json` made.

        Raises:
            UsageError: a member is missing or out of range.
        """
        if not isinstance(data, Mapping):
            raise UsageError("a window is an object with addr, rkey and length")
        limits = {"addr": 1 << 64, "rkey": 1 << 32, "length": 1 << 63}
        for name, limit in limits.items():
            value = data.get(name)
            if type(value) is not int or not 0 <= value < limit:
                raise UsageError(f"window: {name} must be an integer from 0 to {limit - 1}")
        return cls(addr=data["addr"], rkey=data["rkey"], length=data["length"])


class Region:
    """Memory registered with an endpoint; the buffer is kept alive until `release`.

    A region that nobody refers to any more is released by itself, after the last transfer that reads it.
    """

    def __init__(self, mr: MR, writable: bool) -> None:
        """Wrap a memory region; use `Endpoint.register` or `Connection.register` to get one."""
        self._mr = mr
        self._writable = writable

    @property
    def length(self) -> int:
        """Bytes."""
        return int(self._mr.length)

    @property
    def writable(self) -> bool:
        """True when peers that know the descriptor may write to it."""
        return self._writable

    @property
    def released(self) -> bool:
        """True after `release`, and after the endpoint was closed."""
        return self._mr.closed

    @property
    def descriptor(self) -> RemoteWindow:
        """What a peer needs to write here.

        Raises:
            UsageError: registered with `writable=False`.
        """
        if not self._writable:
            raise UsageError("the region was registered with writable=False: no peer can write to it")
        return RemoteWindow(addr=self._mr.iova, rkey=self._mr.rkey, length=self._mr.length)

    def release(self) -> None:
        """End the registration and let the buffer go. Idempotent.

        Raises:
            VerbsError: EBUSY while a transfer reads it.
        """
        self._mr.close()

    def __enter__(self) -> Region:
        """Enter: nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Release; an error that leaves the block stays the one that is seen."""
        end_block(self.release, error)


class Exposed:
    """Memory shown to peers, registered for them when the caller gave a buffer and not a region.

    Such a registration lasts as long as somebody holds it: the listener, and each of its connections.
    """

    def __init__(self, region: Region | None, owned: bool) -> None:
        """Start with one holder."""
        self.region = region
        self._owned = owned
        self._holders = 1
        self._lock = threading.Lock()

    def hold(self) -> Exposed:
        """Add a holder."""
        with self._lock:
            self._holders += 1
        return self

    def release(self) -> None:
        """Remove a holder; the last one ends the registration."""
        with self._lock:
            self._holders -= 1
            last = self._holders == 0
        if last and self._owned and self.region is not None:
            self.region.release()
