"""Ranks as processes that meet by `init`; what `init` refuses."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from softmrc.collectives import init
from softmrc.collectives.start import _place
from softmrc.errors import PeerError, UsageError

EXAMPLE = Path(__file__).parents[3] / "examples" / "all_reduce.py"


def test_the_example_runs() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr
    said = re.findall(r"rank (\d) of 3: mean 1\.5, gathered 300000 numbers", done.stdout)
    assert sorted(said) == ["0", "1", "2"], done.stdout


def test_places() -> None:
    assert _place("10.0.0.1:5") == ("10.0.0.1", 5)
    assert _place("[fd00::1]:29500") == ("fd00::1", 29500)


def test_without_rank_size_or_store(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="RANK"):
        init()
    with pytest.raises(UsageError, match="WORLD_SIZE"):
        init(0)
    with pytest.raises(UsageError, match="MASTER_ADDR"):
        init(0, 2)
    with pytest.raises(UsageError, match="host:port"):
        init(0, 2, store="nowhere")
    with pytest.raises(UsageError):
        init(2, 2, store="127.0.0.1:1", timeout=0.2)


def test_a_rank_that_never_comes_is_named() -> None:
    with pytest.raises(PeerError, match="1"):
        init(0, 2, store="127.0.0.1:0", timeout=0.5)
