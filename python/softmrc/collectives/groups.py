"""What a rank knows of the groups it belongs to: members, how far its own calls have come, whether it is broken."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from softmrc.collectives.calls import Call
from softmrc.errors import PeerError, UsageError

__all__ = ["GroupState", "Groups", "Job"]

_RECENT = 32
"""Calls that are compared when something fails."""


class Job(Protocol):
    """What is asked of a running collective; `_core.CollJob` has it."""

    def done(self) -> bool:
        """Return True once it succeeded, failed or was aborted."""

    def waiting_for(self) -> list[int]:
        """Return the ranks, as the group counts, whose message is missing."""


@dataclass
class GroupState:
    """One group."""

    key: str
    """Same text on all members; never used again."""
    ranks: tuple[int, ...]
    """Members by their rank in the mesh, in the group's order."""
    me: int
    """Rank of this end in the group."""
    timeout: float
    """Seconds a collective may take."""
    gid: int = -1
    """Of the runner; -1 until the lanes are there."""
    count: int = 0
    """Collectives that this end has called."""
    recent: deque[tuple[int, Call]] = field(default_factory=lambda: deque(maxlen=_RECENT))
    """The newest calls, by number."""
    entering: bool = False
    """The newest is known to others, and not running yet."""
    says: str = ""
    """In what this end's calls differ from another rank's, in words."""
    last: tuple[str, int] = ("", 0)
    """The newest: name and bytes."""
    before: tuple[str, int] = ("", 0)
    """The one before it."""
    jobs: deque[Job] = field(default_factory=deque)
    """Running ones, oldest first; finished ones may still be among them."""
    broken: str | None = None
    """Why the group cannot be used any more, the same text on all members."""
    changed: threading.Condition = field(default_factory=threading.Condition)
    """Notified when `broken` is set, and when lanes come up."""

    @property
    def others(self) -> list[int]:
        """The members but this end, by rank in the mesh."""
        return [r for i, r in enumerate(self.ranks) if i != self.me]

    def entered(self, what: str, nbytes: int, call: Call) -> None:
        """Note a call of this end, before anybody can learn of it from its messages."""
        self.entering = True
        self.count += 1
        self.recent.append((self.count, call))
        self.before, self.last = self.last, (what, nbytes)

    def running(self, job: Job | None) -> None:
        """Note that the newest call runs; None: it was not begun."""
        self.entering = False
        if job is None:
            self.count -= 1
            self.recent.pop()
            self.last = self.before
            return
        jobs = self.jobs
        while jobs and jobs[0].done():
            jobs.popleft()
        jobs.append(job)

    def waiting_for(self) -> list[int]:
        """Return for whom running collectives wait, by rank in the mesh."""
        out: set[int] = set()
        for job in list(self.jobs):
            if not job.done():
                out |= {self.ranks[i] for i in job.waiting_for()}
        return sorted(out)

    def busy(self) -> bool:
        """Return True while a collective runs."""
        return self.entering or any(not job.done() for job in list(self.jobs))

    def report(self) -> dict[str, Any]:
        """Return how far this end has come, for others."""
        out = {"count": self.count, "last": self.last, "waits": self.waiting_for(), "says": self.says}
        return {**out, "prints": {number: call.print() for number, call in list(self.recent)}}

    def error(self) -> PeerError | None:
        """Return why it is broken, as a new error."""
        return PeerError(self.broken) if self.broken is not None else None


class Groups:
    """All of them, by key and by the runner's number."""

    def __init__(self) -> None:
        """Start with none."""
        self._lock = threading.Lock()
        self._by_key: dict[str, GroupState] = {}
        self._by_gid: dict[int, GroupState] = {}
        self.condemned: dict[str, str] = {}
        """Groups that others gave up before this end knew them, and why."""

    def add(self, key: str, ranks: Sequence[int], rank: int, timeout: float) -> GroupState:
        """Begin a group.

        Args:
            key: its name.
            ranks: members by rank in the mesh.
            rank: of this end in the mesh.
            timeout: seconds a collective may take.

        Raises:
            UsageError: the key was used before, a rank occurs twice, or this end is no member.
        """
        if len(set(ranks)) != len(ranks) or rank not in ranks:
            raise UsageError(
                f"group {key!r}: members are distinct ranks, rank {rank} among them, not {list(ranks)}"
            )
        with self._lock:
            if key in self._by_key:
                raise UsageError(f"group {key!r} exists; every group of a mesh has a name of its own")
            state = GroupState(key, tuple(ranks), list(ranks).index(rank), timeout)
            state.broken = self.condemned.pop(key, None)
            self._by_key[key] = state
            return state

    def number(self, state: GroupState, gid: int) -> None:
        """Say which number the runner gave it."""
        with self._lock:
            state.gid = gid
            self._by_gid[gid] = state

    def remove(self, state: GroupState) -> None:
        """Forget a group; its key stays used."""
        with self._lock:
            self._by_gid.pop(state.gid, None)
            state.broken = state.broken or f"group {state.key!r} was released on this rank"

    def of(self, gid: int) -> GroupState:
        """Return a group by number; UsageError when there is none."""
        state = self._by_gid.get(gid)
        if state is None:
            raise UsageError(f"no group {gid}: it was released, or never made")
        return state

    def named(self, key: str) -> GroupState | None:
        """Return a group by name."""
        return self._by_key.get(key)

    def all(self) -> list[GroupState]:
        """Return the groups that are in use, broken ones as well."""
        with self._lock:
            return [s for s in self._by_key.values() if s.gid < 0 or s.gid in self._by_gid]

    def every(self) -> list[GroupState]:
        """Return all groups there ever were."""
        with self._lock:
            return list(self._by_key.values())

    def with_member(self, rank: int) -> list[GroupState]:
        """Return those that a rank of the mesh belongs to."""
        return [s for s in self.all() if rank in s.ranks]
