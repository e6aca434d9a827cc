"""Plain traffic patterns: permutation, incast with a victim, a ring of neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from softmrc.errors import UsageError
from softmrc.sim.builder import Builder
from softmrc.sim.workload import Int64s
from softmrc.sim.workloads.ranks import After, as_ranks, as_table

__all__ = ["incast", "permutation", "permutation_pairs", "send_recv_ring"]


def permutation_pairs(hosts: int, seed: int, *, apart: int = 1) -> Int64s:
    """Return who each host sends to: everyone once, nobody to itself; with apart=1 all such orders equally likely.

    Args:
        hosts: at least 2.
        seed: of the drawing.
        apart: hosts i with equal i // apart never talk to one another (apart=hosts_per_t0: every flow leaves its
            T0); 1 only keeps a host from itself. `hosts` must hold at least two whole groups.

    Raises:
        UsageError: there is no such permutation.
    """
    if hosts < 2:
        raise UsageError(f"a permutation needs at least 2 hosts, not {hosts}")
    if apart < 1 or (apart > 1 and hosts < 2 * apart):
        raise UsageError(f"{hosts} hosts have no permutation that always leaves groups of {apart}")
    rng = np.random.default_rng([seed, hosts, apart])
    ids = np.arange(hosts)
    to = rng.permutation(hosts)
    if apart == 1:
        # Drawn anew until nobody hits itself, 2.7 times on average.
        while (to == ids).any():
            to = rng.permutation(hosts)
        return to.astype(np.int64)
    # Whoever hits its own group swaps with a host drawn at random where both then leave; a pass mends most.
    for _ in range(1000):
        bad = np.flatnonzero(to // apart == ids // apart)
        if not len(bad):
            return to.astype(np.int64)
        for i in bad.tolist():
            j = int(rng.integers(hosts))
            if to[j] // apart != i // apart and to[i] // apart != j // apart:
                to[i], to[j] = to[j], to[i]
    raise UsageError(
        f"found no permutation of {hosts} hosts that leaves groups of {apart}; use groups of one size"
    )


def permutation(
    builder: Builder,
    hosts: int,
    size: int,
    *,
    seed: int = 1,
    apart: int = 1,
    start: ArrayLike = 0,
    group: str = "permutation",
) -> Int64s:
    """Let every host send `size` bytes (or GREEDY) to one other.

    Args:
        builder: takes the sends, host 0's first.
        hosts: number of hosts.
        size: bytes of each.
        seed: of the drawing.
        apart: see `permutation_pairs`.
        start: ns, one for all or one each.
        group: reporting group.

    Returns:
        Ids of the sends, by source.

    Raises:
        UsageError: see `permutation_pairs`.
    """
    to = permutation_pairs(hosts, seed, apart=apart)
    return builder.sends(np.arange(hosts), to, size, start=start, group=group)


def incast(
    builder: Builder,
    senders: Sequence[int] | Int64s,
    receiver: int,
    size: int,
    *,
    victim: tuple[int, int] | None = None,
    victim_size: int | None = None,
    start: ArrayLike = 0,
) -> tuple[Int64s, int]:
    """Let many hosts send to one, with a bystander whose flow should not suffer.

    Args:
        builder: takes the sends; groups "incast" and "victim".
        senders: hosts.
        receiver: host.
        size: bytes of each, or GREEDY.
        victim: source and destination of the bystander's flow, None: without.
        victim_size: bytes of it, None: like the others.
        start: ns.

    Returns:
        Ids of the incast's sends, and that of the victim's (-1: none).

    Raises:
        UsageError: no sender, or a host sends to itself.
    """
    sources = as_ranks(senders, least=1)
    ids = builder.sends(sources, receiver, size, start=start, group="incast")
    if victim is None:
        return ids, -1
    other = size if victim_size is None else victim_size
    return ids, int(builder.sends(victim[0], victim[1], other, group="victim")[0])


def send_recv_ring(
    builder: Builder,
    ranks: int | Sequence[int] | Int64s,
    size: int,
    *,
    rounds: int = 1,
    after: After = None,
    group: str = "send_recv",
) -> Int64s:
    """Let every rank send to the next and receive from the one before, `rounds` times.

    A round of a rank begins when its last send is acknowledged and its last message has arrived (nccl-tests
    `sendrecv`).

    Returns:
        A table with a line a rank: the send to it and its own send of the last round.

    Raises:
        UsageError: fewer than 2 ranks or 1 round.
    """
    hosts = as_ranks(ranks)
    if rounds < 1:
        raise UsageError(f"{rounds} rounds; at least 1")
    done = as_table(after, len(hosts))
    first = builder.n
    for _ in range(rounds):
        ids = builder.sends(hosts, np.roll(hosts, -1), size, after=done, group=group)
        done = np.stack((np.roll(ids, 1), ids), axis=1)
    if done is None:
        raise UsageError("no round was made")
    builder.collective("send_recv", len(hosts), size * rounds, first)
    return done
