"""One rank's side of tests on CUDA tensors; all ranks share the first GPU."""

from __future__ import annotations

import torch
import torch.distributed as dist
from tests.torch.grid_run import _all_gather_single, _reduce_scatter_single
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def collectives(rank: int, size: int) -> None:
    """Every kind of call, on contiguous and other tensors."""
    gpu = torch.device("cuda", 0)
    total = size * (size + 1) / 2
    for tensor in (
        torch.ones(1000, device=gpu),
        torch.ones(20, 30, device=gpu).t(),
        torch.ones(9, device=gpu)[::2],
    ):
        tensor *= rank + 1
        dist.all_reduce(tensor)
        assert torch.equal(tensor, torch.full_like(tensor, total))
    tensor = torch.full((7,), float(rank), device=gpu)
    dist.broadcast(tensor, 1)
    assert tensor.tolist() == [1.0] * 7
    output = torch.empty(3 * size, device=gpu)
    _all_gather_single(output, torch.full((3,), float(rank), device=gpu))
    assert output.tolist() == [float(other) for other in range(size) for _ in range(3)]
    part = torch.empty(3, device=gpu)
    _reduce_scatter_single(part, torch.full((3 * size,), rank + 1.0, device=gpu))
    assert part.tolist() == [total] * 3
    lists = [torch.empty(other + 1, device=gpu) for other in range(size)]
    dist.all_gather(lists, torch.full((rank + 1,), float(rank), device=gpu))
    assert [each.tolist() for each in lists] == [[float(other)] * (other + 1) for other in range(size)]
    swapped = torch.empty(size, device=gpu)
    dist.all_to_all_single(swapped, torch.arange(float(size), device=gpu) + 10 * rank)
    assert swapped.tolist() == [10.0 * other + rank for other in range(size)]
    if rank == 0:
        dist.send(torch.arange(5.0, device=gpu), 1)
    elif rank == 1:
        got = torch.zeros(5, device=gpu)
        dist.recv(got, 0)
        assert got.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def streams(rank: int, size: int) -> None:
    """What was queued before the call is in the input, what is queued after `wait` sees the output."""
    gpu = torch.device("cuda", 0)
    big = torch.ones(2000, 2000, device=gpu)
    for _ in range(20):
        side = torch.cuda.Stream(gpu)
        side.wait_stream(torch.cuda.current_stream(gpu))
        with torch.cuda.stream(side):
            slow = big
            for _ in range(5):
                slow = slow @ big / 2000
            work = dist.all_reduce(slow, async_op=True)
        assert work is not None
        other = torch.cuda.Stream(gpu)
        with torch.cuda.stream(other):
            work.wait()
            seen = slow.sum().item()
        assert seen == 4e6 * size
        chained = dist.all_reduce(torch.ones(1000, device=gpu), async_op=True)
        assert chained is not None
        assert chained.get_future().then(lambda done: done.value()[0].sum().item()).wait() == 1000 * size


def ddp(rank: int, size: int) -> list[float]:
    """DDP with the model on the GPU."""
    gpu = torch.device("cuda", 0)
    torch.manual_seed(5)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(40, 80), nn.ReLU(), nn.Linear(80, 3)).to(gpu))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(10):
        data = torch.randn(8, 40, generator=torch.Generator().manual_seed(step * size + rank)).to(gpu)
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()
    weights = [parameter.detach().cpu().flatten() for parameter in model.parameters()]
    return [float(value) for value in torch.cat(weights)]
