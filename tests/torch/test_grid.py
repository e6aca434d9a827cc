"""B39: element types, layouts, reductions and collectives: right, or refused; never silently wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.torch.ranks import Ranks


@pytest.mark.timeout(150)
@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_field_b39_grid_is_right_or_refused(world: Callable[[int], Ranks], size: int) -> None:
    from tests.torch import grid, grid_run

    cases = list(grid.full())
    for rank, report in enumerate(world(size).call(grid_run.run, timeout=120)):
        assert report["wrong"] == [], f"rank {rank}"
        assert report["refused"] == sum(map(grid.refused, cases))
        assert report["right"] == len(cases) - report["refused"]
