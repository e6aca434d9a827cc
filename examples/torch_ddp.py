"""Data-parallel training over MRC: torchrun --standalone --nproc-per-node=4 examples/torch_ddp.py.

On several hosts: torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=HOST:29400 ... on each.
"""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    dist.init_process_group("mrc", timeout=timedelta(minutes=2))
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    truth = torch.randn(64, 1, generator=torch.Generator().manual_seed(1))
    draw = torch.Generator().manual_seed(100 + rank)
    for step in range(200):
        data = torch.randn(32, 64, generator=draw)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(data), data @ truth)
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            dist.all_reduce(average := loss.detach().clone(), dist.ReduceOp.AVG)
            if rank == 0:
                print(f"step {step + 1}: loss {average.item():.4f} on {size} ranks")
    if rank == 0:
        from softmrc.torch import report

        print(report())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
