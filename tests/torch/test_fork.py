"""B36: fork after init (DataLoader workers) neither crashes nor corrupts; use in a child is a clear error."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from tests.torch.ranks import PLANES, Ranks


@pytest.mark.parametrize("size", [2])
def test_field_b36_data_loader_workers(start: Callable[..., Ranks], size: int) -> None:
    from tests.torch import fork_cases

    ranks = start(size)
    assert ranks.call(fork_cases.loader) == [2.0 * size * sum(range(64))] * size
    assert ranks.close() == [0] * size


def test_field_b36_a_child_that_uses_the_group_is_told(start: Callable[..., Ranks]) -> None:
    from tests.torch import fork_cases

    ranks = start(2)
    for said, summed in ranks.call(fork_cases.use_in_child):
        assert "fork" in said
        assert "init_process_group" in said
        assert summed == 2.0
    assert ranks.close() == [0, 0]


_FORKS = """
import os, sys, torch, torch.distributed as dist
from tests.torch.fork_cases import exit_of_child
if __name__ == "__main__":
    rank = int(sys.argv[1])
    dist.init_process_group("mrc", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
    status, value = exit_of_child(rank, 2)
    assert (status, value) == (7, 1.0), (status, value)
    dist.barrier()
    dist.destroy_process_group()
    print("fine")
"""


def test_field_b36_a_child_that_exits_leaves_the_parent_alone(tmp_path: object) -> None:
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", _FORKS, str(rank), f"{tmp_path}/store"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"SOFTMRC_PLANES": PLANES},
        )
        for rank in range(2)
    ]
    try:
        for process in ranks:
            out, err = process.communicate(timeout=40)
            assert out == "fine\n", err
            assert process.returncode == 0
            assert "Traceback" not in err
            assert "leak" not in err
    finally:
        for process in ranks:
            process.kill()
