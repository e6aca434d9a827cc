"""Small reductions in one round: everyone's elements go to everyone (or to the root) through the slots.

Combined in the order of the ranks: ((x0 + x1) + x2) + ...; the operations commute, so what a rank has of its own may
stand on either side.
"""

from __future__ import annotations

from softmrc.collectives.dtypes import Op
from softmrc.collectives.pieces import Piece
from softmrc.collectives.plan import Plan
from softmrc.collectives.program import Place

__all__ = ["combine_eager", "exchange_all_reduce", "exchange_reduce"]


def exchange_all_reduce(plan: Plan, part: Piece) -> None:
    """all_reduce of a part of at most `EAGER_MAX` bytes: one round, (n-1) messages a rank."""
    nbytes, there = part.len, plan.output.at(part.off)
    own, ready = plan.premultiplied(plan.input.at(part.off), there, nbytes)
    sent = [plan.steps.send(peer, own, there, nbytes, ready, eager=True) for peer in plan.others]
    is_own = plan.in_place or own == there
    ready = (*ready, *sent) if is_own else (plan.steps.copy(own, there, nbytes),)
    done = combine_eager(plan, there, nbytes, ready)
    plan.averaged(there, nbytes, done)


def exchange_reduce(plan: Plan, part: Piece, root: int) -> None:
    """Reduce of a part of at most `EAGER_MAX` bytes: one round, everyone to the root."""
    nbytes, here, there = part.len, plan.input.at(part.off), plan.output.at(part.off)
    if plan.rank != root:
        scaled = plan.steps.scratch(nbytes) if plan.op is Op.PREMUL_SUM else here
        own, ready = plan.premultiplied(here, scaled, nbytes)
        plan.steps.send(root, own, there, nbytes, ready, eager=True)
        return
    own, ready = plan.premultiplied(here, there, nbytes)
    if not plan.in_place and own != there:
        ready = (plan.steps.copy(own, there, nbytes),)
    done = combine_eager(plan, there, nbytes, ready)
    plan.averaged(there, nbytes, done)


def combine_eager(plan: Plan, acc: Place, nbytes: int, ready: tuple[int, ...]) -> tuple[int, ...]:
    """Combine the next eager message of every other rank with what `acc` holds of this one, in order of ranks.

    Args:
        plan: where the steps go.
        acc: this rank's own elements, and afterwards the result.
        nbytes: bytes of each message.
        ready: steps after which `acc` holds them and may be written.

    Returns:
        The steps after which the result is there.
    """
    rank = plan.rank
    if rank >= 2:
        lower = plan.steps.scratch(nbytes)
        step = plan.steps.recv(0, lower, nbytes, eager=True)
        for peer in range(1, rank):
            step = plan.steps.recv(peer, lower, nbytes, (step,), eager=True, reduce=True)
        ready = (plan.steps.reduce(lower, acc, nbytes, (step, *ready)),)
    elif rank == 1:
        ready = (plan.steps.recv(0, acc, nbytes, ready, eager=True, reduce=True),)
    for peer in range(rank + 1, plan.ranks):
        ready = (plan.steps.recv(peer, acc, nbytes, ready, eager=True, reduce=True),)
    return ready
