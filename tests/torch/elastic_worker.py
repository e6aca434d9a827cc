"""A training script under torchrun: saves every step, dies once on purpose, goes on from its checkpoint."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

_STEPS = 6


def train(rank: int, size: int, directory: str, how: str) -> str:
    """Train from the last whole checkpoint on; return some of the final parameters.

    `how` is what rank 1 does in the middle of its first life: "killed", "raises", or nothing ("quiet").
    """
    torch.manual_seed(3)
    model = DistributedDataParallel(nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    state = {"model": model.module.state_dict(), "step": 0}
    whole = [path.parent for path in Path(directory).glob("step*/.metadata")]
    if whole:
        dcp.load(state, checkpoint_id=max(whole))
        model.module.load_state_dict(state["model"])
    for step in range(int(state["step"]), _STEPS):
        if how != "quiet" and step == 3 and rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            if how == "raises":
                raise RuntimeError("on purpose")
            os.kill(os.getpid(), signal.SIGKILL)
        data = torch.randn(4, 8, generator=torch.Generator().manual_seed(step * 10 + rank))
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()
        saved = {"model": model.module.state_dict(), "step": step + 1}
        dcp.save(saved, checkpoint_id=Path(directory) / f"step{step + 1}")
    return " ".join(f"{value:.9g}" for value in model.module.weight.detach().flatten()[:6].tolist())


def main(directory: str, how: str) -> None:
    """Be a rank that torchrun started."""
    torch.set_num_threads(1)
    dist.init_process_group("mrc")
    rank = dist.get_rank()
    result = train(rank, dist.get_world_size(), directory, how)
    (Path(directory) / f"result{rank}").write_text(result)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
