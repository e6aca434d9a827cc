"""DDP, FSDP2, DTensor, meshes and checkpoints run over "mrc" and compute what one process computes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.torch.ranks import Ranks


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("static", [False, True])
def test_ddp(world: Callable[[int], Ranks], size: int, static: bool) -> None:
    from tests.torch import training_cases

    parameters = world(size).call(training_cases.ddp, static)
    assert all(each == parameters[0] for each in parameters)


@pytest.mark.parametrize(("size", "case"), [(3, "ddp_details"), (3, "fsdp"), (4, "fsdp"), (4, "hybrid")])
def test_training(world: Callable[[int], Ranks], size: int, case: str) -> None:
    from tests.torch import training_cases

    world(size).call(getattr(training_cases, case))


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("case", ["dtensor", "meshes", "functional"])
def test_distributed_tensors(world: Callable[[int], Ranks], size: int, case: str) -> None:
    from tests.torch import training_cases

    world(size).call(getattr(training_cases, case))


def test_checkpoint_is_loaded_as_saved(world: Callable[[int], Ranks], tmp_path: Path) -> None:
    from tests.torch import training_cases

    world(3).call(training_cases.checkpoint, str(tmp_path / "checkpoint"))
    assert (tmp_path / "checkpoint" / ".metadata").exists()
    assert (tmp_path / "checkpoint-async" / ".metadata").exists()
