"""Ranks that reach each other: one endpoint a process, a connection to every other rank, lanes for groups.

Decides how a mesh begins and ends, and what the end of a rank means for the groups it belongs to; leaves who is to
blame to `blame.py`, letters to `p2p.py` and the collectives themselves to `Group`. A network failure is no failure of a
rank: connections wait a total loss out for the hold time.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from softmrc._core import CollRunner
from softmrc.collectives.blame import Blame, Trouble
from softmrc.collectives.choose import Choice, card_of_host, choose_planes
from softmrc.collectives.farewell import Farewell
from softmrc.collectives.groups import Groups, GroupState, Job
from softmrc.collectives.lanes import Lane, Lanes
from softmrc.collectives.obituary import GONE, LEFT, Obituary
from softmrc.collectives.p2p import P2P
from softmrc.collectives.peers import Peers
from softmrc.collectives.report import Report
from softmrc.collectives.resent import Resent
from softmrc.collectives.ridden import Ridden
from softmrc.collectives.rollcall import RollCall
from softmrc.collectives.roster import Door, Roster
from softmrc.collectives.service import Service
from softmrc.collectives.store import Store
from softmrc.collectives.watch import Watch
from softmrc.device import end_block
from softmrc.endpoint import Endpoint
from softmrc.errors import MrcError, PeerError, UsageError

__all__ = ["Mesh"]

_HOLD_TIME = "SOFTMRC_HOLD_TIME"
_LINGER, _JOB_GRACE, _FAREWELL = 10.0, 1.0, 2.0
_MAX_HOLD = 86400.0
_shown: set[str] = set()
_open: set[Mesh] = set()


class Mesh:
    """One rank of it. Every method may be called from any thread."""

    def __init__(
        self,
        store: Store,
        rank: int,
        size: int,
        *,
        planes: Sequence[str] | None = None,
        timeout: float = 300.0,
        hold_time: float | None = None,
        name: str = "",
        knobs: Mapping[str, Any] | None = None,
    ) -> None:
        """Meet the other ranks and connect to all of them.

        Args:
            store: where they meet; used while the mesh is being made only.
            rank: of this process, 0 to size - 1.
            size: number of ranks.
            planes: addresses, interfaces, prefixes or exclusions, as `Endpoint` takes them; None: those of
                SOFTMRC_PLANES or SOFTMRC_IFACES, else chosen by route.
            timeout: seconds for meeting, and for a collective unless it says otherwise.
            hold_time: seconds that a total loss of the network is waited out; None: SOFTMRC_HOLD_TIME, else `timeout`.
            name: tells meshes of one store apart; the same on all ranks.
            knobs: further ones of the endpoint; see `softmrc.endpoint.Knobs`.

        Raises:
            UsageError: arguments that cannot be, or no planes that fit.
            PeerError: ranks did not come or cannot be reached; the text names them, on every rank.
        """
        if size < 1 or not 0 <= rank < size:
            raise UsageError(f"rank is 0 to {size - 1} of {size} ranks, not {rank}")
        if not timeout > 0:
            raise UsageError(f"timeout is a positive number of seconds, not {timeout}")
        self.rank, self.size, self.timeout, self.name = rank, size, float(timeout), name
        self._pid = os.getpid()
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._closing = False
        self.service = Service(f"callbacks of rank {rank}")
        self._failed: list[str] = []
        self.groups = Groups()
        self.ridden, self.resent = Ridden(), Resent()
        roster = Roster(store, f"softmrc/{name}", rank, size, timeout)
        cards = roster.cards(card_of_host(planes))
        choice = choose_planes(cards, rank)
        self.endpoint = self._open_endpoint(choice, hold_time, knobs or {})
        try:
            self._meet(roster, cards[rank].name)
        except BaseException:
            self._free()
            raise
        _open.add(self)

    # --- beginning ------------------------------------------------------------------------------------------

    def _open_endpoint(self, choice: Choice, hold_time: float | None, knobs: Mapping[str, Any]) -> Endpoint:
        hold = hold_time
        if hold is None:
            try:
                hold = float(os.environ.get(_HOLD_TIME, "") or self.timeout)
            except ValueError:
                raise UsageError(
                    f"{_HOLD_TIME} is a number of seconds, not {os.environ[_HOLD_TIME]!r}"
                ) from None
        if not 0 < hold <= _MAX_HOLD:
            hold = _MAX_HOLD if hold > _MAX_HOLD else 0
            if not hold:
                raise UsageError("the hold time is a positive number of seconds")
        given: dict[str, Any] = {
            "name": f"rank {self.rank} of {self.size} (process {os.getpid()})",
            "hold_time": hold,
            "keepalive": 1.0 + 0.05 * self.size,
            "linger": _FAREWELL,
            **knobs,
        }
        endpoint = Endpoint(*choice.planes, **given)
        text = f"rank 0 of {self.size}: planes {', '.join(p.address for p in endpoint.planes)} ({choice.why})"
        if self.rank == 0 and text not in _shown:
            _shown.add(text)
            print(f"softmrc: {text}", file=sys.stderr, flush=True)
        return endpoint

    def _meet(self, roster: Roster, name: str) -> None:
        ep, end = self.endpoint, self._began + self.timeout
        listener = ep.listen(token=roster.token)
        self.obituary = Obituary(ep.hub, self.rank, self._on_end)
        self.watch = Watch(
            ep, listener.addresses, self.rank, self.size, roster.token, self.obituary.on_closed
        )
        here = Door(
            name=name,
            generation=ep.generation,
            addresses=listener.addresses,
            port=listener.port,
            watch_port=self.watch.port,
        )
        self.doors = roster.doors(here)
        self.peers = Peers(ep, listener, self.rank, self.doors, roster.token, self._on_connection_end)
        self.obituary.begin(self.peers)
        self.p2p = P2P(ep, self.groups, self.peers, self.rank)
        self.blame = Blame(
            ep.hub,
            self.groups,
            self.peers,
            self.rank,
            ended=self.obituary.known,
            name=self.name_of,
            planes=self._planes_to,
            on_verdict=self._on_verdict,
        )
        self.farewell = Farewell(ep.hub, self.peers, self.obituary.on_leave, self._needs)
        self._roll = RollCall(self.peers)
        self._lanes = Lanes(ep, self.peers, self._on_lane)
        ep.ctx.pump.add_sink(self.ridden.on_event)
        self.watch.connect(self.doors, max(0.1, end - time.monotonic()))
        self.peers.connect(max(0.1, end - time.monotonic()), self._gone_text)
        for rank, conn in self.peers.all().items():
            self.ridden.listen(conn.qp_numbers[0], rank, len(conn.stats().paths), conn.path_names)
            self.resent.add(conn.qp_numbers[0], conn._data.stats, conn.pmtu)

    # --- what groups use ------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """True once `close` or `abort` was called."""
        return self._closing

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

    def entered(self, gid: int, what: str, nbytes: int, job: Job | None = None) -> None:
        """Note that this rank has called a collective; in the order of calls.

        Args:
            gid: the group.
            what: name of the collective.
            nbytes: its size.
            job: asked whether it is done and for whom it waits.
        """
        state = self.groups.of(gid)
        state.entered(what, nbytes, job)
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
    ) -> PeerError:
        """Find out, with all members, who is to blame; the group is broken afterwards.

        Args:
            gid: the group.
            what: the collective that failed, in words.
            waiting_for: ranks of the group it waits for.
            failure: what the runner said; `peer` is a rank of the group.
            waited_s: seconds.

        Returns:
            The error to raise, with the same text on all members; after a tenth of the group's timeout at most.
        """
        state = self.groups.of(gid)
        if failure is not None and failure.get("peer") in range(len(state.ranks)):
            failure = {**failure, "peer": state.ranks[int(failure["peer"])]}
        waits = tuple(state.ranks[i] for i in waiting_for)
        return self.blame.verdict(state, Trouble(what=what, waits=waits, failed=failure, waited=waited_s))

    def condemn(self, gid: int, text: str) -> PeerError:
        """Break a group on all members with this text, unless it is broken already. Returns the error to raise."""
        return self.blame.condemn(self.groups.of(gid), text)

    def roll_call(self, gid: int, timeout: float) -> list[int]:
        """Wait until all members have called this; see `RollCall.call`."""
        self._require_open()
        return self._roll.call(self.groups.of(gid), timeout)

    def name_of(self, rank: int) -> str:
        """Return a rank in words."""
        return f"rank {rank} ({self.doors[rank].name})"

    # --- report ---------------------------------------------------------------------------------------------

    def report(self) -> Report:
        """Return what this rank has ridden through so far."""
        stats = self.endpoint.stats()
        packets, resent = self.resent.totals()
        return Report(
            rank=self.rank,
            size=self.size,
            planes=tuple(p.address for p in self.endpoint.planes),
            seconds=time.monotonic() - self._began,
            incidents=self.ridden.incidents(),
            bytes_sent=sum(stats.plane_tx_bytes.values()),
            bytes_resent=resent,
            packets_resent=packets,
            seconds_lost=self.ridden.seconds_lost(),
            collectives=sum(s.count for s in self.groups.every()),
            failed=tuple(self._failed),
        )

    # --- the endpoint's thread ------------------------------------------------------------------------------

    def _on_end(self, rank: int, how: str) -> None:
        """A rank has ended, and everything it had sent has been handed out."""
        for state in self.groups.with_member(rank):
            if how == GONE:
                self.blame.ask(state, Trouble())
            else:
                self._check(state)
        self._lanes.sweep()
        if how == LEFT:
            self.p2p.fail_rank(rank, f"{self.name_of(rank)} left: it closed the mesh, or its program ended")
            return
        text = f"{self.name_of(rank)} is gone: its process ended"
        self.endpoint.hub.call_later(self.timeout * 0.1, lambda: self.p2p.fail_rank(rank, text))
        if (conn := self.peers.all().get(rank)) is not None:
            conn.give_up(PeerError(text))

    def _on_connection_end(self, rank: int, error: BaseException) -> None:
        if self._closing or self.obituary.any([rank]):
            return
        conn = self.peers.conn(rank)
        if conn.peer_left:
            self.obituary.on_leave(rank)
            return
        self.p2p.fail_rank(rank, str(error))
        for state in self.groups.with_member(rank):
            self.blame.ask(state, Trouble(waits=(rank,), failed={"peer": rank, "status": "lost"}))

    def _check(self, state: GroupState) -> None:
        """A member has left: that matters once a collective waits for it."""
        if state.broken is None and self.obituary.any(state.waiting_for()):
            self.blame.ask(state, Trouble())

    def _needs(self, rank: int) -> bool:
        return any(s.broken is None and s.busy() for s in self.groups.with_member(rank))

    def _on_verdict(self, state: GroupState, text: str) -> None:
        self._failed.append(text)
        self._abort_jobs(state, text)
        self.p2p.fail_group(state, text)

    def _abort_jobs(self, state: GroupState, text: str) -> None:
        if self._lanes.started and state.gid >= 0:
            with contextlib.suppress(MrcError, OSError, ValueError):
                self._lanes.runner.abort(state.gid, text)

    def _on_lane(self, lane: Lane, up: bool) -> None:
        if up:
            self.ridden.listen(lane.qp.qp_num, lane.rank, len(lane.qp.path_stats()), lane.path_names)
            self.resent.add(lane.qp.qp_num, lane.qp.stats, self.peers.conn(lane.rank).pmtu)
        else:
            self.ridden.forget([lane.qp.qp_num])
            self.resent.drop(lane.qp.qp_num)

    def _gone_text(self, rank: int) -> str | None:
        if not self.obituary.any([rank]):
            return None
        return f"{self.name_of(rank)} ended while the mesh was being made"

    def _planes_to(self, rank: int) -> str:
        conn = self.peers.all().get(rank)
        if conn is None:
            return "none"
        mine = {p.number: p.address for p in self.endpoint.planes}
        return ", ".join(f"{r.plane} ({mine.get(r.plane)} to {r.address})" for r in conn.routes)

    # --- end ------------------------------------------------------------------------------------------------

    def close(self, timeout: float | None = None) -> None:
        """Leave in good order: what was sent arrives, the others are told, everything is freed. Idempotent.

        Collectives that still run get a second; a call that waits in another thread then raises. Returns in time
        whatever the other ranks do.

        Args:
            timeout: seconds for what is on its way to arrive; None: 10, or less when the mesh's own is less.
        """
        if os.getpid() != self._pid:
            return
        patience = min(_LINGER, self.timeout) if timeout is None else max(0.0, timeout)
        if not self._begin_end(patience):
            return
        end = time.monotonic() + patience
        try:
            self._settle_jobs(min(end, time.monotonic() + _JOB_GRACE))
            while self.p2p.unsent() and time.monotonic() < end:
                time.sleep(0.002)
            self._say_goodbye(min(max(end - time.monotonic(), 0.1), _FAREWELL))
        finally:
            self._free()

    def abort(self, why: str = "") -> None:
        """Leave at once: what is on its way fails here, and the others learn that this rank left. Idempotent."""
        if os.getpid() != self._pid or not self._begin_end(1.0):
            return
        try:
            self._settle_jobs(time.monotonic(), why)
            self._say_goodbye(0.2)
        finally:
            self._free()

    def _begin_end(self, patience: float) -> bool:
        with self._lock:
            first, self._closing = not self._closing, True
        if not first:
            self._closed.wait(patience + 2 * _FAREWELL)
        return first

    def _settle_jobs(self, end: float, why: str = "") -> None:
        states = [s for s in self.groups.all() if s.gid >= 0]
        while time.monotonic() < end and any(s.broken is None and s.busy() for s in states):
            time.sleep(0.002)
        text = f"the mesh was closed on this rank ({self.rank}){': ' + why if why else ''}"
        for state in states:
            with state.changed:
                state.broken = state.broken or text
                state.changed.notify_all()
            self._abort_jobs(state, state.broken)
            self.p2p.fail_group(state, state.broken)

    def _say_goodbye(self, patience: float) -> None:
        ended = self.obituary.known
        alive = [r for r in self.peers.all() if r not in ended()]
        for rank in self.farewell.leave(alive, patience, ended):
            self.peers.conn(rank).give_up(PeerError(f"rank {rank} did not answer"))
        self.watch.leave()

    def _free(self) -> None:
        """Give everything back, whatever fails on the way."""
        self._closing = True
        with contextlib.ExitStack() as last_to_first:
            last_to_first.callback(self._closed.set)
            last_to_first.callback(_open.discard, self)
            last_to_first.callback(self.endpoint.close)
            last_to_first.callback(self.service.close)
            for part, end in (("watch", "close"), ("peers", "stop"), ("_lanes", "forget")):
                if hasattr(self, part):  # not when it failed while it was being made
                    last_to_first.callback(getattr(getattr(self, part), end))
            with contextlib.suppress(ValueError):
                self.endpoint.ctx.pump.remove_sink(self.ridden.on_event)

    def _require_open(self) -> None:
        if os.getpid() != self._pid:
            raise UsageError("this process was forked from the one that owns the mesh; make one here")
        if self._closing:
            raise UsageError("the mesh is closed")

    def __enter__(self) -> Mesh:
        """Enter: nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close, or abort when an error leaves the block."""
        end_block(self.close if kind is None else self.abort, error)


@atexit.register
def _close_all() -> None:
    """Linger for what a finished program has sent (B06), and tell the others; nothing survives the interpreter."""
    with contextlib.ExitStack() as each:
        for mesh in list(_open):
            each.callback(mesh.close)
