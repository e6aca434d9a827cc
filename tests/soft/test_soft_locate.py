"""Which link is bad, in a lab of the user-space switch: found by the same probes, and endpoints keep off it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from softmrc.lab.faults import fail, heal
from softmrc.lab.mapper import Prober
from softmrc.lab.soft import SoftLab


@pytest.fixture(autouse=True)
def _healed(lab: SoftLab) -> Iterator[None]:
    yield
    heal(lab)


@pytest.mark.parametrize(
    ("target", "harm"),
    [("h0.p1", {}), ("p2.t1-1", {"silent": True}), ("p1.t0-1.t1-0", {"loss": 0.3}), ("p2", {})],
)
def test_what_was_broken_is_named_and_denied_until_it_is_well(
    lab: SoftLab, target: str, harm: dict[str, Any]
) -> None:
    with Prober(lab) as prober:
        fail(lab, target, **harm)
        found = next(c for c in prober.run(8.0) if c is not None and c.what == "found")
        assert found.finding.name == target
        assert prober.denylist().denied.keys() == {target}
        heal(lab)
        assert next(c for c in prober.run(8.0) if c is not None and c.what == "cleared")
        assert prober.denylist().denied == {}
