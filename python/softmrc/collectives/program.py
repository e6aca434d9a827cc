"""A collective as a list of steps for one rank: what the runner in the core executes.

Decides how steps are written down; leaves which steps to the algorithms and their execution to the core. All
offsets and lengths are bytes. A buffer is `INPUT`, `OUTPUT` (which may be the same memory) or `SCRATCH`, which is
the runner's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import NamedTuple

__all__ = [
    "EAGER_MAX",
    "INPUT",
    "MESSAGE_MAX",
    "OUTPUT",
    "SCRATCH",
    "Flag",
    "Kind",
    "Place",
    "Program",
    "Step",
    "Steps",
]

INPUT = 0
OUTPUT = 1
SCRATCH = 2

EAGER_MAX = 16384
"""Bytes of the largest message that goes through the slots of a lane."""

MESSAGE_MAX = 1 << 30
"""Bytes of the largest message; longer ones are cut."""


class Kind(IntEnum):
    """What a step does."""

    SEND = 0
    """Write into a buffer of the same job at the peer, then tell it."""
    RECV = 1
    """Done when the next message from the peer is there."""
    REDUCE = 2
    """dst = op(dst, src)."""
    COPY = 3
    """dst = src."""
    SCALE = 4
    """dst = src / ranks, or with `Flag.PREMUL` dst = src * factor of the job."""


class Flag(IntFlag):
    """How a step does it."""

    EAGER = 1
    """Through the slots of the lane: at most `EAGER_MAX` bytes, no announcement needed."""
    REDUCE = 2
    """RECV: combined into dst; of an eager one from its slot, of others from src, where they land over a network."""
    PREMUL = 4
    """SCALE: by the factor of the job."""


class Place(NamedTuple):
    """Where bytes lie."""

    buf: int
    off: int

    def at(self, more: int) -> Place:
        """The place that many bytes further on."""
        return Place(self.buf, self.off + more)


class Step(NamedTuple):
    """One step; the order of the fields is that of the core."""

    kind: int
    peer: int
    src_buf: int
    src_off: int
    dst_buf: int
    dst_off: int
    nbytes: int
    flags: int
    deps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """What one rank does in one collective."""

    dtype: int
    """Code of the element type."""

    op: int
    """Operation of REDUCE steps; AVG and PREMUL_SUM are SUM and SCALE steps."""

    ranks: int
    """Number of ranks of the group."""

    scratch_bytes: int
    """Scratch memory it needs."""

    steps: tuple[Step, ...]
    """In an order in which each step depends on earlier ones only."""

    prints: tuple[int, ...]
    """What each rank must find that this one called, by rank: differing calls are noticed by it."""

    bases: tuple[int, ...] = ()
    """By rank, where in the output that rank's messages count from; empty: from its start."""


class Steps:
    """Writes the steps of a program; each method returns the index that later steps name in `deps`."""

    def __init__(self) -> None:
        """Start with none."""
        self.list: list[Step] = []
        self.scratch_bytes = 0

    def scratch(self, nbytes: int) -> Place:
        """A fresh piece of scratch memory, aligned to 64 bytes."""
        place = Place(SCRATCH, self.scratch_bytes)
        self.scratch_bytes += (nbytes + 63) & ~63
        return place

    def send(
        self, peer: int, src: Place, dst: Place, nbytes: int, deps: Iterable[int] = (), *, eager: bool
    ) -> int:
        """Send bytes from here to a place at the peer (unused when eager)."""
        return self._add(Kind.SEND, peer, src, dst, nbytes, Flag.EAGER if eager else 0, deps)

    def recv(
        self,
        peer: int,
        dst: Place,
        nbytes: int,
        deps: Iterable[int] = (),
        *,
        eager: bool,
        reduce: bool = False,
    ) -> int:
        """Wait for the next message from the peer; eager ones are copied or combined into dst."""
        flags = (Flag.EAGER if eager else 0) | (Flag.REDUCE if reduce else 0)
        return self._add(Kind.RECV, peer, dst, dst, nbytes, flags, deps)

    def combine(self, peer: int, landing: Place, dst: Place, nbytes: int, deps: Iterable[int] = ()) -> int:
        """Wait for the next message from the peer, which may land in scratch memory, and combine it into dst."""
        return self._add(Kind.RECV, peer, landing, dst, nbytes, Flag.REDUCE, deps)

    def signal(self, peer: int, deps: Iterable[int] = ()) -> int:
        """Send an empty message."""
        return self._add(Kind.SEND, peer, _NOWHERE, _NOWHERE, 0, Flag.EAGER, deps)

    def await_signal(self, peer: int, deps: Iterable[int] = ()) -> int:
        """Wait for an empty message."""
        return self._add(Kind.RECV, peer, _NOWHERE, _NOWHERE, 0, Flag.EAGER, deps)

    def reduce(self, src: Place, dst: Place, nbytes: int, deps: Iterable[int] = ()) -> int:
        """Combine into dst."""
        return self._add(Kind.REDUCE, 0, src, dst, nbytes, 0, deps)

    def copy(self, src: Place, dst: Place, nbytes: int, deps: Iterable[int] = ()) -> int:
        """Copy."""
        return self._add(Kind.COPY, 0, src, dst, nbytes, 0, deps)

    def scale(self, src: Place, dst: Place, nbytes: int, deps: Iterable[int] = (), *, premul: bool) -> int:
        """Multiply, by the factor of the job or by one over the number of ranks."""
        return self._add(Kind.SCALE, 0, src, dst, nbytes, Flag.PREMUL if premul else 0, deps)

    def _add(
        self, kind: int, peer: int, src: Place, dst: Place, nbytes: int, flags: int, deps: Iterable[int]
    ) -> int:
        self.list.append(Step(int(kind), peer, *src, *dst, nbytes, int(flags), tuple(deps)))
        return len(self.list) - 1


_NOWHERE = Place(SCRATCH, 0)
