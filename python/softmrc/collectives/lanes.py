"""Lanes: for each group one queue pair to each member, owned by the C++ runner of collectives.

Decides how they come up: numbers and memory go over the connections' messages, a lane is used when both ends have
said that they receive. Knobs, planes and routes are those of the connection beside it.
"""

from __future__ import annotations

import contextlib
import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from softmrc._core import CollRunner
from softmrc.collectives.groups import GroupState
from softmrc.collectives.peers import Peers
from softmrc.device import Resource
from softmrc.endpoint import Endpoint
from softmrc.endpoint.offer import QpOffer
from softmrc.errors import MrcError, PeerError
from softmrc.verbs import CQ, PD, QP, QPCap, QPInitAttr

__all__ = ["Lane", "Lanes"]

_CHANNEL = b"L"
_WORK = 256
_MAX_WIMM = 128
_SACK_BYTES = 128 * 1024
"""Fewer acknowledgements than usual: lanes carry bulk, and on slow links a timer acknowledges anyway."""
_MAX_EARLY = 65536


class _RunnerPD(Resource):
    """The protection domain of the runner, as queue pairs want to see one."""

    _close_order = 0

    def __init__(self, ep: Endpoint, handle: int) -> None:
        self.ctx, self.handle = ep.ctx, handle
        self._open(ep.ctx)

    def _release(self) -> None:
        return  # the runner's own


@dataclass
class Lane:
    """One of them."""

    rank: int
    """Of the peer, in the mesh."""
    qp: QP
    psn: int
    memory: int
    """The runner's number of its slots."""
    number: int = -1
    """The runner's number of the lane; -1 until it is up."""
    path_names: Mapping[tuple[int, int], str] = field(default_factory=dict)


@dataclass
class _Heard:
    """What members have told of a group's lanes."""

    offers: dict[int, dict[str, Any]] = field(default_factory=dict)
    ready: set[int] = field(default_factory=set)
    released: set[int] = field(default_factory=set)


