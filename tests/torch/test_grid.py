"""B39: element types, layouts, reductions and collectives: right, or refused; never silently wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.torch.ranks import Ranks


@pytest.mark.timeout(150)
@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_field_b39_grid_is_right_or_refused(world: Callable[[int], Ranks], size: int) -> None:
    from tests.torch import grid_run

    _judge(world(size).call(grid_run.run, timeout=120))


@pytest.mark.timeout(150)
def test_grid_on_a_bad_network(start: Callable[..., Ranks]) -> None:
    """Nothing of it is seen but time. All of it goes over the network: nothing through memory."""
    from tests.torch import grid_run

    ranks = start(3, env={"SOFTMRC_LOCAL": "0"})
    _judge(ranks.call(grid_run.run_on_a_bad_network, timeout=140))


def _judge(reports: list[dict[str, Any]]) -> None:
    from tests.torch import grid

    cases = list(grid.full())
    for rank, report in enumerate(reports):
        assert report["wrong"] == [], f"rank {rank}"
        assert report["refused"] == sum(map(grid.refused, cases))
        assert report["right"] == len(cases) - report["refused"]
