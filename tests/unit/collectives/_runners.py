"""Ranks in one process: a driver each over 127.0.0.1, their lanes made by hand, and programs to run on them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from softmrc._core import CollProgram, CollRunner, NetDriver

SEND, RECV, REDUCE, COPY, SCALE = range(5)
EAGER, COMBINE, PREMUL = 1, 2, 4
INPUT, OUTPUT, SCRATCH = range(3)
U8, I32, F32 = 0, 4, 10
SUM = 0
INIT, RTR, RTS, ERR = 1, 2, 3, 6
NS = 1_000_000_000

Step = tuple[int, int, int, int, int, int, int, int, tuple[int, ...]]


@dataclass
class Rank:
    """One end: its driver, its runner, its queue pairs and lanes by rank, its group."""

    driver: NetDriver
    runner: CollRunner
    qps: dict[int, int]
    lanes: dict[int, int]
    gid: int = -1


def _open(seed: int) -> Rank:
    driver = NetDriver({"seed": seed, "planes": [{"address": "127.0.0.1", "udp_port": 0, "evs": 4}] * 2})
    return Rank(driver, CollRunner(driver), {}, {})


def _raise_qp(rank: Rank, qpn: int, peer: Rank, peer_qpn: int, psns: tuple[int, int], hold_ns: int) -> None:
    ours, theirs = psns
    rank.driver.modify_qp(qpn, {"state": INIT, "access_flags": 3, "ev_count": 8})
    planes = [(p["port"], p["address"], p["udp_port"], p["port"], ()) for p in peer.driver.planes()]
    rank.driver.modify_qp(
        qpn,
        {
            "state": RTR, "dest_qpn": peer_qpn, "rq_psn": theirs, "path_mtu": 4096, "peer_ports": planes,
            "mpr_dest": 8, "max_wimm_dest": 128, "rq_empty_grace_ns": NS,
        },
    )  # fmt: skip
    rank.driver.modify_qp(
        qpn,
        {
            "state": RTS,
            "sq_psn": ours,
            "mpr": 8,
            "max_wimm": 128,
            "hold_time_ns": hold_ns,
            "min_ack_timeout_ns": 1_000_000,
        },
    )


def _join(ranks: Sequence[Rank], a: int, b: int, hold_ns: int, near: dict[str, int]) -> None:
    pair = (ranks[a], ranks[b])
    init = {"max_send_wr": 256, "max_recv_wr": 256}
    qpns = [
        r.driver.create_qp({"pd": r.runner.pd, "send_cq": r.runner.cq, "recv_cq": r.runner.cq, **init})
        for r in pair
    ]
    memory = [r.runner.open_lane_memory() for r in pair]
    for i, peer in enumerate((b, a)):
        rank = pair[i]
        _raise_qp(rank, qpns[i], pair[1 - i], qpns[1 - i], (100 + i, 101 - i), hold_ns)
        rank.qps[peer] = qpns[i]
        rank.lanes[peer] = rank.runner.add_lane(qpns[i], memory[i]["memory"], memory[1 - i] | near)


@contextlib.contextmanager
def ranks_of(n: int, hold_s: float = 5.0, *, local: bool = False) -> Iterator[list[Rank]]:
    """Give `n` ranks with one group over all of them; `local`: they may read one another's memory."""
    near = {"local_pid": os.getpid()} if local else {}
    ranks = [_open(i + 1) for i in range(n)]
    try:
        for a in range(n):
            for b in range(a + 1, n):
                _join(ranks, a, b, int(hold_s * NS), near)
        for i, rank in enumerate(ranks):
            rank.gid = rank.runner.new_group([rank.lanes.get(j, -1) for j in range(n)], i)
        yield ranks
    finally:
        for rank in ranks:
            rank.runner.close()
            rank.driver.close()


def exchange_eager(
    rank: int, nbytes: int, dtype: int = F32, op: int = SUM, prints: Sequence[int] = ()
) -> CollProgram:
    """All-reduce of two ranks: everybody sends all it has."""
    peer = 1 - rank
    steps: list[Step] = [
        (COPY, 0, INPUT, 0, OUTPUT, 0, nbytes, 0, ()),
        (SEND, peer, INPUT, 0, OUTPUT, 0, nbytes, EAGER, ()),
        (RECV, peer, OUTPUT, 0, OUTPUT, 0, nbytes, EAGER | COMBINE, (0,)),
    ]
    return CollProgram(dtype, op, 2, 0, steps, list(prints))


def halves(rank: int, nbytes: int, chunk: int, dtype: int = F32, op: int = SUM) -> CollProgram:
    """All-reduce of two ranks: each reduces one half, in chunks, and sends the result."""
    peer, half = 1 - rank, nbytes // 2
    mine, its = rank * half, peer * half
    steps: list[Step] = []
    sums: list[tuple[int, int, int]] = []
    for at in range(0, half, chunk):
        size = min(chunk, half - at)
        steps.append((SEND, peer, INPUT, its + at, SCRATCH, at, size, 0, ()))
        steps.append((RECV, peer, INPUT, 0, SCRATCH, at, size, 0, ()))
        steps.append((COPY, 0, INPUT, mine + at, OUTPUT, mine + at, size, 0, ()))
        steps.append((REDUCE, 0, SCRATCH, at, OUTPUT, mine + at, size, 0, (len(steps) - 2, len(steps) - 1)))
        sums.append((len(steps) - 1, at, size))
    for step, at, size in sums:
        steps.append((SEND, peer, OUTPUT, mine + at, OUTPUT, mine + at, size, 0, (step,)))
        steps.append((RECV, peer, INPUT, 0, OUTPUT, its + at, size, 0, ()))
    return CollProgram(dtype, op, 2, half, steps)


def submit_all(
    ranks: Sequence[Rank], programs: Sequence[CollProgram], ins: Sequence[Any], outs: Sequence[Any]
) -> list[Any]:
    """Submit the same collective on every rank."""
    return [r.runner.submit(r.gid, p, i, o) for r, p, i, o in zip(ranks, programs, ins, outs, strict=True)]
