"""One verdict for a group: whoever is in trouble asks all members, one of those who ask decides, all raise its text.

Decides who asks, who decides and when; who is to blame is `cause.py`'s. Messages go over the connections between
ranks, not over a store, so that it does not matter who served that. Of several that ask at about the same time the
lowest rank decides, and every text is pronounced by the lowest member that answers, so that there is one; a member that
hears no verdict pronounces its own, within a tenth of the group's timeout. The
engine of a rank acknowledges the question even when its program is busy; nothing acknowledges it for a stopped one.
Everything but `verdict` and `condemn` runs on the endpoint's thread.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from softmrc.collectives.cause import Evidence, Report, judge
from softmrc.collectives.groups import Groups, GroupState
from softmrc.collectives.mismatch import differing_calls
from softmrc.collectives.peers import Peers
from softmrc.collectives.vitals import State
from softmrc.endpoint import Transfer
from softmrc.endpoint.hub import Hub
from softmrc.errors import PeerError

__all__ = ["Blame", "Trouble"]

_CHANNEL = b"B"
_SHARE, _SHORTEST, _LONGEST = 0.04, 0.1, 1.0
"""How long members may take to answer: part of the timeout, and its limits in seconds."""
_BUSY_SECONDS = 1.0
_MAX_TEXT = 4000
_MAX_CONDEMNED = 1024
_log = logging.getLogger("softmrc.collectives")


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """What a member has to complain about."""

    what: str = ""
    """Collective or call, in words."""
    waits: tuple[int, ...] = ()
    """Ranks of the mesh it waits for."""
    failed: Mapping[str, Any] | None = None
    """What the runner said; `peer` is a rank of the mesh."""
    waited: float = 0.0
    """Seconds."""


@dataclass
class _Round:
    trouble: Trouble
    asked: dict[int, Transfer]
    reports: dict[int, Report] = field(default_factory=dict)
    yields: bool = False


class Blame:
    """The agreement, for all groups of a mesh."""

    def __init__(
        self,
        hub: Hub,
        groups: Groups,
        peers: Peers,
        rank: int,
        *,
        ended: Callable[[], Mapping[int, tuple[str, float]]],
        name: Callable[[int], str],
        planes: Callable[[int], str],
        silent_for: Callable[[int], float],
        seen: Callable[[], Mapping[int, State]],
        on_verdict: Callable[[GroupState, str], object],
    ) -> None:
        """Begin to answer.

        Args:
            hub: of the endpoint.
            groups: of this rank.
            peers: of this rank.
            rank: of this end.
            ended: returns the ranks known to have ended, how ("gone", "left") and seconds since.
            name: a rank in words.
            planes: planes tried to a rank, in words.
            silent_for: seconds since a rank was heard.
            seen: returns how the processes of this host's other ranks are.
            on_verdict: told once a group, on the endpoint's thread, when it is broken.
        """
        self._hub, self._groups, self._peers, self._rank = hub, groups, peers, rank
        self._ended, self._name, self._planes, self._on_verdict = ended, name, planes, on_verdict
        self._silent_for, self._seen = silent_for, seen
        self._rounds: dict[str, _Round] = {}
        self._others: dict[str, float] = {}
        peers.on(_CHANNEL, self._on_message)

    def verdict(self, state: GroupState, trouble: Trouble) -> PeerError:
        """Return what all members raise; takes a tenth of the group's timeout at most.

        Called on the endpoint's thread, it cannot wait: it then returns what this end alone knows.
        """
        if state.broken is None:
            self._hub.call_soon(lambda: self.ask(state, trouble))
            self._await(state)
        error = state.error()
        if error is not None:
            return error
        waits = f" (it waits for rank {', '.join(map(str, trouble.waits))})" if trouble.waits else ""
        text = f"{trouble.what}{waits} failed, and no verdict came on who is to blame"
        self._hub.call_soon(lambda: self._apply(state, text))
        return PeerError(text)

    def _await(self, state: GroupState) -> None:
        """Wait until the group is broken: timers see to it in 2 patiences, the second is for a busy machine."""
        if self._hub.here:
            return
        with state.changed:
            state.changed.wait_for(lambda: state.broken is not None, 2.5 * _patience(state) + _BUSY_SECONDS)

    def condemn(self, state: GroupState, text: str) -> PeerError:
        """Break the group on all members with a text of the caller's; an earlier verdict stays.

        Of several texts the one that reaches the lowest living member first counts on all of them.
        """
        self._hub.call_soon(lambda: self._propose(state, text))
        self._await(state)
        return state.error() or PeerError(text)

    def compare(self, state: GroupState, ranks: Sequence[int]) -> None:
        """Have ranks that this end waits for look whether they have called the same; if not, they ask."""
        if state.broken is None:
            prints = state.report()["prints"]
            self._peers.tell(ranks, _CHANNEL, _pack({"t": "compare", "g": state.key, "prints": prints}))

    # --- endpoint's thread ----------------------------------------------------------------------------------

    def ask(self, state: GroupState, trouble: Trouble) -> None:
        """Begin a round, unless one of this end's runs or the group is broken."""
        if state.broken is not None or state.key in self._rounds:
            return
        now = time.monotonic()
        if now < self._others.get(state.key, 0.0):
            # Somebody asks already and will decide; if it does not, this end does.
            later = self._others[state.key] - now
            self._hub.call_later(later, lambda: self.ask(state, trouble))
            return
        others = [r for r in state.others if r not in self._ended()]
        question = {"t": "ask", "g": state.key, **self._report_of(state, trouble)}
        asked = self._peers.tell(others, _CHANNEL, _pack(question))
        mine = _Round(trouble, asked)
        mine.reports[self._rank] = Report.from_json(self._report_of(state, trouble))
        self._rounds[state.key] = mine
        self._hub.call_later(_patience(state), lambda: self._conclude(state, mine))
        self._conclude_early(state, mine)

    def _report_of(self, state: GroupState | None, trouble: Trouble | None = None) -> dict[str, Any]:
        ended = {r: list(how) for r, how in self._ended().items()}
        if state is None:
            return {"knows": False, "ended": ended}
        report = state.report()
        if trouble is not None:
            report["waits"] = sorted({*report["waits"], *trouble.waits})
        return {**report, "ended": ended, "seen": {r: s for r, s in self._seen().items() if r in state.ranks}}

    def _on_message(self, rank: int, data: bytes) -> None:
        try:
            message = json.loads(data)
            kind, key = str(message["t"]), str(message["g"])
            state = self._groups.named(key)
            if state is not None and rank not in state.ranks:
                return
            if kind == "ask":
                self._on_ask(rank, key, state, Report.from_json(message))
            elif kind == "report" and (mine := self._rounds.get(key)) is not None and state is not None:
                mine.reports[rank] = Report.from_json(message)
                self._conclude_early(state, mine)
            elif kind == "compare" and state is not None:
                self._on_compare(rank, state, Report.from_json(message))
            elif kind == "condemn" and state is not None:
                self._propose(state, str(message["text"])[:_MAX_TEXT])
            elif kind == "verdict":
                self._on_verdict_told(key, state, str(message["text"])[:_MAX_TEXT])
        except (ValueError, TypeError, KeyError, AttributeError):
            _log.warning("rank %d sent a malformed question or verdict", rank)

    def _propose(self, state: GroupState, text: str, answering: Iterable[int] | None = None) -> None:
        """Have a text pronounced by the lowest member that answers; by this end when that says nothing."""
        gone = self._ended()
        among = state.ranks if answering is None else answering
        arbiter = min({self._rank, *(r for r in among if r in state.ranks and r not in gone)})
        if arbiter == self._rank:
            self._pronounce(state, text)
            return
        self._peers.tell([arbiter], _CHANNEL, _pack({"t": "condemn", "g": state.key, "text": text}))
        self._hub.call_later(_patience(state), lambda: self._pronounce(state, text))

    def _on_ask(self, rank: int, key: str, state: GroupState | None, its: Report) -> None:
        if state is not None and state.broken is not None:
            answer: dict[str, Any] = {"t": "verdict", "g": key, "text": state.broken}
        else:
            answer = {"t": "report", "g": key, **self._report_of(state)}
        self._peers.tell([rank], _CHANNEL, _pack(answer))
        if state is None or state.broken is not None:
            return
        mine = self._rounds.get(key)
        if mine is None:
            self._others[key] = time.monotonic() + 1.2 * _patience(state)
            return
        mine.reports[rank] = its
        mine.yields = mine.yields or rank < self._rank
        self._conclude_early(state, mine)

    def _on_compare(self, rank: int, state: GroupState, its: Report) -> None:
        mine = Report.from_json(json.loads(_pack(state.report())))
        if differing_calls({rank: its.prints, self._rank: mine.prints}, self._name):
            self.ask(state, Trouble(waits=(rank,)))

    def _on_verdict_told(self, key: str, state: GroupState | None, text: str) -> None:
        if state is not None:
            self._apply(state, text)
        elif len(self._groups.condemned) < _MAX_CONDEMNED:
            self._groups.condemned[key] = text

    def _conclude_early(self, state: GroupState, mine: _Round) -> None:
        """Nobody is missing any more: there is nothing to wait for."""
        heard = {*mine.reports, *self._ended()}
        if not mine.yields and all(r in heard for r in state.ranks):
            self._decide(state, mine)

    def _conclude(self, state: GroupState, mine: _Round) -> None:
        if self._rounds.get(state.key) is not mine:
            return
        if mine.yields:
            mine.yields = False
            self._hub.call_later(_patience(state), lambda: self._conclude(state, mine))
            return
        self._decide(state, mine)

    def _decide(self, state: GroupState, mine: _Round) -> None:
        self._rounds.pop(state.key, None)
        if state.broken is not None:
            return
        silent = {r: self._silent_for(r) for r in state.others}
        what = mine.trouble.what or (f"{state.last[0]} (number {state.count})" if state.busy() else "")
        acked = frozenset(r for r, t in mine.asked.items() if t.done() and t.exception() is None)
        evidence = Evidence(
            members=state.ranks, me=self._rank, what=what, waited=mine.trouble.waited, reports=mine.reports,
            acked=acked, silent_for=silent, failed=mine.trouble.failed, name=self._name, planes=self._planes,
            together=_finished(state),
        )  # fmt: skip
        self._propose(state, judge(evidence), mine.reports)

    def _pronounce(self, state: GroupState, text: str) -> None:
        if state.broken is not None:
            return
        gone = self._ended()
        told = {"t": "verdict", "g": state.key, "text": text[:_MAX_TEXT]}
        self._peers.tell([r for r in state.others if r not in gone], _CHANNEL, _pack(told))
        self._apply(state, text[:_MAX_TEXT])

    def _apply(self, state: GroupState, text: str) -> None:
        if state.broken is not None:
            return
        self._rounds.pop(state.key, None)
        state.broken = text
        self._on_verdict(state, text)  # who waits for the verdict finds its collectives ended
        with state.changed:
            state.changed.notify_all()


def _patience(state: GroupState) -> float:
    return min(_LONGEST, max(_SHORTEST, _SHARE * state.timeout))


def _finished(state: GroupState) -> str:
    """Return the last collective that ended on this rank, in words."""
    if state.count and not state.busy():
        return f"{state.last[0]} (number {state.count})"
    return f"{state.before[0]} (number {state.count - 1})" if state.count > 1 else ""


def _pack(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()
