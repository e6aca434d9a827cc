"""CUDA tensors, staged through pinned host memory. Two ranks share one GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.torch.ranks import Ranks


@pytest.fixture
def gpu_ranks(start: Callable[..., Ranks]) -> Ranks:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    return start(2)


@pytest.mark.parametrize("case", ["collectives", "streams"])
def test_cuda_tensors(gpu_ranks: Ranks, case: str) -> None:
    from tests.torch import cuda_cases

    gpu_ranks.call(getattr(cuda_cases, case))


def test_ddp_on_cuda(gpu_ranks: Ranks) -> None:
    from tests.torch import cuda_cases

    weights = gpu_ranks.call(cuda_cases.ddp)
    assert weights[0] == weights[1]
