"""From a call to the program of one rank: checks nothing but ranks, picks the algorithm, keeps what was made.

Decides by `Tuning`; leaves buffers and their checks to `Group`. Programs depend on sizes, never on addresses, so one
is made once for each kind of call and found again.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from softmrc.collectives.algorithms import (
    chain,
    doubling,
    exchange,
    halving,
    hosts,
    meet,
    moves,
    owners,
    rings,
    spread,
)
from softmrc.collectives.calls import Call, Collective, pair_print
from softmrc.collectives.dtypes import Op, dtype_named, op_for
from softmrc.collectives.pieces import Piece, cut, laid_out, split
from softmrc.collectives.placement import Placement
from softmrc.collectives.plan import Plan
from softmrc.collectives.program import EAGER_MAX, Program
from softmrc.collectives.tuning import Tuning

__all__ = ["compiled", "compiled_all_to_all"]

_KEPT = 64


@functools.lru_cache(_KEPT)
def compiled(call: Call, rank: int, placement: Placement, in_place: bool, table: Tuning) -> Program:
    """The program of a call.

    Args:
        call: what, with how much.
        rank: of this process in the group.
        placement: of all ranks of the group.
        in_place: input and output are the same memory (of this rank's piece, where the other is longer).
        table: which algorithm when.
    """
    ranks = len(placement.hosts)
    plan = Plan(rank, ranks, dtype_named(call.dtype), call.op, table, in_place, placement)
    total = sum(call.sizes) if call.sizes else call.nbytes
    if total:
        _WRITERS[call.collective](plan, call)
    else:
        meet.dissemination_barrier(plan)  # No elements: all ranks must still have called the same.
    return _finished(plan, call, (call.print(),) * ranks)


@functools.lru_cache(_KEPT)
def compiled_all_to_all(
    call: Call, rank: int, outgoing: tuple[int, ...], incoming: tuple[int, ...], table: Tuning
) -> Program:
    """The program of an uneven all_to_all, by bytes to and from each rank."""
    ranks = len(outgoing)
    plan = Plan(rank, ranks, dtype_named(call.dtype), call.op, table, False, Placement.apart(ranks))
    pieces = laid_out(incoming)
    moves.direct_all_to_all(plan, laid_out(outgoing), pieces, [0] * ranks)
    prints = tuple(pair_print(call, rank, peer, outgoing, incoming) for peer in range(ranks))
    return _finished(plan, call, prints, tuple(piece.off for piece in pieces))


def _finished(plan: Plan, call: Call, prints: tuple[int, ...], bases: tuple[int, ...] = ()) -> Program:
    op = op_for(plan.dtype, call.op)
    core_op = Op.SUM if op in (Op.AVG, Op.PREMUL_SUM) else op
    steps = plan.steps
    return Program(
        plan.dtype.code, int(core_op), plan.ranks, steps.scratch_bytes, tuple(steps.list), prints, bases
    )


def _alone(plan: Plan, nbytes: int, src: int = 0) -> None:
    """One rank: its own elements are the result."""
    own, ready = plan.premultiplied(plan.input.at(src), plan.output, nbytes)
    if own != plan.output:
        ready = plan.copied(own, plan.output, Piece(0, nbytes))
    plan.averaged(plan.output, nbytes, ready)


def _all_reduce(plan: Plan, call: Call) -> None:
    table, nbytes = plan.table, call.nbytes
    if plan.ranks == 1:
        _alone(plan, nbytes)
    elif nbytes <= table.exchanged(plan.ranks) and (nbytes < table.doubling_min or not _doubles(plan)):
        for part in cut(Piece(0, nbytes), EAGER_MAX, plan.dtype.size):
            exchange.exchange_all_reduce(plan, part)
    elif nbytes <= table.doubling_max and (_doubles(plan) or plan.ranks > table.exchange_ranks):
        for part in cut(Piece(0, nbytes), EAGER_MAX, plan.dtype.size):
            doubling.doubling_all_reduce(plan, part)
    elif _direct(plan, nbytes, table.direct_max):
        owners.owners_all_reduce(plan, _even(plan, nbytes))
    elif _by_host(plan):
        hosts.hosts_all_reduce(plan, nbytes)
    elif _doubles(plan) and plan.ranks <= table.halving_ranks and nbytes <= table.halving_max:
        halving.halving_all_reduce(plan, nbytes)
    else:
        rings.ring_all_reduce(plan, _even(plan, nbytes))


def _reduce(plan: Plan, call: Call) -> None:
    table, nbytes = plan.table, call.nbytes
    if plan.ranks == 1:
        _alone(plan, nbytes)
    elif nbytes <= table.exchanged(plan.ranks):
        for part in cut(Piece(0, nbytes), EAGER_MAX, plan.dtype.size):
            exchange.exchange_reduce(plan, part, call.root)
    elif nbytes <= table.doubling_max and plan.ranks > 2:
        for part in cut(Piece(0, nbytes), EAGER_MAX, plan.dtype.size):
            doubling.tree_reduce(plan, part, call.root)
    else:
        chain.chain_reduce(plan, nbytes, call.root)


def _reduce_scatter(plan: Plan, call: Call) -> None:
    pieces = _by_rank(plan, call)
    if plan.ranks == 1:
        _alone(plan, pieces[0].len)
    elif _direct(plan, pieces[-1].off + pieces[-1].len, plan.table.direct_max):
        owners.owners_reduce_scatter(plan, pieces)
    else:
        rings.ring_reduce_scatter(plan, pieces)


def _all_gather(plan: Plan, call: Call) -> None:
    pieces = _by_rank(plan, call)
    if _direct(plan, pieces[-1].off + pieces[-1].len, plan.table.spread_max):
        moves.direct_all_gather(plan, pieces)
    else:
        rings.ring_all_gather(plan, pieces)


def _broadcast(plan: Plan, call: Call) -> None:
    nbytes, table = call.nbytes, plan.table
    if plan.ranks == 1:
        return
    if plan.ranks == 2 or (plan.is_eager(nbytes) and plan.ranks <= table.flat_ranks):
        spread.flat_broadcast(plan, nbytes, call.root)
    elif plan.is_eager(nbytes):
        spread.tree_broadcast(plan, nbytes, call.root)
    elif _direct(plan, nbytes, table.spread_max):
        spread.parts_broadcast(plan, nbytes, call.root)
    else:
        chain.chain_broadcast(plan, nbytes, call.root)


def _gather(plan: Plan, call: Call) -> None:
    moves.direct_gather(plan, _by_rank(plan, call), call.root)


def _scatter(plan: Plan, call: Call) -> None:
    moves.direct_scatter(plan, _by_rank(plan, call), call.root)


def _all_to_all(plan: Plan, call: Call) -> None:
    pieces = _by_rank(plan, call)
    moves.direct_all_to_all(plan, pieces, pieces, [pieces[plan.rank].off] * plan.ranks)


_WRITERS = {
    Collective.ALL_REDUCE: _all_reduce,
    Collective.REDUCE: _reduce,
    Collective.REDUCE_SCATTER: _reduce_scatter,
    Collective.REDUCE_SCATTER_V: _reduce_scatter,
    Collective.ALL_GATHER: _all_gather,
    Collective.ALL_GATHER_V: _all_gather,
    Collective.BROADCAST: _broadcast,
    Collective.GATHER: _gather,
    Collective.SCATTER: _scatter,
    Collective.ALL_TO_ALL: _all_to_all,
}


def _doubles(plan: Plan) -> bool:
    """Whether the ranks are a power of two, and more than a pair."""
    return plan.ranks >= 4 and plan.ranks & (plan.ranks - 1) == 0


def _direct(plan: Plan, nbytes: int, most: int) -> bool:
    """Whether each pair of ranks exchanges its pieces itself."""
    return plan.ranks == 2 or (plan.ranks <= plan.table.direct_ranks and nbytes <= most)


def _by_host(plan: Plan) -> bool:
    """Whether hosts have as many ranks each, and few enough for each pair to exchange its pieces itself."""
    count, most = plan.placement.count, plan.table.direct_ranks
    return plan.placement.even and max(count, plan.ranks // count) <= most


def _even(plan: Plan, nbytes: int) -> list[Piece]:
    return split(nbytes, plan.ranks, plan.dtype.size)


def _by_rank(plan: Plan, call: Call) -> Sequence[Piece]:
    return laid_out(call.sizes or (call.nbytes,) * plan.ranks)
