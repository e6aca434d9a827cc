"""What an algorithm knows when it writes the steps of one rank."""

from __future__ import annotations

from dataclasses import dataclass, field

from softmrc.collectives.dtypes import DType, Op
from softmrc.collectives.pieces import Piece
from softmrc.collectives.placement import Placement
from softmrc.collectives.program import EAGER_MAX, INPUT, MESSAGE_MAX, OUTPUT, Place, Steps
from softmrc.collectives.tuning import Tuning

__all__ = ["Plan"]


@dataclass(slots=True)
class Plan:
    """One rank's side of one collective, while its steps are written."""

    rank: int
    ranks: int
    dtype: DType
    op: Op
    """What to compute: AVG and PREMUL_SUM still as such."""

    table: Tuning
    in_place: bool
    """This rank's input is its place in the output (all_reduce: the same memory)."""

    placement: Placement
    """Which ranks share a host."""

    steps: Steps = field(default_factory=Steps)
    circle: list[int] = field(init=False)
    place: int = field(init=False)
    """Of this rank in the circle."""

    def __post_init__(self) -> None:
        self.circle = self.placement.circle()
        self.place = self.circle.index(self.rank)

    @property
    def others(self) -> list[int]:
        """The other ranks, beginning with the next one, so that not all begin with the same."""
        return [(self.rank + distance) % self.ranks for distance in range(1, self.ranks)]

    @property
    def input(self) -> Place:
        """Begin of the input."""
        return Place(INPUT, 0)

    @property
    def output(self) -> Place:
        """Begin of the output."""
        return Place(OUTPUT, 0)

    def around(self, distance: int) -> int:
        """The rank that many places further round a circle of all ranks that goes from host to host once."""
        return self.circle[(self.place + distance) % self.ranks]

    def is_eager(self, nbytes: int) -> bool:
        """Whether pieces of this size go through slots."""
        return nbytes <= self.table.eager_max

    def message(self, nbytes: int) -> int:
        """Bytes of the messages of pieces that are reduced or handed on in parts."""
        return EAGER_MAX if self.is_eager(nbytes) else self.table.message(nbytes)

    def whole(self, nbytes: int) -> int:
        """Bytes of the messages of pieces that nobody waits for in parts."""
        return EAGER_MAX if self.is_eager(nbytes) else MESSAGE_MAX

    def premultiplied(self, src: Place, dst: Place, nbytes: int) -> tuple[Place, tuple[int, ...]]:
        """Where the elements to combine lie: `src`, or for PREMUL_SUM scaled ones in `dst`.

        Returns:
            The place, and the steps to wait for.
        """
        if self.op is not Op.PREMUL_SUM or not nbytes:
            return src, ()
        return dst, (self.steps.scale(src, dst, nbytes, premul=True),)

    def averaged(self, place: Place, nbytes: int, deps: tuple[int, ...]) -> tuple[int, ...]:
        """Divide a finished sum when the operation is AVG; returns the steps to wait for."""
        if self.op is not Op.AVG:
            return deps
        return (self.steps.scale(place, place, nbytes, deps, premul=False),)

    def copied(self, src: Place, dst: Place, piece: Piece, deps: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Copy a piece unless it is there already; returns the steps to wait for."""
        if self.in_place or not piece.len:
            return deps
        return (self.steps.copy(src, dst, piece.len, deps),)
