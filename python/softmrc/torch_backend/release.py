"""The store that rank 0 serves ends with the default process group: no rank that comes back may still find it.

torch's rank 0 drops its store some time after `shutdown` has returned, and another rank that calls
`init_process_group` again at the same port before that is cut off. So rank 0 gives the store back within `shutdown`,
and the others return from theirs after that (`collectives.parting` has the order). Decides which stores that is about:
TCP stores that a rank serves, not those of torchrun's agent.
"""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch._C import _distributed_c10d as _c10d

if TYPE_CHECKING:
    from softmrc.collectives.parting import Parting
    from softmrc.torch_backend.world import World

__all__ = ["forget_kept", "part", "place_of"]

_AGENT = "TORCHELASTIC_USE_AGENT_STORE"
_LOOKS, _PAUSE = 10, 0.005
_kept: list[Any] = []


def place_of(store: Any) -> tuple[str, int] | None:
    """Return host and port of the TCP store below a store, when it ends with the ranks; else None."""
    tcp = _bare(store)
    if not isinstance(tcp, _c10d.TCPStore) or os.environ.get(_AGENT) == str(True):
        return None
    return tcp.host, tcp.port


def part(world: World, parting: Parting, place: tuple[str, int], rank: int, patience: float) -> None:
    """Let go of the store of a world whose last group ends.

    Args:
        world: whose groups let go of it.
        parting: of its mesh.
        place: host and port of the store.
        rank: of this process.
        patience: seconds that the others wait for rank 0.
    """
    if rank != 0:
        parting.wait(patience)
        return
    early = parting.begin()
    _let_go(world, keep=early)
    if early or not _answers(place):
        parting.finish()
    # Else somebody else holds it, until torch has destroyed that as well: the others wait until this rank has left.


def forget_kept() -> None:
    """The next start has met: its own stores hold the server that was kept for it."""
    _kept.clear()


def _let_go(world: World, keep: bool) -> None:
    """Have no group of a world hold the store any more, nor torch's table of groups."""
    groups: dict[Any, Any] = dist.distributed_c10d._world.pg_map
    for group, (backend, store) in list(groups.items()):
        member = getattr(group, "member", None)
        if member is None or member.world is not world:
            continue
        if keep and store is not None:
            _kept[:] = [_bare(store)]
        groups[group] = (backend, None)
        group._store = None


def _bare(store: Any) -> Any:
    while isinstance(store, _c10d.PrefixStore):
        store = store.underlying_store
    return store


def _answers(place: tuple[str, int]) -> bool:
    for _ in range(_LOOKS):
        try:
            socket.create_connection(place, 0.5).close()
        except OSError:
            return False
        time.sleep(_PAUSE)
    return True
