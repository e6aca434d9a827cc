"""What torch users may call besides torch itself: what a job has ridden through, and the endpoint below it.

Nothing here is needed for `init_process_group("mrc")`; torch finds the backend by itself. Importing this module
registers it too, for the case that the entry point was switched off (`TORCH_DEVICE_BACKEND_AUTOLOAD=0`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import torch.distributed as dist
except ImportError as missing:
    from softmrc.errors import UsageError

    raise UsageError("softmrc.torch needs torch (pip install 'softmrc[torch]')") from missing

from softmrc.errors import UsageError
from softmrc.torch_backend import entry
from softmrc.torch_backend.barrier import monitored_barrier
from softmrc.torch_backend.work import PeerFailureError
from softmrc.torch_backend.world import World, current

if TYPE_CHECKING:
    from softmrc.collectives.report import Report
    from softmrc.endpoint import Endpoint

__all__ = ["PeerFailureError", "endpoint", "monitored_barrier", "report"]

if not dist.is_available():
    raise UsageError("this torch was built without torch.distributed; install one that has it")
entry.load()
if "MRC" not in dist.Backend._plugins:
    raise UsageError('this torch cannot register the backend "mrc"; torch 2.6 or newer is needed')


def report() -> Report:
    """Return what the job has ridden through so far: incidents, bytes sent again, time lost.

    Raises:
        UsageError: no process group of the backend "mrc" is there.
    """
    return _world().mesh.report()


def endpoint() -> Endpoint:
    """Return the endpoint that the default process group of this rank communicates through.

    Raises:
        UsageError: no process group of the backend "mrc" is there.
    """
    return _world().mesh.endpoint


def _world() -> World:
    world = current()
    if world is None:
        raise UsageError(
            'there is no process group of the backend "mrc"; call init_process_group("mrc") first'
        )
    return world
