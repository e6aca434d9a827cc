"""A network failure is no failure of a rank: training goes on, with the same bits, and says what it rode through."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.torch.ranks import Ranks


@pytest.mark.parametrize("size", [2, 4])
def test_training_rides_through_network_failures(start: Callable[..., Ranks], size: int) -> None:
    from tests.torch import ride_cases

    # Ranks of one host would exchange through memory, which no plane that fails disturbs.
    ranks = start(size, timeout=20, env={"SOFTMRC_LOCAL": "0"})
    quiet = ranks.call(ride_cases.steps, 160, 0.0)
    disturbed = ranks.call(ride_cases.impaired, 160)
    assert len({each["weights"] for each in quiet + disturbed}) == 1
    for each in disturbed:
        report = each["report"]
        assert report["incidents"]
        assert report["bytes_resent"] > 0
        assert 0.3 < report["seconds_lost"] < 2.5
        assert report["failed"] == ()
        # 0.7 s without any plane, and what it takes to go on.
        assert each["slowest"] < 2.5
    assert ranks.close() == [0] * size
