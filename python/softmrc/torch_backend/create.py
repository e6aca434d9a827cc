"""From torch's options to a process group: called for every `init_process_group` and `new_group`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch.distributed as dist

from softmrc.torch_backend import barrier
from softmrc.torch_backend.process_group import MrcProcessGroup
from softmrc.torch_backend.work import torch_error
from softmrc.torch_backend.world import World

__all__ = ["create"]


def create(options: Any, backend_options: object) -> MrcProcessGroup:
    """Make the process group of this rank.

    Args:
        options: `_DistributedBackendOptions`: store, ranks, timeout, name.
        backend_options: what the user passed as `pg_options`; there are none, see `docs/torch.md`.

    Raises:
        PeerFailureError: a rank did not come in time or could not be reached.
    """
    barrier.serve_mrc()
    timeout = _timedelta(options.timeout)
    ranks = list(options.global_ranks_in_group)
    rank, name = options.group_rank, str(options.group_id)
    try:
        default = not ranks
        world = None if default else _common_world()
        if world is None:
            ranks = list(range(options.group_size))
            world = World.open(options.store, rank, len(ranks), timeout.total_seconds(), default)
        member = world.join(name, ranks, rank, timeout.total_seconds())
    except Exception as error:
        raise torch_error(error) from error.__cause__
    return MrcProcessGroup(options.store, member, timeout)


def _common_world() -> World | None:
    """Return the default group's mesh, on which a sub-group stands; None if that group is another backend's."""
    default = dist.distributed_c10d._get_default_group()
    return default.member.world if isinstance(default, MrcProcessGroup) else None


def _timedelta(timeout: Any) -> timedelta:
    return timeout if isinstance(timeout, timedelta) else timedelta(seconds=float(timeout))
