"""Who is to blame for a collective that failed: one rank, and why, from what the members reported.

Pure: the same reports give the same answer. Whose reports there are, and who decides for all, is `blame.py`'s. In
this order: calls that differ, a rank whose process ended or that left (the first of them, since others follow), one
that does not answer at all, one whose engine answers but whose program does not, one that has not called what the
others wait in, one whose path failed, and last the one most waited for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from softmrc.collectives.mismatch import differing_calls
from softmrc.collectives.vitals import ENDS, RUNS, STOPPED, State

__all__ = ["Evidence", "Report", "judge"]

_MAX_TEXT = 4000


@dataclass(frozen=True, kw_only=True)
class Report:
    """What one member says; all ranks are those of the mesh."""

    knows: bool = True
    """False: it has not made this group."""
    count: int = 0
    """Collectives it has called in the group."""
    last: str = ""
    """The newest of them."""
    nbytes: int = 0
    prints: Mapping[int, int] = field(default_factory=dict)
    """What its newest calls were, by number."""
    says: str = ""
    """In what its calls differ from another rank's, in words; empty: in nothing that it knows of."""
    waits: tuple[int, ...] = ()
    """For whom it waits."""
    ended: Mapping[int, tuple[str, float]] = field(default_factory=dict)
    """Ranks it knows to have ended: "gone" or "left", and seconds since."""
    seen: Mapping[int, State] = field(default_factory=dict)
    """How the kernel says that processes of its host are."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Report:
        """Read what a member sent; ValueError, TypeError or KeyError when it is malformed."""
        last = data.get("last") or ("", 0)
        return cls(
            knows=bool(data.get("knows", True)),
            count=int(data.get("count", 0)),
            last=str(last[0])[:100],
            nbytes=int(last[1]),
            prints={int(n): int(value) for n, value in data.get("prints", {}).items()},
            says=str(data.get("says", ""))[:_MAX_TEXT],
            waits=tuple(int(r) for r in data.get("waits", ())),
            ended={int(r): (str(how)[:8], float(ago)) for r, (how, ago) in data.get("ended", {}).items()},
            seen={
                int(r): State(str(kind)[:8], str(how)[:100])
                for r, (kind, how) in data.get("seen", {}).items()
            },
        )


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything the rank that decides has."""

    members: Sequence[int]
    me: int
    """Rank that decides."""
    what: str
    """The collective that failed, in words."""
    waited: float
    """Seconds it has waited; 0: not at all."""
    reports: Mapping[int, Report]
    """By rank, the own one among them."""
    acked: frozenset[int]
    """Ranks whose engine acknowledged the question."""
    silent_for: Mapping[int, float]
    """Seconds since a rank was heard last."""
    failed: Mapping[str, Any] | None = None
    """What the runner said: peer (rank) and status."""
    name: Callable[[int], str] = lambda rank: f"rank {rank}"
    """A rank in words."""
    planes: Callable[[int], str] = lambda rank: ""
    """Planes tried to a rank, in words."""
    together: str = ""
    """The last collective that this rank finished."""

    def stopped(self, rank: int) -> bool:
        """Whether the kernel says that the process of a rank is stopped."""
        return any(r.seen.get(rank, State("")).kind == STOPPED for r in self.reports.values())


def judge(e: Evidence) -> str:
    """Return the verdict in words: it names one rank, or those whose calls differ."""
    culprit, why = _find(e)
    if culprit is None:
        return why
    parts = [f"{e.name(culprit)} {why}", _reached(e, culprit)]
    if culprit != e.me:
        parts += [
            f"tried planes {e.planes(culprit)}",
            f"last heard {e.silent_for.get(culprit, 0.0):.1f} s ago",
        ]
    waited = f"after {e.waited:.1f} s" if e.waited else ""
    parts.append(f"the others were in {e.what} {waited}".rstrip() if e.what else waited)
    return "; ".join(p for p in parts if p)


def _find(e: Evidence) -> tuple[int | None, str]:
    heard = [r for r in e.members if r in e.reports]
    differ = differing_calls({r: e.reports[r].prints for r in heard}, e.name)
    if differ := differ or next((text for r in heard if (text := e.reports[r].says)), ""):
        return None, differ
    ended = _first_to_end(e)
    if ended is not None:
        rank, how, ago = ended
        if how == "left":
            return rank, f"left: it closed the mesh, or its program ended, {ago:.1f} s ago"
        return rank, f"is gone: its process {_state(e, rank).how or 'ended'} {ago:.1f} s ago"
    mute = [r for r in e.members if r not in e.reports]
    silent = [r for r in mute if r not in e.acked or _state(e, r).kind == STOPPED]
    if len(silent) == len(e.members) - 1 and len(e.members) > 2 and not any(map(e.stopped, silent)):
        return e.me, "hears no other rank on any plane: is the network of its host down?"
    if silent:
        rank = _longest([r for r in silent if e.stopped(r)] or silent, e)
        return rank, f"does not answer on any plane: {_SILENT[_state(e, rank).kind]}"
    if mute:
        return _longest(mute, e), "is alive but gets no time to answer: is its Python stuck in a call?"
    return _of_the_living(e)


_SILENT = {
    STOPPED: "its process is stopped",
    RUNS: "its process runs, so is it starved of time, or cut off?",
    "": "is its host cut off or down, or its process stopped?",
}


def _state(e: Evidence, rank: int) -> State:
    """Return how the kernel says that a process is; the lowest member of its host that has said so counts."""
    found = (e.reports[r].seen.get(rank) for r in sorted(e.reports))
    return next((state for state in found if state is not None), State(""))


def _longest(ranks: Sequence[int], e: Evidence) -> int:
    return max(ranks, key=lambda r: (e.silent_for.get(r, 0.0), -r))


def _of_the_living(e: Evidence) -> tuple[int, str]:
    strangers = [r for r in e.members if not e.reports[r].knows]
    if strangers:
        return strangers[0], "answers, but has not made the group"
    furthest = max(e.reports[r].count for r in e.members)
    behind = min(e.members, key=lambda r: (e.reports[r].count, r))
    if e.reports[behind].count < furthest:
        return (
            behind,
            f"answers, but has not called number {e.reports[behind].count + 1} of this group's collectives",
        )
    if e.failed is not None and e.failed.get("peer") in e.members:
        return int(
            e.failed["peer"]
        ), f"answers, but the lane to it failed ({e.failed.get('status', 'error')})"
    waited = Counter(r for report in e.reports.values() for r in report.waits if r in e.members)
    if waited:
        rank = min(waited, key=lambda r: (-waited[r], r))
        return rank, "answers and takes part, but what it has to send does not come in time"
    return min(
        e.members
    ), "answers, as all ranks do: nobody waits for anybody any more, the time was too short"


def _first_to_end(e: Evidence) -> tuple[int, str, float] | None:
    found: dict[int, tuple[str, float]] = {}
    for report in e.reports.values():
        dying = {r: ("gone", 0.0) for r, state in report.seen.items() if state.kind == ENDS}
        for rank, (how, ago) in {**dying, **report.ended}.items():
            if rank in e.members and (rank not in found or ago > found[rank][1]):
                found[rank] = (how, ago)
    if not found:
        return None
    first = max(found, key=lambda r: (found[r][1], -r))
    return first, *found[first]


def _reached(e: Evidence, culprit: int) -> str:
    report = e.reports.get(culprit)
    if report is not None and report.knows:
        return (
            f"it had reached {report.last} (number {report.count})"
            if report.count
            else "it has called none yet"
        )
    if report is not None:
        return ""
    return f"last finished with it: {e.together}" if e.together else "no collective was finished with it"
