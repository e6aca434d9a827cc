"""One rank of `softmrc bench collectives`: a program that is told by one JSON argument what to measure.

Both backends live in the same processes and take turns call by call, so that what the machine does meanwhile hits both.
Rank 0 prints one JSON line a row. Decides how a collective is timed and checked; leaves where ranks run, the verdict
and the tables to `softmrc.bench`.
"""

from __future__ import annotations

import datetime
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

__all__ = ["main"]

_WARM_UP = 2
_LOOP_SECONDS = 0.1
_MOST_CALLS = 200


@dataclass(frozen=True)
class _Case:
    """A collective of one size: how to call it, and how many elements are wrong afterwards."""

    call: Callable[[Any], None]
    reset: Callable[[], None]
    wrong: Callable[[], int]


def _pattern(count: int, rank: int) -> torch.Tensor:
    """Small whole numbers, so that every sum is exact in float32 and every rank differs."""
    return (torch.arange(count, dtype=torch.int64) * 7 + rank * 13).remainder(61).to(torch.float32)


def _case(op: str, nbytes: int, rank: int, ranks: int) -> _Case:
    """Sizes as nccl-tests count them: the larger of what a rank gives and gets."""
    count = max(1, nbytes // 4)
    if op == "all_reduce":
        data = _pattern(count, rank)
        expected = sum((_pattern(count, r) for r in range(ranks)), torch.zeros(count))
        return _Case(
            lambda group: _void(dist.all_reduce(data, group=group)),
            lambda: _void(data.copy_(_pattern(count, rank))),
            lambda: int((data != expected).sum()),
        )
    part = max(1, count // ranks)
    whole = part * ranks
    if op == "all_gather":
        mine, got = _pattern(part, rank), torch.empty(whole)
        expected = torch.cat([_pattern(part, r) for r in range(ranks)])
        return _Case(
            lambda group: _void(dist.all_gather_into_tensor(got, mine, group=group)),
            lambda: _void(got.zero_()),
            lambda: int((got != expected).sum()),
        )
    if op == "reduce_scatter":
        mine, got = _pattern(whole, rank), torch.empty(part)
        expected = sum((_pattern(whole, r) for r in range(ranks)), torch.zeros(whole))
        expected = expected[rank * part : (rank + 1) * part]
        return _Case(
            lambda group: _void(dist.reduce_scatter_tensor(got, mine, group=group)),
            lambda: _void(got.zero_()),
            lambda: int((got != expected).sum()),
        )
    if op == "broadcast":
        data, expected = _pattern(count, rank), _pattern(count, 0)
        return _Case(
            lambda group: _void(dist.broadcast(data, 0, group=group)),
            lambda: _void(data.copy_(_pattern(count, rank))),
            lambda: int((data != expected).sum()),
        )
    if op == "all_to_all":
        mine, got = _pattern(whole, rank), torch.empty(whole)
        expected = torch.cat([_pattern(whole, r)[rank * part : (rank + 1) * part] for r in range(ranks)])
        return _Case(
            lambda group: _void(dist.all_to_all_single(got, mine, group=group)),
            lambda: _void(got.zero_()),
            lambda: int((got != expected).sum()),
        )
    raise ValueError(f"no measurement of {op!r}")


def _void(_: object) -> None:
    """Forget a result."""


class _Rank:
    """One process of the measurement."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.rank, self.ranks = int(config["rank"]), int(config["ranks"])
        cpus = sorted(os.sched_getaffinity(0))
        if config["pin"]:
            os.sched_setaffinity(0, {cpus[self.rank % len(cpus)]})
        torch.set_num_threads(1)
        self.names: list[str] = config["backends"]
        dist.init_process_group(
            self.names[0],
            init_method=config["store"],
            rank=self.rank,
            world_size=self.ranks,
            timeout=datetime.timedelta(seconds=config["timeout"]),
        )
        self.groups: dict[str, Any] = {self.names[0]: dist.group.WORLD}
        for name in self.names[1:]:
            self.groups[name] = dist.new_group(backend=name)

    def say(self, what: dict[str, Any]) -> None:
        """Print a line, from rank 0 only."""
        if self.rank == 0:
            print(json.dumps(what), flush=True)

    def _longest(self, seconds: float, group: Any) -> float:
        t = torch.tensor([seconds], dtype=torch.float64)
        dist.all_reduce(t, op=dist.ReduceOp.MAX, group=group)
        return float(t.item())

    def _loop(self, case: _Case, group: Any, calls: int) -> float:
        dist.barrier(group=group)
        began = time.perf_counter()
        for _ in range(calls):
            case.call(group)
        return (time.perf_counter() - began) / calls

    def rows(self, op: str, sizes: list[int], repeat: int) -> None:
        """Time one collective at every size, backends in turn, and check what it left behind."""
        for nbytes in sizes:
            case = _case(op, nbytes, self.rank, self.ranks)
            calls, wrong, times = {}, {}, {name: [] for name in self.names}  # type: ignore[var-annotated]
            for name, group in self.groups.items():
                case.reset()
                case.call(group)
                wrong[name] = case.wrong()
                once = self._longest(self._loop(case, group, _WARM_UP), group)
                calls[name] = max(1, min(_MOST_CALLS, int(_LOOP_SECONDS / max(once, 1e-9))))
            for _ in range(repeat):
                for name, group in self.groups.items():
                    case.reset()
                    times[name].append(self._longest(self._loop(case, group, calls[name]), group))
            bad = torch.tensor([wrong[name] for name in self.names])
            dist.all_reduce(bad, group=self.groups[self.names[0]])
            self.say(
                {
                    "op": op, "bytes": nbytes, "ranks": self.ranks,
                    "time_us": {n: round(statistics.median(t) * 1e6, 2) for n, t in times.items()},
                    "times_us": {n: [round(x * 1e6, 2) for x in t] for n, t in times.items()},
                    "calls": calls,
                    "wrong": dict(zip(self.names, bad.tolist(), strict=True)),
                }
            )  # fmt: skip

    def steady(self, nbytes: int, seconds: float) -> None:
        """Reduce over and over for so long, and print when each call ended, on the clock all processes share."""
        group = self.groups[self.names[0]]
        data, stop = torch.empty(max(1, nbytes // 4)), torch.zeros(1)
        dist.barrier(group=group)
        self.say({"began": time.monotonic()})
        ends: list[float] = []
        error = None
        until = time.monotonic() + seconds
        try:
            while not stop.item():
                data.fill_(1.0)
                dist.all_reduce(data, group=group)
                if int((data != self.ranks).sum()):
                    raise ValueError("a sum is wrong")
                ends.append(time.monotonic())
                stop.fill_(float(self.rank == 0 and time.monotonic() > until))
                dist.all_reduce(stop, op=dist.ReduceOp.MAX, group=group)
        except (RuntimeError, ValueError) as failure:  # torch's own error type, or ours above
            error = f"{type(failure).__name__}: {str(failure)[:400]}"
        print(
            json.dumps({"rank": self.rank, "ends": ends, "error": error, "at": time.monotonic()}), flush=True
        )


def main(argument: str) -> None:
    """Run one rank: set-up, rows or a steady course, orderly end."""
    config = json.loads(argument)
    rank = _Rank(config)
    if "steady" in config:
        rank.steady(config["steady"]["bytes"], config["steady"]["seconds"])
    else:
        for op in config["ops"]:
            rank.rows(op, config["sizes"], config["repeat"])
    if "steady" not in config:
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
