"""One rank's side of training: DDP, FSDP2, DTensor, checkpoints, device meshes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

try:
    from torch.distributed.fsdp import fully_shard
except ImportError:  # torch 2.6 and 2.7 have it elsewhere
    from torch.distributed._composable.fsdp import fully_shard


def _net() -> nn.Sequential:
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(20, 33), nn.ReLU(), nn.Linear(33, 33), nn.ReLU(), nn.Linear(33, 5))


def _batch(step: int, rank: int, size: int) -> tuple[Tensor, Tensor]:
    """This rank's part of a batch of 12."""
    generator = torch.Generator().manual_seed(step)
    data, labels = torch.randn(12, 20, generator=generator), torch.randint(5, (12,), generator=generator)
    return data[rank::size], labels[rank::size]


def _train(model: nn.Module, steps: int, rank: int, size: int) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        data, labels = _batch(step, rank, size)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(data), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def _alone(steps: int) -> list[Tensor]:
    """Parameters after the same steps in one process on the whole batches."""
    model = _net()
    _train(model, steps, 0, 1)
    return [parameter.detach() for parameter in model.parameters()]


def _close(parameters: list[Tensor], steps: int) -> None:
    for ours, alone in zip(parameters, _alone(steps), strict=True):
        torch.testing.assert_close(ours, alone, rtol=1e-4, atol=1e-5)


def ddp(rank: int, size: int, static: bool) -> list[list[float]]:
    """Train with DDP in buckets small enough to have several; equals training alone."""
    model = DistributedDataParallel(_net(), bucket_cap_mb=0.002, static_graph=static)
    _train(model, 8, rank, size)
    parameters = [parameter.detach() for parameter in model.module.parameters()]
    _close(parameters, 8)
    return [parameter.flatten()[:50].tolist() for parameter in parameters]


def ddp_details(rank: int, size: int) -> None:
    """Buffers that are broadcast, unused parameters, accumulation without sync, uneven inputs, hooks in Python."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    torch.manual_seed(rank)
    net = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 2))
    model = DistributedDataParallel(net, find_unused_parameters=True)
    model.register_comm_hook(None, default_hooks.allreduce_hook)
    with model.no_sync():
        model(torch.randn(4, 6)).sum().backward()
    model(torch.randn(4, 6)).sum().backward()
    grads = [parameter.grad.clone() for parameter in net.parameters() if parameter.grad is not None]
    with model.join():
        for _ in range(rank + 1):
            model(torch.randn(4, 6)).sum().backward()
    for grad in grads:
        theirs = grad.clone()
        dist.broadcast(theirs, 0)
        assert torch.equal(theirs, grad)


def fsdp(rank: int, size: int) -> None:
    """Train with FSDP2, sharded by layer; equals training alone."""
    mesh = init_device_mesh("cpu", (size,))
    model = _net()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    _train(model, 8, rank, size)
    _close([_full(parameter) for parameter in model.parameters()], 8)


def hybrid(rank: int, size: int) -> None:
    """FSDP2 over a mesh of two dimensions: replicas of shards."""
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("replica", "shard"))
    model = _net()
    fully_shard(model, mesh=mesh)
    _train(model, 4, rank, size)
    _close([_full(parameter) for parameter in model.parameters()], 4)


def _full(parameter: Tensor) -> Tensor:
    assert isinstance(parameter, DTensor)
    return parameter.full_tensor().detach()


def dtensor(rank: int, size: int) -> None:
    """Distribute, redistribute every way, compute."""
    mesh = init_device_mesh("cpu", (size,))
    whole = torch.arange(7.0 * 6).reshape(7, 6)
    rows = distribute_tensor(whole, mesh, [Shard(0)])
    assert torch.equal(rows.full_tensor(), whole)
    columns = rows.redistribute(placements=[Shard(1)])
    assert torch.equal(columns.full_tensor(), whole)
    assert torch.equal(columns.redistribute(placements=[Replicate()]).to_local(), whole)
    product = rows @ distribute_tensor(whole.t().contiguous(), mesh, [Replicate()])
    assert torch.equal(product.full_tensor(), whole @ whole.t())
    summed = distribute_tensor(whole.t().contiguous(), mesh, [Shard(1)]) @ rows
    assert torch.equal(summed.full_tensor(), whole.t() @ whole)


def meshes(rank: int, size: int) -> None:
    """The groups of a mesh of two dimensions."""
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("row", "column"))
    for dimension in ("row", "column"):
        group = mesh.get_group(dimension)
        tensor = torch.tensor([float(rank)])
        dist.all_reduce(tensor, group=group)
        assert tensor.item() == sum(dist.get_process_group_ranks(group))


def functional(rank: int, size: int) -> None:
    """The collectives that compiled programs and DTensor use, which come from torch's C++ side."""
    import torch.distributed._functional_collectives as funcol

    group = dist.distributed_c10d._get_default_group()
    mine = torch.arange(4.0 * size) + rank
    assert torch.equal(
        funcol.all_reduce(mine, "sum", group), torch.arange(4.0 * size) * size + sum(range(size))
    )
    gathered = funcol.all_gather_tensor(torch.full((2,), float(rank)), 0, group)
    assert torch.equal(gathered, torch.arange(float(size)).repeat_interleave(2))
    part = funcol.reduce_scatter_tensor(mine, "avg", 0, group)
    expected = torch.arange(4.0 * size) + sum(range(size)) / size
    assert torch.equal(part, expected[4 * rank : 4 * rank + 4])
    swapped = funcol.all_to_all_single(torch.arange(float(size)) + 10 * rank, None, None, group)
    assert torch.equal(swapped, torch.arange(float(size)) * 10 + rank)
    assert torch.equal(funcol.broadcast(mine, 0, group), torch.arange(4.0 * size))
    pair = funcol.all_reduce_coalesced([torch.ones(2), torch.ones(3, 1)], "sum", group)
    assert torch.equal(pair[1], torch.full((3, 1), float(size)))


def checkpoint(rank: int, size: int, directory: str) -> None:
    """Save a sharded model and its optimizer, load them into fresh ones, go on with the same numbers."""
    mesh = init_device_mesh("cpu", (size,))

    def fresh() -> tuple[nn.Module, Any]:
        model = _net()
        fully_shard(model, mesh=mesh)
        return model, torch.optim.Adam(model.parameters(), lr=0.01)

    model, optimizer = fresh()
    data, labels = _batch(0, rank, size)
    for _ in range(2):
        nn.functional.cross_entropy(model(data), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    dcp.save(state, checkpoint_id=directory)
    other, other_optimizer = fresh()
    nn.functional.cross_entropy(other(data), labels).backward()
    other_optimizer.step()
    loaded = {"model": other.state_dict(), "optimizer": other_optimizer.state_dict()}
    dcp.load(loaded, checkpoint_id=directory)
    other.load_state_dict(loaded["model"])
    for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(_full(ours), _full(theirs))
    # It runs in a thread, beside what the default group is used for meanwhile.
    saved = dcp.async_save(state, checkpoint_id=f"{directory}-async", process_group=dist.new_group())
    dist.all_reduce(torch.ones(1000))
    saved.result()
