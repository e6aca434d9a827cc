"""One rank's side of training while the network fails: planes are cut by the impairments built into the endpoint."""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import softmrc.torch
from softmrc.verbs import Rule

_SECONDS = 3.2


def _rules(began: float) -> list[Rule]:
    """A plane lost, 5 % lost on the other, a flap, and both planes down for a while."""
    flap = [
        Rule(plane=2, down=True, start=began + 1.2 + 0.2 * k, stop=began + 1.3 + 0.2 * k) for k in range(3)
    ]
    return [
        Rule(plane=1, down=True, start=began + 0.2, stop=began + 0.7),
        Rule(plane=2, drop=0.05, start=began + 0.8, stop=began + 1.1),
        *flap,
        Rule(down=True, start=began + 2.0, stop=began + 2.7),
    ]


def steps(rank: int, size: int, count: int, seconds: float) -> dict[str, Any]:
    """Train `count` steps, spread over `seconds`; return the bits, the slowest step, what was ridden through."""
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(300, 200), nn.Tanh(), nn.Linear(200, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    dist.barrier()
    began = time.monotonic()
    slowest = 0.0
    for step in range(count):
        data = torch.randn(8, 300, generator=torch.Generator().manual_seed(step * size + rank))
        entered = time.monotonic()
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()
        slowest = max(slowest, time.monotonic() - entered)
        time.sleep(max(0.0, began + seconds * step / count - time.monotonic()))
    dist.barrier()
    weights = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    return {"weights": weights, "slowest": slowest, "report": softmrc.torch.report().to_json()}


def lost(rank: int, size: int) -> float:
    """Seconds that network failures have cost this rank so far."""
    return float(softmrc.torch.report().to_json()["seconds_lost"])


def impaired(rank: int, size: int, count: int) -> dict[str, Any]:
    """The same, while this rank's endpoint loses what its script says."""
    dist.barrier()
    softmrc.torch.endpoint().impair(_rules(time.monotonic()))
    try:
        return steps(rank, size, count, _SECONDS)
    finally:
        softmrc.torch.endpoint().impair([])
