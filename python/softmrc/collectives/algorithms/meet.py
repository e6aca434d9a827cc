"""barrier, and calls without elements: empty messages by dissemination, ceil(log2(n)) rounds."""

from __future__ import annotations

from softmrc.collectives.plan import Plan

__all__ = ["dissemination_barrier"]


def dissemination_barrier(plan: Plan) -> None:
    """No rank gets past before every rank has come."""
    ready: tuple[int, ...] = ()
    distance = 1
    while distance < plan.ranks:
        plan.steps.signal((plan.rank + distance) % plan.ranks, ready)
        came = plan.steps.await_signal((plan.rank - distance) % plan.ranks, ready)
        ready = (*ready, came)
        distance *= 2
