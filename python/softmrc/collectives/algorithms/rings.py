"""Rings for many ranks: reduce_scatter to the right neighbour, all_gather round it, and both as an all_reduce.

Each rank talks to two others only. A piece is combined in ring order, beginning with the rank behind its owner, and
ends at its owner; so the order depends on the piece alone. Partial sums land in a window of slots, are combined with
the own elements in place there, and go on from there; an empty message says that a slot is free. Chunks go round in
groups, with two groups of slots: more would wait for slots that only their own going on can free.
"""

from __future__ import annotations

from collections.abc import Sequence

from softmrc.collectives.dtypes import Op
from softmrc.collectives.pieces import Piece, cut
from softmrc.collectives.plan import Plan
from softmrc.collectives.program import OUTPUT, SCRATCH, Place

__all__ = ["ring_all_gather", "ring_all_reduce", "ring_reduce_scatter"]

_Ready = tuple[int, ...]
_Item = tuple[Piece, Place, _Ready, int]  # chunk, where it is, steps to wait for, number of its slot or -1


class _Scatter:
    """The reduce_scatter half; made before other scratch is taken, so that landings are alike on all ranks."""

    def __init__(self, plan: Plan, pieces: Sequence[Piece]) -> None:
        """Take the landing window."""
        longest = max(piece.len for piece in pieces)
        self.plan = plan
        self.eager = plan.is_eager(longest)
        self.size = plan.message(longest)
        self.pieces = pieces
        self.chunks = [list(cut(piece, self.size, plan.dtype.size)) for piece in pieces]
        self.group = plan.table.window
        self.window = 2 * self.group
        plan.steps.scratch(self.window * self.size)
        self.right, self.left = plan.around(1), plan.around(-1)
        total = sum(len(chunks) for chunks in self.chunks)
        self.outgoing = total - len(self.chunks[plan.rank])
        self.incoming = total - len(self.chunks[self.left])
        self.sent = 0
        self.arrived = 0
        self.freed: dict[int, _Ready] = {}

    def run(self, own: Place, own_ready: _Ready, acc: Place, acc_is_own: bool) -> list[_Ready]:
        """Write the steps.

        Args:
            own: this rank's unreduced elements, all pieces.
            own_ready: steps after which they are there.
            acc: where this rank's piece becomes the result.
            acc_is_own: `acc` holds this rank's unreduced piece already.

        Returns:
            By chunk of the own piece: the steps after which it is the result.
        """
        plan = self.plan
        done: list[_Ready] = []
        rounds = max(len(chunks) for chunks in self.chunks)
        for begin in range(0, rounds, self.group):
            part = slice(begin, begin + self.group)
            items: list[_Item] = [
                (chunk, own.at(chunk.off), own_ready, -1) for chunk in self.chunks[self.left][part]
            ]
            for distance in range(2, plan.ranks + 1):
                for item in items:
                    self._send(item)
                piece = plan.around(-distance)
                if piece == plan.rank:
                    start = acc.at(-self.pieces[piece].off)
                    done += [
                        self._keep(c, own, own_ready, start, acc_is_own) for c in self.chunks[piece][part]
                    ]
                else:
                    items = [self._combine(chunk, own, own_ready) for chunk in self.chunks[piece][part]]
        return done

    def _send(self, item: _Item) -> None:
        chunk, place, ready, number = item
        steps, index = self.plan.steps, self.sent
        self.sent += 1
        there = Place(SCRATCH, index % self.window * self.size)
        if index >= self.window and not self.eager:
            ready = (*ready, steps.await_signal(self.right))
        step = steps.send(self.right, place, there, chunk.len, ready, eager=self.eager)
        if number >= 0:
            self._free(number, (step,))

    def _free(self, number: int, ready: _Ready) -> None:
        """The slot of an incoming message may be written again after these steps."""
        self.freed[number] = ready
        if not self.eager and number + self.window < self.incoming:
            self.plan.steps.signal(self.left, ready)

    def _combine(self, chunk: Piece, own: Place, own_ready: _Ready) -> _Item:
        """A chunk of someone else's piece arrives and gets this rank's elements added."""
        steps, number = self.plan.steps, self.arrived
        self.arrived += 1
        slot, mine = Place(SCRATCH, number % self.window * self.size), own.at(chunk.off)
        if self.eager:
            free = self.freed.get(number - self.window, ())
            copied = steps.copy(mine, slot, chunk.len, (*own_ready, *free))
            ready = steps.recv(self.left, slot, chunk.len, (copied,), eager=True, reduce=True)
        else:
            came = steps.recv(self.left, slot, chunk.len, eager=False)
            ready = steps.reduce(mine, slot, chunk.len, (came, *own_ready))
        return chunk, slot, (ready,), number

    def _keep(self, chunk: Piece, own: Place, own_ready: _Ready, start: Place, is_own: bool) -> _Ready:
        """A chunk of the own piece arrives, with everyone else's elements in it."""
        plan, steps, number = self.plan, self.plan.steps, self.arrived
        self.arrived += 1
        acc, ready = start.at(chunk.off), own_ready
        if not is_own:
            ready = (steps.copy(own.at(chunk.off), acc, chunk.len, own_ready),)
        if self.eager:
            ready = (steps.recv(self.left, acc, chunk.len, ready, eager=True, reduce=True),)
        else:
            slot = Place(SCRATCH, number % self.window * self.size)
            ready = (steps.combine(self.left, slot, acc, chunk.len, ready),)
        self._free(number, ready)
        return plan.averaged(acc, chunk.len, ready)


