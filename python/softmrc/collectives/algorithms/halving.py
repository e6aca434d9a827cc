"""all_reduce by halving and doubling, for a power of two of ranks: 2 log2(n) rounds, one peer in each.

In each round of the first half a rank keeps one half of its range, sends the other to its peer and combines what the
peer sends of the kept one; then the rounds run backwards, and ranges grow together again. As many bytes as a ring, in
fewer rounds, and each rank has one peer at a time. Chunks of a later round start as soon as those they are made of are
there. Combined pairwise, in an order that the ranks alone fix.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from softmrc.collectives.pieces import Piece, cut, split
from softmrc.collectives.plan import Plan
from softmrc.collectives.program import Place

__all__ = ["halving_all_reduce"]


@dataclass(slots=True)
class _Ready:
    """Which steps make which bytes of a buffer ready."""

    parts: list[tuple[int, int, tuple[int, ...]]] = field(default_factory=list)

    def note(self, piece: Piece, steps: tuple[int, ...]) -> None:
        """These bytes are ready after these steps."""
        self.parts.append((piece.off, piece.off + piece.len, steps))

    def of(self, piece: Piece) -> tuple[int, ...]:
        """The steps after which all these bytes are ready."""
        end = piece.off + piece.len
        found = {step for low, high, steps in self.parts if low < end and piece.off < high for step in steps}
        return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class _Round:
    peer: int
    kept: Piece
    given: Piece
    eager: bool
    size: int
    landing: Place


def halving_all_reduce(plan: Plan, nbytes: int) -> None:
    """all_reduce among a power of two of ranks, at least 2."""
    rounds = _rounds(plan, nbytes)
    own, ready = plan.premultiplied(plan.input, plan.output, nbytes)
    in_place = plan.in_place or own == plan.output
    there = _Ready()
    there.note(Piece(0, nbytes), ready)
    for number, each in enumerate(rounds):
        first = number == 0 and not in_place
        there = _halve(plan, each, own if first else plan.output, there, copies=first)
    kept = rounds[-1].kept
    if kept.len:
        done = plan.averaged(plan.output.at(kept.off), kept.len, there.of(kept))
        if done != there.of(kept):
            there = _Ready([(kept.off, kept.off + kept.len, done)])
    for each in reversed(rounds):
        _double(plan, each, there)


def _rounds(plan: Plan, nbytes: int) -> list[_Round]:
    rounds = []
    held = Piece(0, nbytes)
    distance = plan.ranks // 2
    while distance:
        low, high = (Piece(held.off + part.off, part.len) for part in split(held.len, 2, plan.dtype.size))
        upper = bool(plan.rank & distance)
        kept, given = (high, low) if upper else (low, high)
        longest = max(low.len, high.len)
        eager, size = plan.is_eager(longest), plan.message(longest)
        landing = plan.steps.scratch(0 if eager else size * plan.table.window)
        rounds.append(_Round(plan.rank ^ distance, kept, given, eager, size, landing))
        held = kept
        distance //= 2
    return rounds


def _halve(plan: Plan, each: _Round, source: Place, ready: _Ready, *, copies: bool) -> _Ready:
    """Give one half away, combine the other; returns what is ready of it.

    Args:
        plan: where the steps go.
        each: the round.
        source: this rank's elements so far, the whole buffer.
        ready: of them.
        copies: they are not in the output yet.
    """
    steps, peer, window = plan.steps, each.peer, plan.table.window
    given = list(cut(each.given, each.size, plan.dtype.size))
    kept = list(cut(each.kept, each.size, plan.dtype.size))
    made = _Ready()
    if each.eager:
        for chunk in given:
            steps.send(peer, source.at(chunk.off), plan.output, chunk.len, ready.of(chunk), eager=True)
        for chunk in kept:
            acc, deps = plan.output.at(chunk.off), ready.of(chunk)
            if copies:
                deps = (steps.copy(source.at(chunk.off), acc, chunk.len, deps),)
            made.note(chunk, (steps.recv(peer, acc, chunk.len, deps, eager=True, reduce=True),))
        return made
    arrived: dict[int, int] = {}
    credit: dict[int, int] = {}

    def send_and_expect(index: int) -> None:
        if index < len(given):
            chunk, free = given[index], index - window
            deps = ready.of(chunk) if free < 0 else (*ready.of(chunk), credit[free])
            slot = each.landing.at(index % window * each.size)
            steps.send(peer, source.at(chunk.off), slot, chunk.len, deps, eager=False)
        if index < len(kept):
            slot = each.landing.at(index % window * each.size)
            arrived[index] = steps.recv(peer, slot, kept[index].len, eager=False)

    for index in range(window):
        send_and_expect(index)
    for index in range(max(len(kept), len(given))):
        if index < len(kept):
            chunk = kept[index]
            acc, deps = plan.output.at(chunk.off), ready.of(chunk)
            if copies:
                deps = (steps.copy(source.at(chunk.off), acc, chunk.len, deps),)
            slot = each.landing.at(index % window * each.size)
            done = (steps.reduce(slot, acc, chunk.len, (*deps, arrived[index])),)
            made.note(chunk, done)
            if index + window < len(kept):
                steps.signal(peer, done)
        if index + window < len(given):
            credit[index] = steps.await_signal(peer)
        send_and_expect(index + window)
    return made


def _double(plan: Plan, each: _Round, ready: _Ready) -> None:
    """Give what is ready of the kept half, get the other; notes it in `ready`."""
    for chunk in cut(each.kept, each.size, plan.dtype.size):
        place = plan.output.at(chunk.off)
        plan.steps.send(each.peer, place, place, chunk.len, ready.of(chunk), eager=each.eager)
    for chunk in cut(each.given, each.size, plan.dtype.size):
        place = plan.output.at(chunk.off)
        ready.note(chunk, (plan.steps.recv(each.peer, place, chunk.len, eager=each.eager),))
