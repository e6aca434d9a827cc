"""Reductions where each rank owns a piece: the others send theirs of it directly, the owner combines and hands on.

The bandwidth-optimal algorithm for few ranks: each rank sends and receives 2 (n-1)/n of the bytes of an all_reduce
in two rounds instead of the 2 (n-1) of a ring. Long pieces are cut into chunks, so that sending, combining and handing
on overlap. Unreduced chunks land in a window of slots a peer; the message that hands on chunk k (an empty one where
the owner keeps the result) also says that its slots are free for chunk k + window.

Combined from the owner on round the circle of ranks; pieces that go through slots in the order of the ranks, as in
`exchange`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from softmrc.collectives.algorithms.exchange import combine_eager
from softmrc.collectives.dtypes import Op
from softmrc.collectives.pieces import Piece, cut
from softmrc.collectives.plan import Plan
from softmrc.collectives.program import INPUT, OUTPUT, SCRATCH, Place

__all__ = ["Owners", "owners_all_reduce", "owners_reduce_scatter"]


@dataclass(slots=True)
class Owners:
    """One rank's part in the pipeline: made first, since where chunks land must be the same on all ranks, then run."""

    plan: Plan
    pieces: Sequence[Piece]
    """By owner: its piece, as bytes of everyone's unreduced elements."""

    acc: Place
    """Where this rank's piece becomes the result."""

    shares: bool
    """Everyone gets the results, in its output at the offsets of the pieces; else owners keep them."""

    own: Place = field(default=Place(INPUT, 0))
    """This rank's unreduced elements."""

    own_ready: tuple[int, ...] = ()
    """Steps after which they are there."""

    acc_is_own: bool = False
    """`acc` holds this rank's unreduced piece already."""

    chunks: list[list[Piece]] = field(init=False)
    size: int = field(init=False)
    eager: bool = field(init=False)
    window: int = field(init=False)
    combined: dict[int, tuple[Place, tuple[int, ...]]] = field(default_factory=dict)
    """By chunk of the own piece: where it is combined, and the steps after which it is."""
    credit: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plan = self.plan
        longest = max(piece.len for piece in self.pieces)
        self.eager = plan.is_eager(longest)
        self.size = plan.message(longest)
        self.chunks = [list(cut(piece, self.size, plan.dtype.size)) for piece in self.pieces]
        rounds = max(len(chunks) for chunks in self.chunks)
        self.window = rounds if self.eager else min(plan.table.window, rounds)
        if self.chunks[plan.rank] and not self.eager:  # The first scratch of all ranks: where chunks land.
            plan.steps.scratch(self.size * self.window * (plan.ranks - 1))

    def run(self) -> None:
        """Write the steps: first the window, then chunk by chunk."""
        rounds = max(len(chunks) for chunks in self.chunks)
        for index in range(self.window):
            self._send_and_expect(index)
        for index in range(rounds):
            self._finish(index)
            if not self.eager:
                self._take_results(index)
                self._send_and_expect(index + self.window)
        if self.eager:
            for index in range(rounds):
                self._take_results(index)

    def _send_and_expect(self, index: int) -> None:
        """Chunk `index` of every other owner's piece goes out, that of the own piece is expected."""
        plan, free = self.plan, index - self.window
        for peer in plan.others:
            if index < len(self.chunks[peer]):
                chunk = self.chunks[peer][index]
                deps = self.own_ready if free < 0 else (*self.own_ready, self.credit[peer, free])
                there = self._slot(peer, plan.rank, index)
                plan.steps.send(peer, self.own.at(chunk.off), there, chunk.len, deps, eager=self.eager)
        if not self.eager and index < len(self.chunks[plan.rank]):
            self._combine(index)

    def _slot(self, owner: int, sender: int, index: int) -> Place:
        """Where a sender's chunk lands in the scratch memory of an owner."""
        zone = (sender - owner - 1) % self.plan.ranks
        return Place(SCRATCH, (zone * self.window + index % self.window) * self.size)

    def _finish(self, index: int) -> None:
        """Combine chunk `index` of the own piece and hand it on."""
        plan, mine = self.plan, self.chunks[self.plan.rank]
        if index >= len(mine):
            return
        chunk = mine[index]
        if self.eager:
            acc, ready = self._accumulator(index, chunk)
            ready = combine_eager(plan, acc, chunk.len, ready)
        else:
            acc, ready = self.combined.pop(index)
        ready = plan.averaged(acc, chunk.len, ready)
        for peer in plan.others:
            if self.shares:
                plan.steps.send(peer, acc, Place(OUTPUT, chunk.off), chunk.len, ready, eager=self.eager)
            elif index + self.window < len(mine):
                plan.steps.signal(peer, ready)

    def _accumulator(self, index: int, chunk: Piece) -> tuple[Place, tuple[int, ...]]:
        """Where chunk `index` of the own piece is combined, with this rank's elements in it."""
        plan = self.plan
        acc = self.acc.at(chunk.off - self.pieces[plan.rank].off)
        if self.acc_is_own:
            return acc, self.own_ready
        return acc, (plan.steps.copy(self.own.at(chunk.off), acc, chunk.len, self.own_ready),)

    def _combine(self, index: int) -> None:
        """Expect what the others have of chunk `index` of the own piece, and combine it, the next rank's first."""
        plan, chunk = self.plan, self.chunks[self.plan.rank][index]
        acc, ready = self._accumulator(index, chunk)
        for peer in plan.others:
            ready = (plan.steps.combine(peer, self._slot(plan.rank, peer, index), acc, chunk.len, ready),)
        self.combined[index] = acc, ready

    def _take_results(self, index: int) -> None:
        """Expect chunk `index` of the others' results, or the word that their slots are free."""
        plan = self.plan
        for peer in plan.others:
            chunks = self.chunks[peer]
            if index >= len(chunks):
                continue
            if self.shares:
                place, length = Place(OUTPUT, chunks[index].off), chunks[index].len
                self.credit[peer, index] = plan.steps.recv(peer, place, length, eager=self.eager)
            elif index + self.window < len(chunks):
                self.credit[peer, index] = plan.steps.await_signal(peer)


def owners_all_reduce(plan: Plan, pieces: Sequence[Piece]) -> None:
    """all_reduce: every rank gets the result of every owner."""
    owners = Owners(plan, pieces, plan.output.at(pieces[plan.rank].off), shares=True)
    owners.own, owners.own_ready = plan.premultiplied(plan.input, plan.output, _total(pieces))
    owners.acc_is_own = plan.in_place or owners.own == plan.output
    owners.run()


def owners_reduce_scatter(plan: Plan, pieces: Sequence[Piece]) -> None:
    """reduce_scatter: owners keep their result, at the start of their output."""
    owners = Owners(plan, pieces, plan.output, shares=False)
    scaled = plan.steps.scratch(_total(pieces)) if plan.op is Op.PREMUL_SUM else plan.input
    owners.own, owners.own_ready = plan.premultiplied(plan.input, scaled, _total(pieces))
    owners.acc_is_own = plan.in_place and owners.own == plan.input
    owners.run()


def _total(pieces: Sequence[Piece]) -> int:
    return pieces[-1].off + pieces[-1].len
