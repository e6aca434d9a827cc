"""all_reduce by halving and doubling, for a power of two of ranks: 2 log2(n) rounds, one peer in each.

In each round of the first half a rank keeps one half of its range, sends the other to its peer and combines what the
peer sends of the kept one; then the rounds run backwards, and ranges grow together again. As many bytes as a ring, in
fewer rounds, and each rank has one peer at a time. Combined pairwise, in an order that the ranks alone fix.

Long buffers go in segments of two chunks, each with all its rounds, so that what was just combined is handed on while
it is in the cache. The second half of a segment comes after the first half of the next ones, as many as there are
landing zones, so that there is always something to do.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from softmrc.collectives.pieces import Piece, cut, split
from softmrc.collectives.plan import Plan
from softmrc.collectives.program import Place

__all__ = ["halving_all_reduce"]

_SLACK = 128
"""Bytes by which a half may be longer than the other, and halves of halves."""

_Deps = tuple[int, ...]


@dataclass(slots=True)
class _Ready:
    """Which steps make which bytes of a segment ready."""

    parts: list[tuple[Piece, _Deps]] = field(default_factory=list)

    def note(self, piece: Piece, steps: _Deps) -> None:
        """These bytes are ready after these steps."""
        self.parts.append((piece, steps))

    def of(self, piece: Piece) -> _Deps:
        """The steps after which all these bytes are ready."""
        found: set[int] = set()
        for part, steps in self.parts:
            if part.off < piece.off + piece.len and piece.off < part.off + part.len:
                found.update(steps)
        return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class _Round:
    peer: int
    kept: Piece
    given: Piece
    eager: bool
    landing: Place


class _Halving:
    """One rank's steps."""

    def __init__(self, plan: Plan, nbytes: int) -> None:
        """Take landing zones first: they lie alike on all ranks."""
        self.plan = plan
        self.size = plan.message(nbytes // 2)
        self.segments = list(cut(Piece(0, nbytes), 2 * self.size, plan.dtype.size))
        # By zone and round: room for the halves, quarters and so on of one segment.
        rounds = range(plan.ranks.bit_length() - 1)
        self.zones = [
            [plan.steps.scratch((self.size >> number) + _SLACK) for number in rounds]
            for _ in range(min(plan.table.window, len(self.segments)))
        ]
        self.freed: dict[tuple[int, int], _Deps] = {}
        self.source, self.ready = plan.premultiplied(plan.input, plan.output, nbytes)
        self.moves = not plan.in_place and self.source != plan.output

    def run(self) -> None:
        """Write the steps."""
        ahead = len(self.zones)
        halved = [self._halve(index) for index in range(ahead)]
        for index in range(len(self.segments)):
            self._double(index, *halved[index])
            if index + ahead < len(self.segments):
                halved.append(self._halve(index + ahead))

    def _rounds(self, index: int) -> list[_Round]:
        """The rounds of a segment."""
        plan, held = self.plan, self.segments[index]
        zone = self.zones[index % len(self.zones)]
        rounds: list[_Round] = []
        distance = plan.ranks // 2
        while distance:
            low, high = (Piece(held.off + part.off, part.len) for part in split(held.len, 2, plan.dtype.size))
            kept, given = (high, low) if plan.rank & distance else (low, high)
            longest = max(low.len, high.len)
            landing = zone[len(rounds)]
            rounds.append(_Round(plan.rank ^ distance, kept, given, plan.is_eager(longest), landing))
            held = kept
            distance //= 2
        return rounds

    def _halve(self, index: int) -> tuple[list[_Round], _Ready]:
        """The first half of the rounds of a segment; what is ready afterwards."""
        plan, rounds, source = self.plan, self._rounds(index), self.source
        ready = _Ready([(self.segments[index], self.ready)])
        for number, each in enumerate(rounds):
            moves = self.moves and number == 0
            # The zone is free once the peer has handed on the segment that landed there before.
            free = self.freed.get((index - len(self.zones), number), ())
            for part in self._cut(each.given, each.eager):
                there = each.landing.at(part.off - each.given.off)
                deps = (*ready.of(part), *(() if each.eager else free))
                plan.steps.send(each.peer, source.at(part.off), there, part.len, deps, eager=each.eager)
            made = _Ready()
            for part in self._cut(each.kept, each.eager):
                made.note(part, self._combine(each, part, source, ready.of(part), moves))
            ready, source = made, plan.output
        kept = rounds[-1].kept
        done = plan.averaged(plan.output.at(kept.off), kept.len, ready.of(kept)) if kept.len else ()
        return rounds, _Ready([(kept, done)])

    def _combine(self, each: _Round, part: Piece, source: Place, deps: _Deps, moves: bool) -> _Deps:
        """Part of the kept half arrives and is combined into the output."""
        steps, acc = self.plan.steps, self.plan.output.at(part.off)
        if moves:
            deps = (steps.copy(source.at(part.off), acc, part.len, deps),)
        if each.eager:
            return (steps.recv(each.peer, acc, part.len, deps, eager=True, reduce=True),)
        slot = each.landing.at(part.off - each.kept.off)
        return (steps.combine(each.peer, slot, acc, part.len, deps),)

    def _double(self, index: int, rounds: list[_Round], ready: _Ready) -> None:
        """The second half: give what is ready, get the rest."""
        plan = self.plan
        for number in reversed(range(len(rounds))):
            each = rounds[number]
            for part in self._cut(each.kept, each.eager):
                place = plan.output.at(part.off)
                plan.steps.send(each.peer, place, place, part.len, ready.of(part), eager=each.eager)
            came = []
            for part in self._cut(each.given, each.eager):
                place = plan.output.at(part.off)
                came.append(plan.steps.recv(each.peer, place, part.len, eager=each.eager))
                ready.note(part, (came[-1],))
            self.freed[index, number] = tuple(came)

    def _cut(self, piece: Piece, eager: bool) -> list[Piece]:
        return list(cut(piece, self.plan.message(0) if eager else self.size, self.plan.dtype.size))


def halving_all_reduce(plan: Plan, nbytes: int) -> None:
    """all_reduce among a power of two of ranks, at least 2."""
    _Halving(plan, nbytes).run()
