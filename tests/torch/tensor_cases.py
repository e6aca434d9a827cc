"""One rank's side of tests on single tensors: refusals, aliases, views, sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from tests.torch.grid_run import _all_gather_single, _reduce_scatter_single


def _refusal(call: Callable[[], Any]) -> str:
    try:
        call()
    except ValueError as error:
        return str(error)
    return ""


def refusals(rank: int, size: int) -> dict[str, str]:
    """Call with tensors that have no right answer; return what was said, empty where nothing was."""
    row = torch.ones(4)
    overlap = torch.zeros(10).as_strided((3, 3), (1, 1))
    sparse = torch.eye(3).to_sparse()
    quantized = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8)
    fp8 = torch.ones(4).to(torch.float8_e4m3fn)
    own = torch.ones(2)
    said = {
        "expanded": _refusal(lambda: dist.all_reduce(row.expand(3, 4))),
        "overlapping": _refusal(lambda: dist.all_reduce(overlap)),
        "expanded output": _refusal(lambda: _all_gather_single(row[:1].expand(size), row[:1])),
        "sparse": _refusal(lambda: dist.all_reduce(sparse)),
        "quantized": _refusal(lambda: dist.broadcast(quantized, 0)),
        "meta": _refusal(lambda: dist.all_reduce(torch.empty(3, device="meta"))),
        "fp8 sum": _refusal(lambda: dist.all_reduce(fp8)),
        "short output": _refusal(lambda: _all_gather_single(torch.empty(size * 2 - 1), own)),
        "long input": _refusal(lambda: _reduce_scatter_single(own, torch.ones(2 * size + 1))),
        "too few": _refusal(lambda: dist.all_gather([torch.empty(2)] * (size - 1), own)),
        "uneven rows": _refusal(lambda: dist.all_to_all_single(torch.empty(size + 1), torch.ones(size + 1))),
        "wrong splits": _refusal(
            lambda: dist.all_to_all_single(torch.empty(size), torch.ones(size), [2] * size, [1] * size)
        ),
        "list of wrong sizes": _refusal(lambda: dist.scatter(own, [torch.ones(3)] * size, src=rank)),
        "two types": _refusal(lambda: _all_gather_single(torch.empty(2 * size, dtype=torch.float64), own)),
    }
    dist.barrier()
    return said


def expanded_inputs(rank: int, size: int) -> None:
    """An expanded tensor is a good input where nothing is written to it."""
    mine = torch.tensor([float(rank)]).expand(6)
    output = torch.empty(6 * size)
    _all_gather_single(output, mine)
    assert torch.equal(output, torch.arange(size, dtype=torch.float32).repeat_interleave(6))
    part = torch.empty(6)
    _reduce_scatter_single(part, torch.tensor([rank + 1.0]).expand(6 * size))
    assert torch.equal(part, torch.full((6,), size * (size + 1) / 2))


def aliases(rank: int, size: int) -> None:
    """Input and output in one piece of memory give what separate ones give."""
    whole = torch.arange(4.0 * size) + rank * 100
    kept = whole.clone()
    _all_gather_single(whole, whole[4 * rank : 4 * rank + 4])
    for other in range(size):
        assert torch.equal(
            whole[4 * other : 4 * other + 4], torch.arange(4.0 * other, 4 * other + 4) + other * 100
        )
    whole.copy_(kept)
    _reduce_scatter_single(whole[4 * rank : 4 * rank + 4], whole)
    expected = sum(torch.arange(4.0 * rank, 4 * rank + 4) + other * 100 for other in range(size))
    assert torch.equal(whole[4 * rank : 4 * rank + 4], torch.as_tensor(expected))
    whole = torch.arange(float(size)) + rank * 10
    dist.all_to_all_single(whole, whole)
    assert torch.equal(whole, torch.arange(float(size)) * 10 + rank)
    # A list whose tensors follow one another in memory is used in place, and one with a gap is not.
    room = torch.zeros(size, 3)
    dist.all_gather(list(room.unbind()), torch.full((3,), float(rank)))
    assert torch.equal(room, torch.arange(float(size)).unsqueeze(1).expand(size, 3))
    room = torch.full((size, 3), -1.0)
    dist.all_gather([row[:2] for row in room.unbind()], torch.full((2,), float(rank)))
    assert torch.equal(room[:, :2], torch.arange(float(size)).unsqueeze(1).expand(size, 2))
    assert torch.equal(room[:, 2], torch.full((size,), -1.0))


def lazy_views(rank: int, size: int) -> None:
    """Tensors whose values are not what lies in memory: conjugate and negative views."""
    made = torch.tensor([1 + 2j, 3 - 1j]) * (rank + 1)
    dist.reduce(view := made.conj(), 0)
    if rank == 0:
        factor = size * (size + 1) / 2
        assert torch.equal(view.resolve_conj(), torch.tensor([1 - 2j, 3 + 1j]) * factor)
        assert torch.equal(made, torch.tensor([1 + 2j, 3 - 1j]) * factor)
    negative = (torch.tensor([1 + 2j, 3 - 1j]) * (rank + 1)).conj().imag
    assert negative.is_neg()
    dist.all_reduce(negative)
    assert torch.equal(negative, torch.tensor([-2.0, 1.0]) * size * (size + 1) / 2)


def gradients(rank: int, size: int) -> None:
    """Parameters, their gradients and inference tensors are reduced like any other."""
    weight = torch.nn.Parameter(torch.full((3, 2), float(rank)))
    dist.all_reduce(weight)
    assert weight.requires_grad
    assert torch.equal(weight.detach(), torch.full((3, 2), sum(range(size)) * 1.0))
    column = torch.nn.Parameter(torch.full((3, 2), float(rank)).t())
    with torch.no_grad():
        dist.all_reduce(column)
    assert torch.equal(column.detach(), torch.full((2, 3), sum(range(size)) * 1.0))
    with torch.inference_mode():
        frozen = torch.ones(5)
        dist.all_reduce(frozen)
        assert torch.equal(frozen, torch.full((5,), float(size)))


def uneven(rank: int, size: int) -> None:
    """Lists with tensors of different sizes, one a rank, empty ones among them."""
    outputs = [torch.zeros(other) for other in range(size)]
    dist.all_gather(outputs, torch.full((rank,), rank + 1.0))
    for other, output in enumerate(outputs):
        assert torch.equal(output, torch.full((other,), other + 1.0))
    mine = torch.zeros(rank)
    inputs = [torch.full((other,), rank + 1.0) for other in range(size)]
    dist.reduce_scatter(mine, inputs)
    assert torch.equal(mine, torch.full((rank,), size * (size + 1) / 2))
    assert all(torch.equal(part, torch.full_like(part, rank + 1.0)) for part in inputs)
    sent = [torch.full((rank + 2 * other,), 10.0 * rank + other) for other in range(size)]
    got = [torch.zeros(other + 2 * rank) for other in range(size)]
    dist.all_to_all(got, sent)
    for other, part in enumerate(got):
        assert torch.equal(part, torch.full((other + 2 * rank,), 10.0 * other + rank))


def different_sizes(rank: int, size: int) -> str:
    """The last rank calls with another size; return what is said here."""
    try:
        dist.all_reduce(torch.ones(100 if rank < size - 1 else 200))
    except RuntimeError as error:
        return str(error)
    return ""


def large(rank: int, size: int, nbytes: int) -> None:
    """Broadcast and reduce more bytes than 31 bits count."""
    tensor = torch.zeros(nbytes, dtype=torch.uint8)
    marks = torch.tensor([0, 1, (1 << 31) - 1, 1 << 31, nbytes - 1])
    if rank == 0:
        tensor[marks] = torch.tensor([1, 2, 3, 4, 5], dtype=torch.uint8)
    dist.broadcast(tensor, 0)
    assert tensor[marks].tolist() == [1, 2, 3, 4, 5]
    assert int(torch.count_nonzero(tensor)) == 5


def against_gloo(rank: int, size: int) -> float:
    """Random floats: our sum and gloo's differ by rounding at most; returns the largest relative difference."""
    gloo = dist.new_group(backend="gloo")
    generator = torch.Generator().manual_seed(rank)
    mine = torch.randn(100_003, generator=generator)
    theirs = mine.clone()
    dist.all_reduce(mine)
    dist.all_reduce(theirs, group=gloo)
    dist.destroy_process_group(gloo)
    return float(((mine - theirs).abs() / (theirs.abs() + 1)).max())


def same_bits(rank: int, size: int) -> list[bytes]:
    """Reduce the same random numbers several times, in calls that overlap; every rank and call has the same bits."""
    generator = torch.Generator().manual_seed(rank)
    given = torch.randn(50_001, generator=generator)
    copies = [given.clone() for _ in range(4)]
    works = [dist.all_reduce(copy, async_op=True) for copy in copies]
    for work in works:
        assert work is not None
        work.wait()
    return [copy.numpy().tobytes()[:4096] for copy in copies]
