"""`dist.monitored_barrier` for groups of ours.

Torch refuses the call for every backend but gloo before it asks the group. So the function of that name is replaced,
once the first group of ours is made, by one that hands our groups the call and all others to torch.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any

import torch.distributed as dist

from softmrc.torch_backend.process_group import MrcProcessGroup

__all__ = ["monitored_barrier", "serve_mrc"]


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Wait for all ranks of a group, and name those that do not come.

    Args:
        group: a process group of the backend "mrc"; None is the default group.
        timeout: how long to wait; None is the group's timeout.
        wait_all_ranks: name all missing ranks instead of the first.

    Raises:
        DistBackendError: on all ranks that came, if one did not.
    """
    group = dist.distributed_c10d._get_default_group() if group is None else group
    group.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)


def serve_mrc() -> None:
    """Let `dist.monitored_barrier` serve groups of ours too."""
    c10d = dist.distributed_c10d
    original: Callable[..., None] = c10d.monitored_barrier
    if getattr(original, "_serves_mrc", False):
        return

    @wraps(original)
    def either(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        pg = c10d._get_default_group() if group is None else group
        if isinstance(pg, MrcProcessGroup):
            monitored_barrier(pg, timeout, wait_all_ranks)
        else:
            original(group, timeout, wait_all_ranks)

    either._serves_mrc = True  # type: ignore[attr-defined]
    c10d.monitored_barrier = either
    dist.monitored_barrier = either
