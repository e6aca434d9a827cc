"""Long reduces and broadcasts in chunks from rank to rank: each link carries all bytes once.

A reduce ends at the root, having begun behind it; a broadcast goes the other way round. Chunks that are being combined
land in a window of slots; an empty message back says that a slot is free.
"""

from __future__ import annotations

from softmrc.collectives.dtypes import Op
from softmrc.collectives.pieces import Piece, cut
from softmrc.collectives.plan import Plan
from softmrc.collectives.program import SCRATCH, Place

__all__ = ["chain_broadcast", "chain_reduce"]

_Deps = tuple[int, ...]


def chain_reduce(plan: Plan, nbytes: int, root: int) -> None:
    """Reduce of more than a few messages. The rank before the root (in a circle) begins."""
    steps, ranks, table = plan.steps, plan.ranks, plan.table
    circle = plan.placement.circle(root)
    place = circle.index(plan.rank)
    before, after = circle[(place + 1) % ranks], circle[place - 1]
    size = table.message(nbytes)
    chunks = list(cut(Piece(0, nbytes), size, plan.dtype.size))
    window = min(table.window, len(chunks))
    steps.scratch(size * window)  # Where chunks land, alike on all ranks.
    scaled = steps.scratch(size * window * (plan.op is Op.PREMUL_SUM))
    sent: dict[int, _Deps] = {}
    credit: dict[int, _Deps] = {}
    for index, chunk in enumerate(chunks):
        slot = Place(SCRATCH, index % window * size)
        own, ready = _own(plan, chunk, scaled.at(index % window * size), sent.get(index - window, ()))
        if place < ranks - 1:
            if place == 0:
                freed = _kept(plan, chunk, own, before, slot, ready)
            else:
                came = steps.recv(before, slot, chunk.len, eager=False)
                ready = (steps.reduce(own, slot, chunk.len, (came, *ready)),)
                own = slot
        if place:
            ready = (*ready, *credit.get(index - window, ()))
            freed = (steps.send(after, own, slot, chunk.len, ready, eager=False),)
            if index + window < len(chunks):
                credit[index] = (steps.await_signal(after),)
        sent[index] = freed
        if place < ranks - 1 and index + window < len(chunks):
            steps.signal(before, freed)


def _own(plan: Plan, chunk: Piece, scaled: Place, free: _Deps) -> tuple[Place, _Deps]:
    """This rank's elements, for PREMUL_SUM scaled in a slot that is free after some steps."""
    own = plan.input.at(chunk.off)
    if plan.op is not Op.PREMUL_SUM:
        return own, ()
    return scaled, (plan.steps.scale(own, scaled, chunk.len, free, premul=True),)


def _kept(plan: Plan, chunk: Piece, own: Place, before: int, slot: Place, ready: _Deps) -> _Deps:
    """The root combines what arrives with its own elements in the output."""
    acc = plan.output.at(chunk.off)
    if not plan.in_place or own != plan.input.at(chunk.off):
        ready = (plan.steps.copy(own, acc, chunk.len, ready),)
    done = (plan.steps.combine(before, slot, acc, chunk.len, ready),)
    return plan.averaged(acc, chunk.len, done)


def chain_broadcast(plan: Plan, nbytes: int, root: int) -> None:
    """Broadcast from rank to rank."""
    circle = plan.placement.circle(root)
    place = circle.index(plan.rank)
    right, left = circle[(place + 1) % plan.ranks], circle[place - 1]
    for part in cut(Piece(0, nbytes), plan.table.message(nbytes), plan.dtype.size):
        source = plan.input.at(part.off)
        ready: _Deps = ()
        if place:
            source = plan.output.at(part.off)
            ready = (plan.steps.recv(left, source, part.len, eager=False),)
        if place < plan.ranks - 1:
            plan.steps.send(right, source, plan.output.at(part.off), part.len, ready, eager=False)
