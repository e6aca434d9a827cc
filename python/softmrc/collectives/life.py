"""The life of a mesh: how it begins, what the end of a rank means for its groups, and how it ends.

`Mesh` adds what groups use. Decides the order of things only: who is there is `roster.py`'s, who has ended
`obituary.py`'s, who is to blame `blame.py`'s. A network failure is no failure of a rank: connections wait a total loss
out for the hold time.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from softmrc._core import CollRunner
from softmrc.collectives.blame import Blame, Trouble
from softmrc.collectives.choose import Card, card_of_host, choose_planes
from softmrc.collectives.farewell import Farewell
from softmrc.collectives.groups import Groups, GroupState
from softmrc.collectives.lanes import Lane, Lanes
from softmrc.collectives.neighbours import locality, meet_neighbours
from softmrc.collectives.obituary import GONE, Obituary
from softmrc.collectives.opening import hold_time_of, open_endpoint, say_once
from softmrc.collectives.p2p import P2P
from softmrc.collectives.parting import Parting
from softmrc.collectives.peers import Peers
from softmrc.collectives.resent import Resent
from softmrc.collectives.ridden import Ridden
from softmrc.collectives.rollcall import RollCall
from softmrc.collectives.roster import Door, Roster
from softmrc.collectives.service import Service
from softmrc.collectives.stalls import Stalls
from softmrc.collectives.store import Store
from softmrc.collectives.vitals import Vitals
from softmrc.collectives.watch import Watch
from softmrc.device import end_block
from softmrc.errors import MrcError, PeerError, UsageError

__all__ = ["Life"]

_LINGER, _JOB_GRACE, _FAREWELL = 10.0, 1.0, 2.0
_LEFT_TEXT = "left: it closed the mesh, or its program ended"
_open: set[Life] = set()


class Life:
    """One rank of a mesh, from meeting the others to leaving them."""

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
        local: bool | None = None,
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
            local: ranks of one host exchange large messages through memory instead of loopback; None: yes, unless
                SOFTMRC_LOCAL is 0.

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
        memory = locality(local) if getattr(CollRunner, "local_payload", False) else ""
        cards = roster.cards(card_of_host(planes, memory=memory))
        hold = hold_time_of(hold_time, timeout)
        choice = choose_planes(cards, rank)
        self.endpoint = open_endpoint(choice, rank, size, hold, knobs or {})
        try:
            self._meet(roster, cards)
        except BaseException:
            self._free()
            raise
        _open.add(self)

    def _meet(self, roster: Roster, cards: Sequence[Card]) -> None:
        ep, end = self.endpoint, self._began + self.timeout
        self.memories = tuple(card.memory for card in cards)  # the same on all ranks
        listener = ep.listen(token=roster.token)
        self.obituary = Obituary(ep.hub, self.rank, self._on_end)
        self.watch = Watch(
            ep, listener.addresses, self.rank, self.size, roster.token, self.obituary.on_closed
        )
        here = Door(
            name=cards[self.rank].name,
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
            silent_for=self._silent_for,
            seen=lambda: self.vitals.all(),
            on_verdict=self._on_verdict,
        )
        self.farewell = Farewell(ep.hub, self.peers, self.obituary.on_leave, self._needs)
        self.parting = Parting(self.peers, self.rank, self.obituary.known)
        self._roll = RollCall(self.peers)
        self.neighbours = meet_neighbours(
            ep.hub, cards, self.rank, roster.token, max(0.1, end - time.monotonic())
        )
        self.vitals = Vitals(self.neighbours)
        if self.rank == 0 and self.neighbours:
            say_once(f"{len(self.neighbours) + 1} ranks of this host exchange large messages through memory")
        self._lanes = Lanes(ep, self.peers, self._on_lane, self.neighbours)
        self.stalls = Stalls(ep.hub, self._busy, self._alive, self.ridden)
        ep.ctx.pump.add_sink(self.ridden.on_event)
        self.watch.connect(self.doors, max(0.1, end - time.monotonic()))
        self.peers.connect(max(0.1, end - time.monotonic()), self._gone_text)
        for rank, conn in self.peers.all().items():
            self.ridden.listen(conn.qp_numbers[0], rank, len(conn.stats().paths), conn.path_names)
            self.resent.add(conn.qp_numbers[0], conn._data.stats, conn.pmtu)
            self.stalls.add(conn.qp_numbers[0], rank, conn._data.stats)

    @property
    def closed(self) -> bool:
        """True once `close` or `abort` was called."""
        return self._closing

    def name_of(self, rank: int) -> str:
        """Return a rank in words."""
        return f"rank {rank} ({self.doors[rank].name})"

    # --- the endpoint's thread ------------------------------------------------------------------------------

    def _on_end(self, rank: int, how: str) -> None:
        """A rank has ended, and everything it had sent has been handed out."""
        for state in self.groups.with_member(rank):
            if how == GONE:
                self.blame.ask(state, Trouble())
            else:
                self._check(state)
        self._lanes.sweep()
        text = f"{self.name_of(rank)} " + (self._gone(rank) if how == GONE else _LEFT_TEXT)
        conn = self.peers.all().get(rank)
        if how == GONE:
            if conn is not None:
                conn.give_up(PeerError(text))
            # Letters of groups end with the verdict; this is for those of others.
            self.endpoint.hub.call_later(_FAREWELL, lambda: self.p2p.fail_rank(rank, text))
            return
        self.p2p.fail_rank(rank, text)
        if conn is not None:
            self.endpoint.hub.call_later(2 * _FAREWELL, lambda: conn.give_up(PeerError(text)))

    def _on_connection_end(self, rank: int, error: BaseException) -> None:
        if self.obituary.any([rank]):
            return
        if self.peers.conn(rank).peer_left:
            self.obituary.on_leave(rank)
            return
        if self._closing:
            return
        for state in self.groups.with_member(rank):
            self.blame.ask(state, Trouble(waits=(rank,), failed={"peer": rank, "status": "lost"}))
        self.endpoint.hub.call_later(_FAREWELL, lambda: self.p2p.fail_rank(rank, str(error)))

    def _check(self, state: GroupState) -> None:
        """A member has left: that matters once a collective waits for it."""
        if state.broken is None and self.obituary.any(state.waiting_for()):
            self.blame.ask(state, Trouble())

    def _gone(self, rank: int) -> str:
        state = self.vitals.look(rank)
        return f"is gone: its process {(state.how if state is not None else '') or 'ended'}"

    def _silent_for(self, rank: int) -> float:
        """Seconds since a rank was heard: over its connection, or over a lane of a group."""
        conn, heard = self.peers.all().get(rank), self._lanes.silent_for(rank)
        return min([heard] if conn is None else [heard, conn.silent_for])

    def _busy(self) -> bool:
        return any(s.broken is None and s.busy() for s in self.groups.all()) or bool(self.p2p.unsent())

    def _alive(self, rank: int) -> bool:
        return not self.obituary.any([rank])

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
            self.stalls.add(lane.qp.qp_num, lane.rank, lane.qp.stats)
        else:
            self.stalls.drop(lane.qp.qp_num)
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
        ways = [(r.plane, mine.get(r.plane), r.address) for r in conn.routes]
        return ", ".join(f"{n} ({a if a == b else f'{a} to {b}'})" for n, a, b in ways)

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
            whole = self._settle_jobs(min(end, time.monotonic() + _JOB_GRACE))
            self._settle_letters(end, whole)
            self._say_goodbye(min(max(end - time.monotonic(), 0.1), _FAREWELL))
        finally:
            self._free()

    def abort(self, why: str = "") -> None:
        """Leave at once: what is on its way fails here, and the others learn that this rank left. Idempotent."""
        if os.getpid() != self._pid or not self._begin_end(1.0):
            return
        try:
            self._settle_jobs(time.monotonic(), why)
            self._settle_letters(time.monotonic(), [])
            self._say_goodbye(0.2)
        finally:
            self._free()

    def _begin_end(self, patience: float) -> bool:
        with self._lock:
            first, self._closing = not self._closing, True
        if not first:
            self._closed.wait(patience + 2 * _FAREWELL)
        return first

    def _settle_jobs(self, end: float, why: str = "") -> list[str]:
        """Let collectives end, then end them; return the groups in which all went well."""
        states = [s for s in self.groups.all() if s.gid >= 0]
        while time.monotonic() < end and any(s.broken is None and s.busy() for s in states):
            time.sleep(0.002)
        whole = [s.key for s in states if s.broken is None and not s.busy()]
        text = f"the mesh was closed on this rank ({self.rank}){': ' + why if why else ''}"
        for state in states:
            with state.changed:
                state.broken = state.broken or text
                state.changed.notify_all()
            self._abort_jobs(state, state.broken)
        return whole

    def _settle_letters(self, end: float, whole: Sequence[str]) -> None:
        """Wait until letters, and what collectives of whole groups have sent, are with those they go to."""
        ended = self.obituary.known
        while time.monotonic() < end and (self.p2p.unsent() or self._lanes.unsent(whole, ended())):
            time.sleep(0.002)
        for state in self.groups.all():
            self.p2p.fail_group(state, state.broken or "the mesh was closed on this rank")

    def _say_goodbye(self, patience: float) -> None:
        ended = self.obituary.known
        alive = [r for r in self.peers.all() if r not in ended()]
        for rank in self.farewell.leave(alive, patience, ended):  # all it needs of us is acknowledged by now
            self.peers.conn(rank).give_up(PeerError(f"rank {rank} did not answer"))
        self.watch.leave()

    def _free(self) -> None:
        """Give everything back, whatever fails on the way."""
        self._closing = True
        with contextlib.suppress(MrcError, AttributeError):  # some of it is missing when the beginning failed
            self._last_look()
        with contextlib.ExitStack() as last_to_first:
            last_to_first.callback(self._closed.set)
            last_to_first.callback(_open.discard, self)
            last_to_first.callback(self.endpoint.close)
            last_to_first.callback(self.service.close)
            for part, end in (
                ("watch", "close"),
                ("peers", "stop"),
                ("_lanes", "forget"),
                ("stalls", "stop"),
                ("vitals", "close"),
            ):
                if hasattr(self, part):  # not when it failed while it was being made
                    last_to_first.callback(getattr(getattr(self, part), end))
            with contextlib.suppress(ValueError):
                self.endpoint.ctx.pump.remove_sink(self.ridden.on_event)

    def _last_look(self) -> None:
        """Keep what is asked for after the end; everything is still open."""

    def _require_open(self) -> None:
        if os.getpid() != self._pid:
            raise UsageError("this process was forked from the one that owns the mesh; make one here")
        if self._closing:
            raise UsageError("the mesh is closed")

    def __enter__(self) -> Self:
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
