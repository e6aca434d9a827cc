"""Works and futures, coalesced forms, groups, objects, messages, barriers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.torch.ranks import Ranks


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize(
    "case",
    [
        "futures",
        "overlapping",
        "coalesced",
        "groups",
        "objects",
        "messages",
        "barriers",
        "dropped",
        "held",
        "face",
    ],
)
def test_calls(world: Callable[[int], Ranks], size: int, case: str) -> None:
    from tests.torch import work_cases

    world(size).call(getattr(work_cases, case))


def test_one_rank_alone(start: Callable[..., Ranks]) -> None:
    from tests.torch import grid_run, work_cases

    ranks = start(1)
    ranks.call(work_cases.futures)
    ranks.call(work_cases.coalesced)
    assert ranks.call(grid_run.run)[0]["wrong"] == []
    assert ranks.close() == [0]


def test_joins_again_in_the_same_process(start: Callable[..., Ranks], tmp_path: Path) -> None:
    from tests.torch import work_cases

    ranks = start(3)
    ranks.call(work_cases.again, str(tmp_path / "again"))
    assert ranks.close() == [0, 0, 0]


def test_sub_groups_of_a_gloo_job(start: Callable[..., Ranks]) -> None:
    from tests.torch import work_cases

    ranks = start(3, backend="gloo")
    ranks.call(work_cases.on_gloo)
    assert ranks.close() == [0, 0, 0]


def test_a_group_of_two_backends_is_refused(start: Callable[..., Ranks]) -> None:
    """Torch would hand all its tensors to us; see docs/torch.md."""
    from tests.torch import work_cases

    for said in start(2, backend="cpu:mrc,cuda:gloo").call(work_cases.mixed):
        assert "new_group" in said
        assert "gloo" in said
