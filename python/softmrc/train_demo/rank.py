"""One training process: told by one JSON argument what to train, by one line of input when to begin.

Prints JSON lines: "ready", one a step, "end" with a hash of the parameters; and "failed" with the error, should a step
raise. Knows nothing of what will break: on loopback it only hands rules to its own endpoint.
"""

from __future__ import annotations

import datetime
import json
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from softmrc.train_demo.model import Batches, digest, make_model

__all__ = ["main"]


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def _impair(told: list[dict[str, Any]]) -> None:
    """Break this process's own planes: only where there is no fabric that could be broken."""
    from softmrc.torch import endpoint
    from softmrc.train_demo.rules import rules_for

    if told:
        mine = endpoint()
        mine.impair(rules_for(told, {p.number: p.evs for p in mine.planes}))


def _train(config: dict[str, Any]) -> None:
    rank, ranks = int(config["rank"]), int(config["ranks"])
    torch.set_num_threads(1)
    dist.init_process_group(
        config["backend"], init_method=config["store"], rank=rank, world_size=ranks,
        timeout=datetime.timedelta(seconds=config["timeout"]),
    )  # fmt: skip
    inner = make_model(config["seed"], config["width"])
    model = DistributedDataParallel(inner)
    batches = Batches(rank, ranks, config["batch"], config["seed"])
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    dist.barrier()
    _say(kind="ready", rank=rank)
    go = json.loads(sys.stdin.readline())
    if config["backend"] == "mrc":
        _impair(go["rules"])
    time.sleep(max(0.0, go["at"] - time.monotonic()))
    try:
        for step in range(config["steps"]):
            began = time.monotonic()
            images, labels = batches.next()
            optimiser.zero_grad()
            loss = loss_of(model(images), labels)
            loss.backward()
            optimiser.step()
            _say(kind="step", rank=rank, step=step, loss=loss.item(), began=began, ended=time.monotonic())
    except RuntimeError as error:  # what torch and its backends raise; the demonstration reports it
        _say(kind="failed", rank=rank, error=f"{type(error).__name__}: {str(error)[:300]}")
        raise
    _say(kind="end", rank=rank, digest=digest(inner), report=_report(config["backend"]))
    dist.destroy_process_group()


def _report(backend: str) -> dict[str, Any] | None:
    """What the backend rode through, in its own words."""
    if backend != "mrc":
        return None
    from softmrc.torch import report

    return report().to_json()


def main(argument: str) -> None:
    """Train as told."""
    _train(json.loads(argument))


if __name__ == "__main__":
    main(sys.argv[1])
