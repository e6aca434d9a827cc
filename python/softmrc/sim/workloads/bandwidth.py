"""Algorithm and bus bandwidth of a collective, as nccl-tests defines them.

`size` is the larger buffer of one rank: the whole array for all-reduce, all n shards for all-gather, reduce-scatter
and all-to-all, the message for broadcast and send/recv. Bus bandwidth is what each NIC must have carried, so it can be
compared with line rate whatever the number of ranks.
"""

from __future__ import annotations

from softmrc.errors import UsageError

__all__ = ["alg_bandwidth", "bus_bandwidth", "bus_factor"]


def bus_factor(kind: str, ranks: int) -> float:
    """Return bus bandwidth over algorithm bandwidth.

    Args:
        kind: all_reduce, all_gather, reduce_scatter, all_to_all, broadcast or send_recv.
        ranks: at least 2.

    Raises:
        UsageError: no such operation, or fewer than two ranks.
    """
    if ranks < 2:
        raise UsageError(f"a collective has at least 2 ranks, not {ranks}")
    factors = {
        "all_reduce": 2 * (ranks - 1) / ranks,
        "all_gather": (ranks - 1) / ranks,
        "reduce_scatter": (ranks - 1) / ranks,
        "all_to_all": (ranks - 1) / ranks,
        "broadcast": 1.0,
        "send_recv": 1.0,
    }
    if kind not in factors:
        raise UsageError(f"no collective {kind!r}; there are {', '.join(factors)}")
    return factors[kind]


def alg_bandwidth(size: int, time_ns: int) -> float:
    """Return size over time in Gb/s.

    Args:
        size: bytes of the larger buffer of a rank.
        time_ns: time of the operation, more than 0.

    Raises:
        UsageError: the time is not positive.
    """
    if time_ns <= 0:
        raise UsageError(f"an operation takes more than 0 ns, not {time_ns}")
    return size * 8 / time_ns


def bus_bandwidth(kind: str, ranks: int, size: int, time_ns: int) -> float:
    """Return the bus bandwidth in Gb/s; arguments and errors as above."""
    return alg_bandwidth(size, time_ns) * bus_factor(kind, ranks)
