"""torchrun: ranks are killed or raise, all are started again, and the job ends where an undisturbed one ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.torch.ranks import PLANES, Ranks

_WORKER = Path(__file__).with_name("elastic_worker.py")


def _torchrun(directory: Path, how: str) -> list[str]:
    directory.mkdir()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
            *("--max-restarts=1", "--monitor-interval=0.1", str(_WORKER), str(directory), how),
        ],
        env=os.environ | {"SOFTMRC_PLANES": PLANES, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [(directory / f"result{rank}").read_text() for rank in range(2)]


@pytest.mark.timeout(110)
@pytest.mark.parametrize("how", ["killed", "raises"])
def test_a_restarted_job_ends_like_an_undisturbed_one(
    world: Callable[[int], Ranks], tmp_path: Path, how: str
) -> None:
    from tests.torch import elastic_worker

    quiet = world(2).call(elastic_worker.train, str(tmp_path / "quiet"), "quiet")
    results = [*quiet, *_torchrun(tmp_path / how, how)]
    assert len(set(results)) == 1, results
