"""What is wrong with a link, and how several faults on one link add up.

Decides what a fault means for each direction. Leaves to ends.py (kernel) and the user-space switch how it is brought
about, to ledger.py which faults there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from softmrc.errors import UsageError

__all__ = ["DIRECTIONS", "Harm", "LineState", "LinkState", "compose"]

DIRECTIONS = ("both", "up", "down")
_LEAST = 1e-9


@dataclass(frozen=True)
class LineState:
    """One direction of a link.

    Attributes:
        loss: share of packets that vanish; 1: a silent black hole.
        corrupt: share of packets in which one random byte behind the IPv6 header is changed.
        rate: share of the link's rate that is left.
    """

    loss: float = 0.0
    corrupt: float = 0.0
    rate: float = 1.0

    @property
    def damaged(self) -> bool:
        """Whether packets on the line are lost or changed."""
        return self.loss > 0 or self.corrupt > 0


@dataclass(frozen=True)
class LinkState:
    """A link.

    Attributes:
        cut: sides ("a" lower, "b" upper end) that are set down; not empty: nothing passes, and both ends know.
        up: the direction from the lower to the upper end.
        down: the other one.
    """

    cut: frozenset[str] = frozenset()
    up: LineState = LineState()
    down: LineState = LineState()


@dataclass(frozen=True, kw_only=True)
class Harm:
    """What a fault does to each of its links. Nothing given: the link goes down.

    Attributes:
        silent: packets vanish, the link stays up and nobody is told.
        loss: share of packets that vanish, 0 to 1.
        corrupt: share of packets with one byte changed, 0 to 1.
        rate: share of the rate that is left, above 0, at most 1.
        direction: "up" (towards the upper end), "down" or "both". A link that goes down does so in both.
        end: which end is set down, "lower" or "upper"; None: the one at the switch that fails, else the upper.
    """

    silent: bool = False
    loss: float = 0.0
    corrupt: float = 0.0
    rate: float = 1.0
    direction: str = "both"
    end: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be.

        Raises:
            UsageError: names the value and what is allowed.
        """
        for name in ("loss", "corrupt"):
            if not (value := getattr(self, name)) == 0 and not _LEAST <= value <= 1:
                raise UsageError(f"{name} = {value:g}: a share of the packets, above 0, at most 1 (100 %)")
        if not 0 < self.rate <= 1:
            raise UsageError(f"rate = {self.rate:g}: a share of the link's rate, above 0, at most 1 (100 %)")
        if self.direction not in DIRECTIONS:
            raise UsageError(f"direction = {self.direction!r}: one of {', '.join(DIRECTIONS)}")
        if self.end not in (None, "lower", "upper"):
            raise UsageError(f"end = {self.end!r}: lower or upper")
        if self.end is not None and not self.cuts:
            raise UsageError(
                "end: only where a link goes down; with silent, loss, corrupt or rate both ends stay up"
            )
        if self.cuts and self.direction != "both":
            raise UsageError(
                f"a link goes down in both directions: direction = {self.direction!r} needs silent, loss, corrupt "
                "or rate"
            )

    @property
    def cuts(self) -> bool:
        """Whether links go down."""
        return not self.silent and not self.loss and not self.corrupt and self.rate == 1

    @property
    def line(self) -> LineState:
        """What it does to a direction it concerns."""
        return LineState(1.0 if self.silent else self.loss, self.corrupt, self.rate)

    def words(self) -> str:
        """Return it for people: "loss 5 % up"."""
        parts = ["down" if self.end is None else f"{self.end} end down"] if self.cuts else []
        parts += ["silent"] if self.silent else []
        parts += [f"{name} {getattr(self, name):.6g}" for name in ("loss", "corrupt") if getattr(self, name)]
        parts += [f"rate x {self.rate:.6g}"] if self.rate != 1 else []
        return ", ".join(parts) + ("" if self.direction == "both" else f", {self.direction} only")

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are not as usual."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}


def compose(harms: Iterable[tuple[Harm, str]]) -> LinkState:
    """Return what faults make of one link together, in whichever order they came.

    Args:
        harms: each with the side that it sets down if it cuts.
    """
    cut: set[str] = set()
    lines = {"up": LineState(), "down": LineState()}
    for harm, side in harms:
        if harm.cuts:
            cut.add(side)
            continue
        for direction, line in lines.items():
            if harm.direction in ("both", direction):
                lines[direction] = _together(line, harm.line)
    return LinkState(frozenset(cut), lines["up"], lines["down"])


def _together(one: LineState, two: LineState) -> LineState:
    """Losses and changes are independent of each other; of two rates the lower holds."""
    return LineState(
        1 - (1 - one.loss) * (1 - two.loss),
        1 - (1 - one.corrupt) * (1 - two.corrupt),
        min(one.rate, two.rate),
    )
