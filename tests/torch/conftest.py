"""Ranks of a process group as processes, started once for a whole session of tests where a test only needs ranks.

Everything here carries the marker `torch` and is skipped where torch is missing.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.torch.ranks import Ranks

_REASON = "needs torch (pip install 'softmrc[torch]')"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    missing = importlib.util.find_spec("torch") is None
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.torch)
            if missing:
                item.add_marker(pytest.mark.skip(reason=_REASON))


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], Ranks]]:
    """`world(3)` is three ranks with an "mrc" process group; the same three for every test of the session."""
    running: dict[int, Ranks] = {}

    def get(size: int) -> Ranks:
        if size not in running:
            running[size] = Ranks(size, tmp_path_factory.mktemp(f"world{size}"))
        return running[size]

    yield get
    for ranks in running.values():
        ranks.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Ranks]]:
    """`start(3, timeout=5)` makes ranks for this test alone, which it may kill."""
    running: list[Ranks] = []

    def make(size: int, **options: object) -> Ranks:
        directory = tmp_path / str(len(running))
        directory.mkdir()
        running.append(Ranks(size, directory, **options))  # type: ignore[arg-type]
        return running[-1]

    yield make
    for ranks in running:
        ranks.kill()