class Lanes:
    """All lanes of a rank."""

    def __init__(
        self,
        ep: Endpoint,
        peers: Peers,
        on_lane: Callable[[Lane, bool], object],
        neighbours: Mapping[int, int],
    ) -> None:
        """Begin to listen for what members tell.

        Args:
            ep: whose planes and knobs are used.
            peers: the connections beside the lanes.
            on_lane: told of each lane that comes up (True), and before it is closed (False).
            neighbours: processes, by rank, that large messages may be copied to directly.
        """
        self._ep, self._peers, self._on_lane, self._neighbours = ep, peers, on_lane, neighbours
        self._made: CollRunner | None = None
        self._making = threading.Lock()
        self._released: dict[str, tuple[GroupState, Callable[[], Iterable[int]]]] = {}
        self._heard: dict[str, _Heard] = {}
        self._states: dict[str, GroupState] = {}
        self._lanes: dict[str, list[Lane]] = {}
        peers.on(_CHANNEL, self._on_message)

    @property
    def runner(self) -> CollRunner:
        """The owner of the lanes; made when first asked for."""
        with self._making:
            if self._made is None:
                self._made = CollRunner(self._ep.ctx.driver)
                self._pd = _RunnerPD(self._ep, self._made.pd)
            return self._made

    @property
    def started(self) -> bool:
        """True once there is a runner."""
        return self._made is not None

    def unsent(self, keys: Iterable[str], ended: Iterable[int]) -> int:
        """Return how many lanes of some groups still have something that is not acknowledged.

        Args:
            keys: of the groups.
            ended: ranks that do not count.
        """
        over, count = set(ended), 0
        for lane in [x for key in keys for x in list(self._lanes.get(key, ()))]:
            with contextlib.suppress(MrcError):
                count += lane.rank not in over and lane.qp.stats()["queued"] > 0
        return count

    def silent_for(self, rank: int) -> float:
        """Return how many seconds ago a rank was heard over a lane, whatever way payload takes; inf: never."""
        heard = []
        for lane in [x for lanes in list(self._lanes.values()) for x in list(lanes)]:
            with contextlib.suppress(MrcError, OSError):
                if lane.rank == rank and lane.number >= 0:
                    heard.append(cast("int | None", self.runner.lane_heard_ns(lane.number)))
        newest = max((at for at in heard if at is not None), default=None)
        return math.inf if newest is None else (self._ep.ctx.driver.now_ns() - newest) / 1e9

    def local_bytes(self) -> int:
        """Return how many bytes were copied to neighbours directly."""
        return int(self._made.stats().get("local_bytes", 0)) if self._made is not None else 0

    def open(self, state: GroupState, end: float, missing: Callable[[Sequence[int], str], PeerError]) -> int:
        """Bring the lanes of a group up, together with all its members, and return the runner's number for it.

        Args:
            state: the group.
            end: `time.monotonic()` when patience ends.
            missing: makes the error when members have not come by then.

        Raises:
            PeerError: a member is missing, gone or lost; or what `state.broken` says.
        """
        self._states[state.key] = state
        lanes = self._lanes[state.key] = []
        try:
            for rank in state.others:
                lanes.append(self._make(rank, state.key))
            self._wait(
                state, end, lambda h: set(state.others) - set(h.offers), missing, "has not made the group"
            )
            for lane in lanes:
                self._join(lane, self._heard_of(state.key).offers[lane.rank])
            for lane in lanes:
                self._tell(lane.rank, {"k": state.key, "up": 1})
            self._wait(
                state,
                end,
                lambda h: set(state.others) - h.ready,
                missing,
                "has not finished making the group",
            )
            by_rank = {lane.rank: lane.number for lane in lanes}
            return int(self.runner.new_group([by_rank.get(r, -1) for r in state.ranks], state.me))
        except BaseException:
            self.close(state)
            raise
        finally:
            self._states.pop(state.key, None)

    def release(self, state: GroupState, ended: Callable[[], Iterable[int]]) -> None:
        """Give a group back. Its lanes answer repeats of what was sent until all members have released it."""
        self.runner.close_group(state.gid)
        self._released[state.key] = (state, ended)
        told = json.dumps({"k": state.key, "rel": 1}).encode()
        self._peers.tell([r for r in state.others if r not in set(ended())], _CHANNEL, told)
        self._ep.hub.call_soon(self.sweep)

    def sweep(self) -> None:
        """Close the lanes of groups that no living member uses any more. Endpoint's thread."""
        for key, (state, ended) in list(self._released.items()):
            if not set(state.others) - self._heard_of(key).released - set(ended()):
                del self._released[key]
                self._heard.pop(key, None)
                self.close(state)

    def close(self, state: GroupState) -> None:
        """Free the lanes of a group; the runner must have no work for them. Their peers are told nothing."""
        for lane in self._lanes.pop(state.key, ()):
            # Another thread may be closing the mesh: its runner has freed everything then.
            with contextlib.suppress(OSError):
                if lane.number >= 0:
                    self.runner.close_lane(lane.number)
                else:
                    self.runner.close_lane_memory(lane.memory)
            conn = self._peers.all().get(lane.rank)
            if conn is not None:
                conn.companions.discard(lane.qp)
            self._on_lane(lane, False)
            lane.qp.close()

    def all(self) -> list[Lane]:
        """Return those that are up."""
        return [lane for lanes in list(self._lanes.values()) for lane in list(lanes) if lane.number >= 0]

    def _make(self, rank: int, key: str) -> Lane:
        cq = cast(CQ, SimpleNamespace(handle=self.runner.cq))
        depth = max(_WORK, int(self.runner.recv_depth))
        attr = QPInitAttr(scq=cq, rcq=cq, cap=QPCap(max_send_wr=_WORK, max_recv_wr=depth))
        qp = QP(cast(PD, self._pd), attr)
        memory = dict(self.runner.open_lane_memory())
        lane = Lane(rank, qp, self._ep.ctx.driver.random_psn(), int(memory.pop("memory")))
        try:
            self._tell(rank, {"k": key, "qpn": qp.qp_num, "psn": lane.psn, "mem": memory})
        except BaseException:
            self.runner.close_lane_memory(lane.memory)
            qp.close()
            raise
        return lane

    def _join(self, lane: Lane, offer: Mapping[str, Any]) -> None:
        conn = self._peers.conn(lane.rank)
        try:
            its_end = QpOffer.from_json(offer)
            memory = {str(k): int(v) for k, v in offer["mem"].items()}
            if (pid := self._neighbours.get(lane.rank)) is not None:
                memory["local_pid"] = pid
            ways = conn.open_beside(lane.qp, lane.psn, its_end, max_wimm=_MAX_WIMM, sack_bytes=_SACK_BYTES)
            lane.path_names = ways.names
            conn.companions.add(lane.qp)
            lane.number = int(self.runner.add_lane(lane.qp.qp_num, lane.memory, memory))
            self._on_lane(lane, True)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise PeerError(f"rank {lane.rank} offered a lane this end cannot use: {error}") from None

    def _tell(self, rank: int, message: Mapping[str, Any]) -> None:
        self._peers.send(rank, _CHANNEL, json.dumps(message).encode())

    def _heard_of(self, key: str) -> _Heard:
        return self._heard.setdefault(key, _Heard())

    def _wait(
        self,
        state: GroupState,
        end: float,
        lacking: Callable[[_Heard], set[int]],
        missing: Callable[[Sequence[int], str], PeerError],
        what: str,
    ) -> None:
        heard = self._heard_of(state.key)
        with state.changed:
            state.changed.wait_for(
                lambda: state.broken is not None or not lacking(heard), max(0.0, end - time.monotonic())
            )
        if (error := state.error()) is not None:
            raise error
        if still := sorted(lacking(heard)):
            raise missing(still, what)

    # --- endpoint's thread ----------------------------------------------------------------------------------

    def _on_message(self, rank: int, data: bytes) -> None:
        try:
            message = json.loads(data)
            key = str(message["k"])
        except (ValueError, KeyError, TypeError):
            return
        if key not in self._states and key not in self._heard and len(self._heard) >= _MAX_EARLY:
            return
        heard = self._heard_of(key)
        if "rel" in message:
            heard.released.add(rank)
            self.sweep()
        elif "up" in message:
            heard.ready.add(rank)
        else:
            heard.offers[rank] = message
        state = self._states.get(key)
        if state is not None:
            with state.changed:
                state.changed.notify_all()

    def forget(self) -> None:
        """Close what is left and the runner, whatever fails."""
        self._released.clear()
        for key in list(self._lanes):
            for lane in self._lanes.pop(key):
                with contextlib.suppress(MrcError, OSError, ValueError):
                    if lane.number >= 0:
                        self.runner.close_lane(lane.number)
                with contextlib.suppress(MrcError):
                    lane.qp.close()
        if self._made is not None:
            self._made.close()
