"""The mean of some numbers over all ranks, without torch.

Run, once a rank:  .venv/bin/python examples/all_reduce.py RANK SIZE [HOST:PORT of rank 0]
Or let it start the ranks itself, on this host:  .venv/bin/python examples/all_reduce.py
"""

from __future__ import annotations

import array
import subprocess
import sys

from softmrc.collectives import TcpStore, init


def one_rank(rank: int, size: int, store: str) -> None:
    """What each process does."""
    with init(rank, size, store=store, timeout=30) as group:
        values = array.array("d", [rank + 0.5] * 100_000)
        group.all_reduce(values, "avg")  # into the same memory, on every rank
        shares = array.array("d", [0.0] * (100_000 * size))
        work = group.all_gather(values, shares, async_op=True)  # returns at once
        group.barrier()
        work.wait()
        print(f"rank {rank} of {size}: mean {values[0]}, gathered {len(shares)} numbers", flush=True)


def main() -> None:
    """Be one rank, or start three."""
    if len(sys.argv) > 1:
        rank, size = int(sys.argv[1]), int(sys.argv[2])
        one_rank(rank, size, sys.argv[3] if len(sys.argv) > 3 else "127.0.0.1:29500")
        return
    free = TcpStore("127.0.0.1", 0, serve=True)
    port = free.port
    free.close()
    command = [sys.executable, __file__]
    ranks = [subprocess.Popen([*command, str(rank), "3", f"127.0.0.1:{port}"]) for rank in range(3)]
    if any(rank.wait() for rank in ranks):
        sys.exit("a rank failed")


if __name__ == "__main__":
    main()
