"""One rank's side of the grid: call the collective, compare with the oracle, say what was wrong."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
import torch.distributed as dist
from tests.torch.grid import Case, combine, counts, equal, full, reduce_op, refused, shaped, values
from torch import Tensor

# Later torch has new names for these, and warns of the old ones.
_all_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter_single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

_Step = Callable[[Case, int, int, int], list[str]]


def run(rank: int, size: int) -> dict[str, object]:
    """Run the whole grid; return how many cases were right, how many refused, and what was wrong."""
    wrong: list[str] = []
    right = said_no = 0
    for number, case in enumerate(full()):
        try:
            problems = _STEPS[case.collective](case, rank, size, number % size)
        except (ValueError, RuntimeError, TypeError) as error:
            if refused(case) and isinstance(error, ValueError):
                said_no += 1
            else:
                wrong.append(f"{case}: {type(error).__name__}: {error}")
            continue
        if refused(case):
            wrong.append(f"{case}: was to be refused")
        wrong += [f"{case}: {problem}" for problem in problems]
        right += not problems
        if len(wrong) > 20:
            break
    return {"right": right, "refused": said_no, "wrong": wrong[:20]}


def run_on_a_bad_network(rank: int, size: int) -> dict[str, object]:
    """Run the whole grid while packets are lost, doubled, late and broken."""
    import softmrc.torch
    from softmrc.verbs import Rule

    dist.barrier()
    bad = Rule(direction="tx", drop=0.01, duplicate=0.02, reorder=0.05, reorder_delay=0.0005, corrupt=0.005)
    softmrc.torch.endpoint().impair([bad])
    try:
        return run(rank, size)
    finally:
        softmrc.torch.endpoint().impair([])


def _inputs(case: Case, size: int, count: int, part: int = 0) -> list[Tensor]:
    return [values(case, count, rank, part) for rank in range(size)]


def _check(what: str, got: Tensor, expected: Tensor, case: Case) -> list[str]:
    if equal(got, expected, case.op):
        return []
    return [f"{what}: {got.reshape(-1)[:8].tolist()} instead of {expected.reshape(-1)[:8].tolist()}"]


def _all_reduce(case: Case, rank: int, size: int, root: int) -> list[str]:
    given = _inputs(case, size, counts(case))
    tensor = shaped(case, given[rank])
    dist.all_reduce(tensor, reduce_op(case.op))
    return _check("result", tensor, combine(case.op, given, case.dtype), case)


def _reduce(case: Case, rank: int, size: int, root: int) -> list[str]:
    given = _inputs(case, size, counts(case))
    tensor = shaped(case, given[rank])
    dist.reduce(tensor, root, reduce_op(case.op))
    if rank == root:
        return _check("root", tensor, combine(case.op, given, case.dtype), case)
    # What the others' tensors hold is left open by torch; ours keep what they held.
    return [] if torch.equal(tensor.reshape(-1), given[rank]) else ["a tensor that is no result was changed"]


def _reduce_scatter(case: Case, rank: int, size: int, root: int) -> list[str]:
    part = counts(case)
    given = _inputs(case, size, part * size)
    output = shaped(case, torch.zeros(part, dtype=case.dtype))
    _reduce_scatter_single(output, given[rank].clone(), reduce_op(case.op))
    expected = combine(case.op, [whole[rank * part : (rank + 1) * part] for whole in given], case.dtype)
    return _check("part", output, expected, case)


def _reduce_scatter_list(case: Case, rank: int, size: int, root: int) -> list[str]:
    count = counts(case)
    parts = [_inputs(case, size, count, part) for part in range(size)]
    output = shaped(case, torch.zeros(count, dtype=case.dtype))
    given = [shaped(case, parts[part][rank]) for part in range(size)]
    dist.reduce_scatter(output, given, reduce_op(case.op))
    return _check("part", output, combine(case.op, parts[rank], case.dtype), case)


def _broadcast(case: Case, rank: int, size: int, root: int) -> list[str]:
    given = _inputs(case, size, counts(case))
    tensor = shaped(case, given[rank])
    dist.broadcast(tensor, root)
    return _check("result", tensor, given[root], case)


def _all_gather(case: Case, rank: int, size: int, root: int) -> list[str]:
    given = _inputs(case, size, counts(case))
    output = torch.zeros(counts(case) * size, dtype=case.dtype)
    _all_gather_single(output, shaped(case, given[rank]))
    return _check("result", output, torch.cat(given), case)


def _all_gather_list(case: Case, rank: int, size: int, root: int) -> list[str]:
    given = _inputs(case, size, counts(case))
    outputs = [shaped(case, torch.zeros(counts(case), dtype=case.dtype)) for _ in given]
    dist.all_gather(outputs, shaped(case, given[rank]))
    return _each(outputs, given, case)


def _gather(case: Case, rank: int, size: int, root: int) -> list[str]:
    given = _inputs(case, size, counts(case))
    outputs = (
        [shaped(case, torch.zeros(counts(case), dtype=case.dtype)) for _ in given] if rank == root else None
    )
    dist.gather(shaped(case, given[rank]), outputs, root)
    return _each(outputs, given, case) if outputs is not None else []


def _scatter(case: Case, rank: int, size: int, root: int) -> list[str]:
    given = [values(case, counts(case), root, part) for part in range(size)]
    output = shaped(case, torch.zeros(counts(case), dtype=case.dtype))
    dist.scatter(output, [shaped(case, part) for part in given] if rank == root else None, root)
    return _check("result", output, given[rank], case)


def _all_to_all(case: Case, rank: int, size: int, root: int) -> list[str]:
    if case.layout == "scalar":
        return []
    count = counts(case)
    rows = [(sender + receiver) % 3 for sender, receiver in itertools.product(range(size), repeat=2)]

    def sent(sender: int, receiver: int) -> Tensor:
        return values(case, rows[sender * size + receiver] * count, sender, receiver)

    whole = torch.cat([sent(rank, receiver) for receiver in range(size)])
    expected = torch.cat([sent(sender, rank) for sender in range(size)])
    output = torch.zeros_like(expected).reshape(-1, count) if count else torch.zeros(0, dtype=case.dtype)
    dist.all_to_all_single(
        output,
        whole.reshape(-1, count) if count else whole,
        [rows[sender * size + rank] for sender in range(size)] if count else None,
        [rows[rank * size + receiver] for receiver in range(size)] if count else None,
    )
    return _check("result", output, expected, case)


def _all_to_all_list(case: Case, rank: int, size: int, root: int) -> list[str]:
    count = counts(case)
    outputs = [shaped(case, torch.zeros(count, dtype=case.dtype)) for _ in range(size)]
    dist.all_to_all(outputs, [shaped(case, values(case, count, rank, receiver)) for receiver in range(size)])
    return _each(outputs, [values(case, count, sender, rank) for sender in range(size)], case)


def _send(case: Case, rank: int, size: int, root: int) -> list[str]:
    given = _inputs(case, size, counts(case))
    right, left = (rank + 1) % size, (rank - 1) % size
    work = dist.isend(shaped(case, given[rank]), right, tag=root)
    tensor = shaped(case, torch.zeros(counts(case), dtype=case.dtype))
    dist.recv(tensor, left, tag=root)
    assert work is not None
    work.wait()
    return _check("message", tensor, given[left], case)


def _each(outputs: list[Tensor], expected: list[Tensor], case: Case) -> list[str]:
    return [
        text
        for index, (got, wanted) in enumerate(zip(outputs, expected, strict=True))
        for text in _check(f"tensor {index}", got, wanted, case)
    ]


_STEPS: dict[str, _Step] = {
    "all_reduce": _all_reduce,
    "reduce": _reduce,
    "reduce_scatter": _reduce_scatter,
    "reduce_scatter_list": _reduce_scatter_list,
    "broadcast": _broadcast,
    "all_gather": _all_gather,
    "all_gather_list": _all_gather_list,
    "gather": _gather,
    "scatter": _scatter,
    "all_to_all": _all_to_all,
    "all_to_all_list": _all_to_all_list,
    "send": _send,
}
