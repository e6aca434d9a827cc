"""One rank's side of tests on works, futures, groups, messages and objects."""

from __future__ import annotations

import json
import threading
from datetime import timedelta

import torch
import torch.distributed as dist


def futures(rank: int, size: int) -> None:
    """A work's future ends with the result, also of a tensor that had to be copied, and runs what was chained."""
    column = torch.full((2, 3), float(rank)).t()
    work = dist.all_reduce(column, async_op=True)
    assert work is not None
    chained = work.get_future().then(lambda done: done.value()[0].sum().item())
    assert chained.wait() == 6.0 * sum(range(size))
    assert work.is_completed()
    assert work.is_success()
    assert work.wait()
    assert torch.equal(work.result()[0], column)
    # A future asked for after the end.
    work = dist.all_reduce(torch.ones(3), async_op=True)
    assert work is not None
    work.wait()
    assert torch.equal(work.get_future().wait()[0], torch.full((3,), float(size)))


def overlapping(rank: int, size: int) -> None:
    """Many collectives under way at once, waited for in another order, and from another thread."""
    tensors = [torch.full((1 + 997 * k,), float(rank + k)) for k in range(12)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    last = threading.Thread(target=lambda: works[-1].wait())  # type: ignore[union-attr]
    last.start()
    for work in reversed(works[:-1]):
        assert work is not None
        work.wait()
    last.join(20)
    for k, tensor in enumerate(tensors):
        assert torch.equal(tensor, torch.full_like(tensor, sum(range(size)) + k * size))


def coalesced(rank: int, size: int) -> None:
    """The coalesced forms and the managers around them."""
    c10d = dist.distributed_c10d
    first, second = torch.full((3,), rank + 1.0), torch.full((2, 2), rank + 2.0)
    with c10d._coalescing_manager(async_ops=True) as manager:
        dist.all_reduce(first)
        dist.all_reduce(second)
    manager.wait()
    assert torch.equal(first, torch.full((3,), sum(range(size)) + 1.0 * size))
    assert torch.equal(second, torch.full((2, 2), sum(range(size)) + 2.0 * size))
    group = c10d._get_default_group()
    outs, ins = (
        [torch.empty(size), torch.empty(2 * size)],
        [torch.tensor([rank + 0.0]), torch.full((2,), 5.0)],
    )
    group.allgather_into_tensor_coalesced(outs, ins).wait()
    assert outs[0].tolist() == list(range(size))
    assert outs[1].tolist() == [5.0] * 2 * size
    parts, wholes = [torch.empty(1), torch.empty(2)], [torch.ones(size), torch.ones(2 * size)]
    group.reduce_scatter_tensor_coalesced(parts, wholes).wait()
    assert torch.cat(parts).tolist() == [size] * 3
    lists = [[torch.empty(2), torch.empty(1)] for _ in range(size)]
    group.allgather_coalesced(lists, [torch.full((2,), rank + 0.0), torch.tensor([rank + 7.0])]).wait()
    assert [row[1].item() for row in lists] == [other + 7.0 for other in range(size)]
    group._start_coalescing(torch.device("cpu"))
    dist.all_reduce(first, async_op=True)
    group._end_coalescing(torch.device("cpu")).wait()
    assert torch.equal(first, torch.full((3,), (sum(range(size)) + 1.0 * size) * size))


def groups(rank: int, size: int) -> None:
    """Sub-groups, with ranks in any order, made and destroyed again and again."""
    for _ in range(3):
        halves = [dist.new_group(list(range(part, size, 2))) for part in range(2)]
        mine = halves[rank % 2]
        tensor = torch.tensor([float(rank)])
        dist.all_reduce(tensor, group=mine)
        assert tensor.item() == sum(range(rank % 2, size, 2))
        assert dist.get_rank(mine) == rank // 2
        dist.destroy_process_group(mine)
    backwards = dist.new_group(list(reversed(range(size))))
    tensor = torch.tensor([float(rank)])
    dist.broadcast(tensor, src=size - 1, group=backwards)
    assert tensor.item() == size - 1
    local = dist.new_group([0, 1], use_local_synchronization=True) if rank < 2 else None
    if rank < 2:
        dist.all_reduce(tensor, group=local)
        assert tensor.item() == 2 * (size - 1)
        dist.destroy_process_group(local)
    dist.barrier()
    dist.destroy_process_group(backwards)


def objects(rank: int, size: int) -> None:
    """Python objects of different length."""
    gathered: list[object] = [None] * size
    dist.all_gather_object(gathered, "x" * (1000 * rank))
    assert gathered == ["x" * (1000 * other) for other in range(size)]
    told = [{"rank": 0}, [1, 2]] if rank == 0 else [None, None]
    dist.broadcast_object_list(told, src=0)
    assert told == [{"rank": 0}, [1, 2]]
    at_root: list[object] | None = [None] * size if rank == 1 else None
    dist.gather_object((rank, "y"), at_root, dst=1)
    assert at_root is None or at_root == [(other, "y") for other in range(size)]
    mine: list[object] = [None]
    dist.scatter_object_list(mine, [other * 11 for other in range(size)] if rank == 0 else None, src=0)
    assert mine == [rank * 11]
    if rank == 0:
        dist.send_object_list(["over", {"to": 1}], dst=1)
    elif rank == 1:
        got: list[object] = [None, None]
        dist.recv_object_list(got, src=0)
        assert got == ["over", {"to": 1}]


def messages(rank: int, size: int) -> None:
    """Tags, any source, many at once, to oneself."""
    right, left = (rank + 1) % size, (rank - 1) % size
    # Received in the other order than sent, told apart by tags.
    works = [dist.isend(torch.full((4,), 10.0 * rank + tag), right, tag=tag) for tag in range(3)]
    for tag in (2, 0, 1):
        tensor = torch.zeros(4)
        assert dist.recv(tensor, left, tag=tag) == left
        assert torch.equal(tensor, torch.full((4,), 10.0 * left + tag))
    for work in works:
        assert work is not None
        work.wait()
    if rank == 0:
        seen = set()
        for _ in range(size - 1):
            tensor = torch.zeros(2)
            source = dist.recv(tensor, tag=9)
            assert tensor.tolist() == [source, -source]
            seen.add(source)
        assert seen == set(range(1, size))
    else:
        dist.send(torch.tensor([float(rank), -float(rank)]), 0, tag=9)
    big, into = torch.full((300_000,), float(rank)), torch.zeros(300_000)
    ops = [dist.P2POp(dist.irecv, into, left), dist.P2POp(dist.isend, big, right)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert torch.equal(into, torch.full_like(into, float(left)))
    own = torch.zeros(3)
    sent = dist.isend(torch.arange(3.0), rank, tag=4)
    received = dist.irecv(own, rank, tag=4)
    assert sent is not None
    assert received is not None
    received.wait()
    sent.wait()
    assert own.tolist() == [0, 1, 2]


def barriers(rank: int, size: int) -> None:
    """Barriers with and without a timeout, and the monitored one."""
    dist.barrier()
    work = dist.barrier(async_op=True)
    assert work is not None
    work.wait()
    dist.monitored_barrier(timeout=timedelta(seconds=10))
    dist.monitored_barrier(wait_all_ranks=True)


def dropped(rank: int, size: int) -> None:
    """Nobody keeps work or tensor; what takes the memory's place afterwards stays as it is."""
    for _ in range(20):
        dist.all_reduce(torch.ones(300_000), async_op=True)
        dist.all_reduce(torch.ones(300, 1000).t(), async_op=True)
        others = [torch.full((300_000,), float(k)) for k in range(6)]
        dist.barrier()
        for k, other in enumerate(others):
            assert torch.equal(other, torch.full_like(other, float(k)))


def held(rank: int, size: int) -> None:
    """As with a torch that drops works it still waits for: they are held until waited for, and not longer."""
    from softmrc.torch_backend import process_group

    group = dist.distributed_c10d._get_default_group()
    process_group._MAY_FORGET = True
    try:
        works = [dist.all_reduce(torch.ones(10), async_op=True) for _ in range(process_group._MOST_HELD + 5)]
        assert len(group._held) == process_group._MOST_HELD
        for work in works:
            assert work is not None
            work.wait()
        dist.all_reduce(torch.ones(10), async_op=True).get_future().wait()  # type: ignore[union-attr]
        assert group._held == {}
    finally:
        process_group._MAY_FORGET = False


def face(rank: int, size: int) -> None:
    """What `softmrc.torch` says of this job."""
    import softmrc.torch

    report = softmrc.torch.report()
    assert (report.rank, report.size) == (rank, size)
    assert report.collectives > 0
    assert report.bytes_sent > 0
    assert json.loads(json.dumps(report.to_json()))["planes"] == list(report.planes)
    assert tuple(plane.address for plane in softmrc.torch.endpoint().planes) == report.planes
    softmrc.torch.monitored_barrier(timeout=timedelta(seconds=10))


def again(rank: int, size: int, store: str) -> None:
    """Destroy everything and join again in the same process, three times."""
    for turn in range(3):
        dist.destroy_process_group()
        assert not dist.is_initialized()
        dist.init_process_group("mrc", init_method=f"file://{store}{turn}", rank=rank, world_size=size)
        tensor = torch.ones(5)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [size] * 5


def on_gloo(rank: int, size: int) -> None:
    """Sub-groups over MRC of a job whose default group is gloo's, two of them sharing ranks."""
    for members in ([0, 1], [1, 2]):
        group = dist.new_group(members, backend="mrc")
        if rank in members:
            tensor = torch.tensor([float(rank)])
            dist.all_reduce(tensor, group=group)
            assert tensor.item() == sum(members)
            assert dist.get_backend(group) == "mrc"
    dist.barrier()


def mixed(rank: int, size: int) -> str:
    """A group that was made for two backends at once; return what is said."""
    try:
        dist.all_reduce(torch.ones(1))
    except ValueError as error:
        return str(error)
    return ""
