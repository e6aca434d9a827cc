"""The mesh of a process, and the groups on it.

Decides which mesh a new process group joins, what its name there is, and when the mesh ends. Leaves connections and
failures to `softmrc.collectives`.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from softmrc.collectives import Group, Mesh
from softmrc.collectives.forked import keep_for_ever
from softmrc.errors import UsageError
from softmrc.torch_backend import release
from softmrc.torch_backend.meeting import meet
from softmrc.torch_backend.store import TorchStore

__all__ = ["Member", "World", "current"]

_PART_SECONDS = 1.0
"""How long the other ranks' last group waits for rank 0 to give its store back."""
_lock = threading.Lock()
_worlds: list[World] = []


@dataclass(eq=False)
class World:
    """One mesh, shared by the process groups that stand on it."""

    mesh: Mesh
    size: int
    members: list[Member] = field(default_factory=list)
    names: Counter[str] = field(default_factory=Counter)
    pid: int = field(default_factory=os.getpid)
    place: tuple[str, int] | None = None
    """Where the store is served that ends with this mesh; None: it does not."""
    inherited: bool = False
    """This process is a fork of the one that opened it."""

    @classmethod
    def open(cls, store: Any, rank: int, size: int, timeout: float, default: bool) -> World:
        """Meet the other ranks in torch's store and connect to them.

        Args:
            store: torch's store of the group.
            rank: of this process.
            size: number of ranks.
            timeout: seconds for all of it.
            default: it is torch's default group that is made.

        Raises:
            PeerError: a rank did not come, or could not be reached; the text names it.
        """
        shared = TorchStore(store, size)
        meeting = meet(shared, "softmrc", rank, size, timeout)
        mesh = Mesh(shared, rank, size, timeout=timeout, name=f"softmrc/{meeting}")
        release.forget_kept()
        world = cls(mesh, size, place=release.place_of(store) if default else None)
        with _lock:
            _worlds.append(world)
        return world

    def join(self, name: str, ranks: Sequence[int], rank: int, timeout: float) -> Member:
        """Make a group of some ranks of the mesh; all of them call this.

        Args:
            name: torch's name of the group.
            ranks: numbers in the mesh, in the order of the group.
            rank: this process's place in `ranks`.
            timeout: of calls that name none, and of the set-up; seconds.
        """
        with _lock:
            self.names[name] += 1
            key = f"{name}#{self.names[name]}"
        group = Group(self.mesh, ranks, key=key, timeout=timeout)
        member = Member(self, group, rank, len(ranks))
        with _lock:
            self.members.append(member)
        return member

    def drop(self, member: Member) -> bool:
        """Take a member out; tell whether it was the last and the mesh is to be closed."""
        with _lock:
            if member not in self.members:
                return False
            self.members.remove(member)
            last = not self.members
            if last and self in _worlds:
                _worlds.remove(self)
            return last

    def part(self, patience: float) -> None:
        """Let go of the store that rank 0 serves, in an order in which all can come back."""
        if self.place is not None and not self.mesh.closed:
            release.part(self, self.mesh.parting, self.place, self.mesh.rank, patience)


@dataclass(eq=False)
class Member:
    """This process's place in one group."""

    world: World
    group: Group
    rank: int
    size: int

    def check(self) -> None:
        """Refuse to act in a process that does not own the mesh.

        Raises:
            UsageError: this is a forked child.
        """
        if self.world.inherited:
            raise UsageError(
                f"this process group belongs to process {self.world.pid}, of which this one (pid {os.getpid()}) is a "
                "fork; a child that is to communicate calls init_process_group itself, or is started with 'spawn'"
            )

    def leave(self) -> None:
        """Close the group, and the mesh with the last of its groups; a second call does nothing."""
        if self.world.inherited:
            return
        last = self.world.drop(self)
        if last:
            self.world.part(_PART_SECONDS)
        self.group.close()
        if last:
            self.world.mesh.close()

    def abort(self, why: str) -> None:
        """End the group at once, and the mesh with the last of its groups."""
        if self.world.inherited:
            return
        last = self.world.drop(self)
        self.group.abort(why)
        if last:
            self.world.part(0.0)
        if last:
            self.world.mesh.abort(why)


def current() -> World | None:
    """Return the oldest mesh that is open in this process: the default process group's, if that is ours."""
    with _lock:
        return _worlds[0] if _worlds else None


def _forked() -> None:
    """In a fresh child: forget the parent's meshes without touching them."""
    global _lock
    _lock = threading.Lock()
    for world in _worlds:
        world.inherited = True
    keep_for_ever(list(_worlds))
    _worlds.clear()


os.register_at_fork(after_in_child=_forked)
