"""all_reduce among hosts with as many ranks each: as few bytes as can be go from host to host.

A segment goes through four rounds. Each rank of a host owns a part of it and combines what the host's ranks have there;
the owners of that part, one on each host, own a share of it each, combine, and give one another the results; then the
ranks of a host do. So a host sends 2 (h-1)/h of the bytes (h hosts), however many ranks it has, and each of them an
equal share of that.

Combined in an order that ranks, sizes and placement fix. Several segments are under way, so that a host combines some
while others are on the wire: unreduced chunks land in a window of zones, and the result that an owner hands on says
that the zone there is free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from softmrc.collectives.pieces import Piece, cut, split
from softmrc.collectives.plan import Plan
from softmrc.collectives.program import Place

__all__ = ["hosts_all_reduce"]

_Deps = tuple[int, ...]


@dataclass(slots=True)
class _Circle:
    """Ranks that own a piece each of something they all have, this one among them."""

    plan: Plan
    ranks: Sequence[int]
    window: int
    """Segments under way."""
    longest: int
    """Bytes of the longest piece."""
    zones: Place = field(init=False)
    """Where the others' chunks of the own piece land: a window for each of them, alike on all ranks."""
    me: int = field(init=False)
    freed: dict[tuple[int, int], int] = field(default_factory=dict)
    """By member and segment: the step after which the zone there is free."""

    def __post_init__(self) -> None:
        self.me = self.ranks.index(self.plan.rank)
        self.zones = self.plan.steps.scratch((len(self.ranks) - 1) * self.window * self.longest)

    def give(self, index: int, source: Place, pieces: Sequence[Piece], ready: _Deps) -> None:
        """Send the other owners what this rank has of their pieces of segment `index`."""
        for member in self._others():
            piece = pieces[member]
            if not piece.len:
                continue
            before = self.freed.get((member, index - self.window))
            deps = ready if before is None else (*ready, before)
            there = self._zone(member, self.me, index)
            self.plan.steps.send(
                self.ranks[member], source.at(piece.off), there, piece.len, deps, eager=False
            )

    def combine(self, index: int, acc: Place, pieces: Sequence[Piece], ready: _Deps) -> _Deps:
        """Combine what the others have of the own piece of segment `index` into the buffer at `acc`."""
        piece = pieces[self.me]
        for member in self._others() if piece.len else ():
            here = self._zone(self.me, member, index)
            ready = (self.plan.steps.combine(self.ranks[member], here, acc.at(piece.off), piece.len, ready),)
        return ready

    def share(self, index: int, pieces: Sequence[Piece], ready: _Deps) -> _Deps:
        """Hand the result of the own piece on, and take the others'; returns the steps after which all is there."""
        plan, mine = self.plan, pieces[self.me]
        for member in self._others() if mine.len else ():
            place = plan.output.at(mine.off)
            plan.steps.send(self.ranks[member], place, place, mine.len, ready, eager=False)
        came = []
        for member in self._others():
            piece = pieces[member]
            if piece.len:
                place = plan.output.at(piece.off)
                came.append(plan.steps.recv(self.ranks[member], place, piece.len, eager=False))
                self.freed[member, index] = came[-1]
        return (*ready, *came)

    def _others(self) -> list[int]:
        """The other members, the next one first."""
        return [(self.me + distance) % len(self.ranks) for distance in range(1, len(self.ranks))]

    def _zone(self, owner: int, sender: int, index: int) -> Place:
        number = (sender - owner - 1) % len(self.ranks)
        return self.zones.at((number * self.window + index % self.window) * self.longest)


class _Hosts:
    """One rank's steps."""

    def __init__(self, plan: Plan, nbytes: int) -> None:
        """Cut, and take landing zones first: they lie alike on all ranks."""
        self.plan = plan
        placement = plan.placement
        near = placement.members(placement.hosts[plan.rank])
        seat = near.index(plan.rank)
        far = [placement.members(host)[seat] for host in range(placement.count)]
        size = plan.table.message(nbytes // len(near)) * len(near)
        self.parts = [
            _split(segment, len(near), plan) for segment in cut(Piece(0, nbytes), size, plan.dtype.size)
        ]
        shares = [[_split(part, len(far), plan) for part in parts] for parts in self.parts]
        self.shares = [by_part[seat] for by_part in shares]
        self.window = min(2 * plan.table.window, len(self.parts))
        self.near = _Circle(plan, near, self.window, _longest(self.parts))
        self.far = _Circle(plan, far, self.window, max(_longest(by_part) for by_part in shares))
        self.own, self.own_ready = plan.premultiplied(plan.input, plan.output, nbytes)
        self.moves = not plan.in_place and self.own != plan.output
        self.sums: list[_Deps] = []  # by segment: after which the own part of this host's sum is there
        self.results: list[_Deps] = []  # by segment: after which the own share of the result is

    def run(self) -> None:
        """Write the steps: each segment's second round before the one before it ends."""
        count = len(self.parts)
        for index in range(self.window):
            self._combine_here(index)
        for index in range(count + 1):
            if index < count:
                self._combine_across(index)
            if index > 0:
                self._hand_on(index - 1)
                if index - 1 + self.window < count:
                    self._combine_here(index - 1 + self.window)

    def _combine_here(self, index: int) -> None:
        parts, ready = self.parts[index], self.own_ready
        self.near.give(index, self.own, parts, ready)
        mine = parts[self.near.me]
        if self.moves and mine.len:
            ready = (
                self.plan.steps.copy(self.own.at(mine.off), self.plan.output.at(mine.off), mine.len, ready),
            )
        self.sums.append(self.near.combine(index, self.plan.output, parts, ready))

    def _combine_across(self, index: int) -> None:
        plan, shares, ready = self.plan, self.shares[index], self.sums[index]
        self.far.give(index, plan.output, shares, ready)
        mine = shares[self.far.me]
        ready = self.far.combine(index, plan.output, shares, ready)
        if mine.len:
            ready = plan.averaged(plan.output.at(mine.off), mine.len, ready)
        self.results.append(ready)

    def _hand_on(self, index: int) -> None:
        ready = self.far.share(index, self.shares[index], self.results[index])
        self.near.share(index, self.parts[index], ready)


def _split(piece: Piece, parts: int, plan: Plan) -> list[Piece]:
    return [Piece(piece.off + part.off, part.len) for part in split(piece.len, parts, plan.dtype.size)]


def _longest(pieces: Sequence[Sequence[Piece]]) -> int:
    return max(piece.len for some in pieces for piece in some)


def hosts_all_reduce(plan: Plan, nbytes: int) -> None:
    """all_reduce among the hosts of an even placement."""
    _Hosts(plan, nbytes).run()
