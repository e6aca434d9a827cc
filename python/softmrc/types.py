"""Plain types shared by the Python rooms. A leaf: imports nothing of the package."""

from __future__ import annotations

from enum import IntFlag
from typing import Protocol, TypeAlias, runtime_checkable

__all__ = ["Buffer", "DLPackBuffer", "EvState"]


@runtime_checkable
class DLPackBuffer(Protocol):
    """An array that hands its memory out by DLPack, for instance a CPU tensor."""

    def __dlpack__(self, *, stream: object = None) -> object:
        """Return the DLPack capsule."""

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return device type and number; only the CPU is accepted here."""


# Anything with the buffer protocol (bytes, bytearray, memoryview, array, mmap, numpy) or a DLPack CPU array.
# `collections.abc.Buffer` names this from Python 3.12 on; until then the checker cannot tell.
Buffer: TypeAlias = "bytes | bytearray | memoryview | DLPackBuffer | object"


class EvState(IntFlag):
    """States of an entropy value as the controller sees them (reference 12.1); SKIP shows as GOOD."""

    GOOD = 1
    ASSUMED_BAD = 2
    DENIED = 4
    UNKNOWN = 1 << 31
