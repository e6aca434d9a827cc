"""broadcast: flat or up a binomial tree when small; for more, in parts that the ranks hand on to each other."""

from __future__ import annotations

from softmrc.collectives.pieces import Piece, cut, split
from softmrc.collectives.plan import Plan

__all__ = ["flat_broadcast", "parts_broadcast", "tree_broadcast"]


def flat_broadcast(plan: Plan, nbytes: int, root: int) -> None:
    """The root sends everything to everyone: one round, or one message between two ranks."""
    eager = plan.is_eager(nbytes)
    for part in cut(Piece(0, nbytes), plan.whole(nbytes), plan.dtype.size):
        place = plan.output.at(part.off)
        if plan.rank != root:
            plan.steps.recv(root, place, part.len, eager=eager)
            continue
        for peer in plan.others:
            plan.steps.send(peer, plan.input.at(part.off), place, part.len, eager=eager)


def tree_broadcast(plan: Plan, nbytes: int, root: int) -> None:
    """Up to `eager_max` bytes down a binomial tree, log2(n) rounds."""
    steps, ranks = plan.steps, plan.ranks
    relative = (plan.rank - root) % ranks
    lowest = relative & -relative if relative else 1 << (ranks - 1).bit_length()
    for part in cut(Piece(0, nbytes), plan.whole(nbytes), plan.dtype.size):
        source = plan.input.at(part.off)
        ready: tuple[int, ...] = ()
        if relative:
            parent = (relative - lowest + root) % ranks
            source = plan.output.at(part.off)
            ready = (steps.recv(parent, source, part.len, eager=True),)
        bit = lowest >> 1
        while bit:
            if relative + bit < ranks:
                child = (relative + bit + root) % ranks
                steps.send(child, source, plan.output.at(part.off), part.len, ready, eager=True)
            bit >>= 1


def parts_broadcast(plan: Plan, nbytes: int, root: int) -> None:
    """The root sends each rank another part, which hands it on to the others: the root sends all bytes once."""
    steps, ranks = plan.steps, plan.ranks
    receivers = [(root + distance) % ranks for distance in range(1, ranks)]
    pieces = split(nbytes, ranks - 1, plan.dtype.size)
    size = plan.table.message(pieces[0].len)
    chunks = {
        peer: list(cut(piece, size, plan.dtype.size)) for peer, piece in zip(receivers, pieces, strict=True)
    }
    for index in range(max(len(parts) for parts in chunks.values())):
        turn = [(owner, parts[index]) for owner, parts in chunks.items() if index < len(parts)]
        for owner, part in turn:
            place = plan.output.at(part.off)
            if plan.rank == root:
                steps.send(owner, plan.input.at(part.off), place, part.len, eager=False)
            elif plan.rank == owner:
                came = steps.recv(root, place, part.len, eager=False)
                for peer in plan.others:
                    if peer != root:
                        steps.send(peer, place, place, part.len, (came,), eager=False)
            else:
                steps.recv(owner, place, part.len, eager=False)
