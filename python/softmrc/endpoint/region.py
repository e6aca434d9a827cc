"""Registered memory of this end, and windows into the memory of the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from softmrc.errors import UsageError

if TYPE_CHECKING:
    from softmrc.verbs import MR

__all__ = ["Region", "RemoteWindow"]


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
    """Memory registered with an endpoint; the buffer is kept alive until `release`."""

    def __init__(self, mr: MR, writable: bool) -> None:
        """Wrap a memory region; use `Endpoint.register` or `Connection.register` to get one."""
        raise NotImplementedError

    @property
    def length(self) -> int:
        """Bytes."""
        raise NotImplementedError

    @property
    def writable(self) -> bool:
        """True when peers that know the descriptor may write to it."""
        raise NotImplementedError

    @property
    def descriptor(self) -> RemoteWindow:
        """What a peer needs to write here.

        Raises:
            UsageError: registered with `writable=False`.
        """
        raise NotImplementedError

    def release(self) -> None:
        """End the registration and let the buffer go. Idempotent.

        Raises:
            VerbsError: EBUSY while a transfer reads it.
        """
        raise NotImplementedError
