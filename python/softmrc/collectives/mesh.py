"""Ranks that reach each other: one endpoint a process, a connection to every other rank, lanes for groups.

The face that groups and users see; how it lives is `life.py`'s.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from softmrc._core import CollRunner
from softmrc.collectives.blame import Trouble
from softmrc.collectives.calls import Call
from softmrc.collectives.groups import Job
from softmrc.collectives.life import Life
from softmrc.collectives.report import Report
from softmrc.errors import PeerError

__all__ = ["Mesh"]


class Mesh(Life):
    """One rank. Every method may be called from any thread."""

    _final: Report | None = None

    @property
    def runner(self) -> CollRunner:
        """The runner of collectives; made when first asked for."""
        self._require_open()
        return self._lanes.runner

    def lanes(self, key: str, ranks: Sequence[int], timeout: float | None = None) -> int:
        """Make a group, together with all its members, and return its number.

        Args:
            key: its name, the same on all members, never used before in this mesh.
            ranks: members by rank in the mesh, in the group's order, the same on all members.
            timeout: seconds for this call and for the group's collectives; None: the mesh's.

        Raises:
            UsageError: the name was used, or this rank is no member.
            PeerError: a member did not come, is gone or is lost; the same text on all members.
        """
        self._require_open()
        patience = self.timeout if timeout is None else timeout
        state = self.groups.add(key, ranks, self.rank, patience)
        ended = self.obituary.known()
        if any(r in ended for r in state.ranks):
            self.endpoint.hub.call_soon(lambda: self.blame.ask(state, Trouble(what="making the group")))

        def missing(who: Sequence[int], what: str) -> PeerError:
            return self.blame.verdict(
                state, Trouble(what=f"making the group ({what})", waits=tuple(who), waited=patience)
            )

        gid = self._lanes.open(state, time.monotonic() + patience, missing)
        self.groups.number(state, gid)
        if state.broken is not None:  # meanwhile
            self._abort_jobs(state, state.broken)
        return gid

    def release(self, gid: int) -> None:
        """Give a group back; its running collectives and letters fail."""
        state = self.groups.of(gid)
        self.groups.remove(state)
        self.p2p.fail_group(state, state.broken or "")
        if not self._closing:
            self._lanes.release(state, self.obituary.known)

    def entered(self, gid: int, what: str, nbytes: int, call: Call) -> None:
        """Note that this rank calls a collective, before it sends anything; in the order of calls.

        Args:
            gid: the group.
            what: name of the collective.
            nbytes: its size.
            call: for comparing it with what the others call.
        """
        self.groups.of(gid).entered(what, nbytes, call)

    def running(self, gid: int, job: Job | None) -> None:
        """Note that the collective that was entered runs.

        Args:
            gid: the group.
            job: asked whether it is done and for whom it waits; None: it was not begun.
        """
        state = self.groups.of(gid)
        state.running(job)
        if self.obituary.any(state.ranks):
            self.endpoint.hub.call_later(0.05, lambda: self._check(state))

    def broken(self, gid: int) -> PeerError | None:
        """Return why a group cannot be used any more, None while it can."""
        self._require_open()
        return self.groups.of(gid).error()

    def verdict(
        self,
        gid: int,
        what: str,
        waiting_for: Sequence[int] = (),
        failure: Mapping[str, Any] | None = None,
        waited_s: float = 0.0,
        says: str = "",
    ) -> PeerError:
        """Find out, with all members, who is to blame; the group is broken afterwards.

        Args:
            gid: the group.
            what: the collective that failed, in words.
            waiting_for: ranks of the group it waits for.
            failure: what the runner said; `peer` is a rank of the group.
            waited_s: seconds.
            says: in what this rank and another called different things, in words; empty: in nothing.

        Returns:
            The error to raise, with the same text on all members; after a tenth of the group's timeout at most.
        """
        state = self.groups.of(gid)
        state.says = state.says or says
        if failure is not None and failure.get("peer") in range(len(state.ranks)):
            failure = {**failure, "peer": state.ranks[int(failure["peer"])]}
        waits = tuple(state.ranks[i] for i in waiting_for)
        return self.blame.verdict(state, Trouble(what=what, waits=waits, failed=failure, waited=waited_s))

    def compare(self, gid: int, waiting_for: Sequence[int]) -> None:
        """Have ranks of a group that this one waits for look whether they have called what this one has."""
        state = self.groups.of(gid)
        self.blame.compare(state, [state.ranks[i] for i in waiting_for])

    def condemn(self, gid: int, text: str) -> PeerError:
        """Break a group on all members with this text, unless it is broken already. Returns the error to raise."""
        return self.blame.condemn(self.groups.of(gid), text)

    def roll_call(self, gid: int, timeout: float) -> list[int]:
        """Wait until all members have called this; see `RollCall.call`."""
        self._require_open()
        return self._roll.call(self.groups.of(gid), timeout)

    def report(self) -> Report:
        """Return what this rank has ridden through so far; after the end, until then."""
        if self._final is not None:
            return self._final
        stats = self.endpoint.stats()
        packets, resent = self.resent.totals()
        return Report(
            rank=self.rank,
            size=self.size,
            planes=tuple(p.address for p in self.endpoint.planes),
            seconds=time.monotonic() - self._began,
            incidents=self.ridden.incidents(),
            bytes_sent=sum(stats.plane_tx_bytes.values()),
            bytes_local=self._lanes.local_bytes(),
            bytes_resent=resent,
            packets_resent=packets,
            seconds_lost=self.ridden.seconds_lost(),
            collectives=sum(s.count for s in self.groups.every()),
            failed=tuple(self._failed),
        )

    def _last_look(self) -> None:
        self._final = self.report()
