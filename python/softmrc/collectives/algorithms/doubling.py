"""Small reductions among many ranks: recursive doubling and binomial trees, about log2(n) rounds through the slots.

Ranks beyond the largest power of two hand theirs to a partner first and get the result back from it.
"""

from __future__ import annotations

from softmrc.collectives.dtypes import Op
from softmrc.collectives.pieces import Piece
from softmrc.collectives.plan import Plan

__all__ = ["doubling_all_reduce", "tree_reduce"]


def doubling_all_reduce(plan: Plan, part: Piece) -> None:
    """all_reduce of a part of at most `EAGER_MAX` bytes in log2(n) rounds."""
    nbytes = part.len
    steps, rank = plan.steps, plan.rank
    core = 1 << (plan.ranks.bit_length() - 1)
    extra = plan.ranks - core
    acc = plan.output.at(part.off)
    own, ready = plan.premultiplied(plan.input.at(part.off), acc, nbytes)
    if not plan.in_place and own != acc:
        ready = (steps.copy(own, acc, nbytes),)
    if rank >= core:
        sent = steps.send(rank - core, acc, acc, nbytes, ready, eager=True)
        steps.recv(rank - core, acc, nbytes, (sent,), eager=True)
        return
    if rank < extra:
        ready = (steps.recv(rank + core, acc, nbytes, ready, eager=True, reduce=True),)
    distance = 1
    while distance < core:
        peer = rank ^ distance
        sent = steps.send(peer, acc, acc, nbytes, ready, eager=True)
        ready = (steps.recv(peer, acc, nbytes, (sent,), eager=True, reduce=True),)
        distance *= 2
    ready = plan.averaged(acc, nbytes, ready)
    if rank < extra:
        steps.send(rank + core, acc, acc, nbytes, ready, eager=True)


def tree_reduce(plan: Plan, part: Piece, root: int) -> None:
    """Reduce of a part of at most `EAGER_MAX` bytes up a binomial tree whose root is rank `root`."""
    steps, ranks, nbytes = plan.steps, plan.ranks, part.len
    here, there = plan.input.at(part.off), plan.output.at(part.off)
    relative = (plan.rank - root) % ranks
    lowest = relative & -relative if relative else 1 << (ranks - 1).bit_length()
    children = [relative + bit for bit in _bits_below(lowest) if relative + bit < ranks]
    at_root = relative == 0
    acc = there if at_root else here
    if not at_root and (children or plan.op is Op.PREMUL_SUM):
        acc = steps.scratch(nbytes)
    own, ready = plan.premultiplied(here, acc, nbytes)
    if own != acc and not (at_root and plan.in_place):
        ready = (steps.copy(own, acc, nbytes),)
    for child in children:
        ready = (steps.recv((child + root) % ranks, acc, nbytes, ready, eager=True, reduce=True),)
    if at_root:
        plan.averaged(acc, nbytes, ready)
    else:
        steps.send((relative - lowest + root) % ranks, acc, there, nbytes, ready, eager=True)


def _bits_below(limit: int) -> list[int]:
    bits = []
    bit = 1
    while bit < limit:
        bits.append(bit)
        bit *= 2
    return bits
