"""Collectives that only move bytes, each pair of ranks directly: all_gather, gather, scatter, all_to_all."""

from __future__ import annotations

from collections.abc import Sequence

from softmrc.collectives.pieces import Piece, cut
from softmrc.collectives.plan import Plan
from softmrc.collectives.program import Place

__all__ = ["direct_all_gather", "direct_all_to_all", "direct_gather", "direct_scatter"]


def _send(
    plan: Plan, peer: int, src: Place, dst: Place, nbytes: int, deps: tuple[int, ...] = ()
) -> list[int]:
    eager = plan.is_eager(nbytes)
    return [
        plan.steps.send(peer, src.at(part.off), dst.at(part.off), part.len, deps, eager=eager)
        for part in cut(Piece(0, nbytes), plan.whole(nbytes), plan.dtype.size)
    ]


def _recv(plan: Plan, peer: int, dst: Place, nbytes: int, deps: tuple[int, ...] = ()) -> list[int]:
    eager = plan.is_eager(nbytes)
    return [
        plan.steps.recv(peer, dst.at(part.off), part.len, deps, eager=eager)
        for part in cut(Piece(0, nbytes), plan.whole(nbytes), plan.dtype.size)
    ]


def direct_all_gather(plan: Plan, pieces: Sequence[Piece]) -> None:
    """all_gather: everyone sends its piece to everyone's output."""
    mine = pieces[plan.rank]
    there = plan.output.at(mine.off)
    for peer in plan.others:
        _send(plan, peer, plan.input, there, mine.len)
    plan.copied(plan.input, there, mine)
    for peer in plan.others:
        _recv(plan, peer, plan.output.at(pieces[peer].off), pieces[peer].len)


def direct_gather(plan: Plan, pieces: Sequence[Piece], root: int) -> None:
    """Gather: everyone sends its piece to the root's output."""
    mine = pieces[plan.rank]
    if plan.rank != root:
        _send(plan, root, plan.input, plan.output.at(mine.off), mine.len)
        return
    plan.copied(plan.input, plan.output.at(mine.off), mine)
    for peer in plan.others:
        _recv(plan, peer, plan.output.at(pieces[peer].off), pieces[peer].len)


def direct_scatter(plan: Plan, pieces: Sequence[Piece], root: int) -> None:
    """Scatter: the root sends each rank its piece of the input."""
    mine = pieces[plan.rank]
    if plan.rank != root:
        _recv(plan, root, plan.output, mine.len)
        return
    for peer in plan.others:
        _send(plan, peer, plan.input.at(pieces[peer].off), plan.output, pieces[peer].len)
    plan.copied(plan.input.at(mine.off), plan.output, mine)


def direct_all_to_all(
    plan: Plan, outgoing: Sequence[Piece], incoming: Sequence[Piece], there: Sequence[int]
) -> None:
    """all_to_all, equal or not: piece i of the input goes to rank i. Input and output share no memory.

    A pair that has nothing to send tells each other so, or one could wait for what the other never meant to send.

    Args:
        plan: where the steps go.
        outgoing: by rank, pieces of the input.
        incoming: by rank, pieces of the output.
        there: by rank, where ours goes in that rank's output, from the address it announces to us.
    """
    rank = plan.rank
    for peer in plan.others:
        _send(plan, peer, plan.input.at(outgoing[peer].off), plan.output.at(there[peer]), outgoing[peer].len)
        if not outgoing[peer].len:
            plan.steps.signal(peer)
    if outgoing[rank].len:
        plan.steps.copy(
            plan.input.at(outgoing[rank].off), plan.output.at(incoming[rank].off), outgoing[rank].len
        )
    for peer in reversed(plan.others):
        _recv(plan, peer, plan.output.at(incoming[peer].off), incoming[peer].len)
        if not incoming[peer].len:
            plan.steps.await_signal(peer)
