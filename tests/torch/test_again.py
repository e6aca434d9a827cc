"""A process group that ends and begins again in the same processes, at the same MASTER_ADDR and MASTER_PORT."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.ports import free_port
from tests.torch.ranks import Ranks


@pytest.fixture
def meeting() -> str:
    return f"tcp://127.0.0.1:{free_port()}"


@pytest.mark.parametrize(("size", "groups"), [(2, False), (4, True)])
def test_five_times_at_one_port(start: Callable[..., Ranks], meeting: str, size: int, groups: bool) -> None:
    """No rank that comes back finds the store that rank 0 is about to drop."""
    from tests.torch import again_cases

    ranks = start(size, join=False)
    total = size * (size + 1) / 2 * (size if groups else 1)
    assert ranks.call(again_cases.rounds, meeting, 5, None, groups, timeout=60) == [[total] * 5] * size
    assert ranks.close() == [0] * size


@pytest.mark.parametrize("late", [0, 1])
def test_a_rank_that_ends_much_later_than_the_others_finds_them(
    start: Callable[..., Ranks], meeting: str, late: int
) -> None:
    """The others are back at the old store already when rank 0 ends: it keeps that for them."""
    from tests.torch import again_cases

    ranks = start(3, join=False)
    assert ranks.call(again_cases.rounds, meeting, 3, late, False, timeout=60) == [[6.0] * 3] * 3
    assert ranks.close() == [0, 0, 0]


def test_without_a_rank(start: Callable[..., Ranks], meeting: str) -> None:
    from tests.torch import again_cases

    ranks = start(3, join=False)
    assert ranks.call(again_cases.shrink, meeting) == [[3.0, 2.0], [3.0, 2.0], [3.0]]


def test_after_an_abort(start: Callable[..., Ranks], meeting: str) -> None:
    from tests.torch import again_cases

    ranks = start(3, join=False)
    assert ranks.call(again_cases.aborted_and_again, meeting) == [3.0] * 3