def _gather(plan: Plan, pieces: Sequence[Piece], source: Place, ready: Sequence[_Ready]) -> None:
    """all_gather round the ring, into everyone's output at the offsets of the pieces.

    Args:
        plan: where the steps go.
        pieces: by rank.
        source: place of this rank's piece.
        ready: by chunk of this rank's piece: the steps after which it is there.
    """
    longest = max(piece.len for piece in pieces)
    eager, size = plan.is_eager(longest), plan.message(longest)
    right, left = plan.around(1), plan.around(-1)
    start = source.at(-pieces[plan.rank].off)
    items = [
        (chunk, start.at(chunk.off), deps)
        for chunk, deps in zip(cut(pieces[plan.rank], size, plan.dtype.size), ready, strict=True)
    ]
    for distance in range(1, plan.ranks):
        for chunk, place, deps in items:
            plan.steps.send(right, place, Place(OUTPUT, chunk.off), chunk.len, deps, eager=eager)
        items = []
        for chunk in cut(pieces[plan.around(-distance)], size, plan.dtype.size):
            place = Place(OUTPUT, chunk.off)
            items.append((chunk, place, (plan.steps.recv(left, place, chunk.len, eager=eager),)))


def ring_all_gather(plan: Plan, pieces: Sequence[Piece]) -> None:
    """all_gather: the input is this rank's piece."""
    mine = pieces[plan.rank]
    size = plan.message(max(piece.len for piece in pieces))
    plan.copied(plan.input, plan.output.at(mine.off), mine)
    _gather(plan, pieces, plan.input, [() for _ in cut(mine, size, plan.dtype.size)])


def ring_all_reduce(plan: Plan, pieces: Sequence[Piece]) -> None:
    """all_reduce: reduce_scatter, then all_gather of the results."""
    scatter = _Scatter(plan, pieces)
    own, ready = plan.premultiplied(plan.input, plan.output, _total(pieces))
    acc = plan.output.at(pieces[plan.rank].off)
    done = scatter.run(own, ready, acc, plan.in_place or own == plan.output)
    _gather(plan, pieces, acc, done)


def ring_reduce_scatter(plan: Plan, pieces: Sequence[Piece]) -> None:
    """reduce_scatter: the result stands at the start of the output."""
    scatter = _Scatter(plan, pieces)
    scaled = plan.steps.scratch(_total(pieces)) if plan.op is Op.PREMUL_SUM else plan.input
    own, ready = plan.premultiplied(plan.input, scaled, _total(pieces))
    scatter.run(own, ready, plan.output, plan.in_place and own == plan.input)


def _total(pieces: Sequence[Piece]) -> int:
    return pieces[-1].off + pieces[-1].len
