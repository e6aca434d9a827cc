"""Max-min shares by water filling, against cases worked out by hand and against what defines them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from random import Random

import pytest

from softmrc.errors import UsageError
from softmrc.lab.fair import bottlenecks, max_min

CASES: list[tuple[list[list[str]], list[Fraction]]] = [
    ([["a"]], [Fraction(1)]),
    ([["a"], ["a"], ["a"]], [Fraction(1, 3)] * 3),
    ([["a", "b"], ["a"], ["b"], ["b"]], [Fraction(1, 3), Fraction(2, 3), Fraction(1, 3), Fraction(1, 3)]),
    ([["a", "b"], ["a"], ["b"]], [Fraction(1, 2)] * 3),
    ([], []),
]


@pytest.mark.parametrize(("paths", "shares"), CASES)
def test_small_cases(paths: list[list[str]], shares: list[Fraction]) -> None:
    assert max_min(paths) == shares


def test_a_flow_without_links_has_no_share() -> None:
    with pytest.raises(UsageError, match="no link"):
        max_min([["a"], []])


def _is_max_min(paths: Sequence[Sequence[str]], shares: Sequence[Fraction]) -> bool:
    """No link carries more than one, and each flow is among the fastest of a link that is full."""
    links = {link: [i for i, path in enumerate(paths) if link in path] for path in paths for link in path}
    loads = {link: sum(shares[i] for i in flows) for link, flows in links.items()}
    fastest = {link: max(shares[i] for i in flows) for link, flows in links.items()}
    return max(loads.values()) <= 1 and all(
        any(loads[link] == 1 and fastest[link] == shares[i] for link in path) for i, path in enumerate(paths)
    )


@pytest.mark.parametrize("seed", range(20))
def test_random_paths_fulfil_what_defines_max_min(seed: int) -> None:
    lot = Random(seed)
    paths = [lot.sample("abcdefgh", lot.randint(1, 4)) for _ in range(lot.randint(1, 12))]
    assert _is_max_min(paths, max_min(paths))


def test_who_meets_whom() -> None:
    """Two share an uplink alone; one that passes two full links makes its neighbours depend on it; one is by itself."""
    ways = [
        ("h0", "t0-0", "t1-0", "t0-2", "h8"),
        ("h1", "t0-0", "t1-0", "t0-3", "h9"),
        ("h2", "t0-0", "t1-1", "t0-2", "h10"),
        ("h3", "t0-0", "t1-1", "t0-3", "h11"),
        ("h4", "t0-1", "t1-1", "t0-3", "h12"),
        ("h5", "t0-1", "t1-2", "t0-3", "h13"),
    ]
    found = bottlenecks(ways)
    assert found.rates == [0.5, 0.5, 0.5, 0.5, 0.5, 1.0]
    assert sorted(map(sorted, found.full)) == [[0, 1], [2, 3], [3, 4]]
    assert found.alone == [True, True, False, False, False, True]
