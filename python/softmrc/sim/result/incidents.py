"""Which faults make one incident, and how long it lasts.

A fault that something undoes (link_up after link_down, a reboot's own length) lasts until then; one that nothing undoes
lasts until the job ends. Incidents that overlap become one, so that no loss is counted twice. What is broken before
anything is sent is a condition of the run, not an incident.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["FaultLike", "Incident", "conditions", "incidents", "tally"]

_UNDONE_BY = {"link_down": "link_up", "port_down": "port_up", "switch_down": "switch_up"}
_LEVELS = ("link_loss", "link_corrupt", "link_rate", "ev_loss")
_REPAIRS = (*_UNDONE_BY.values(),)


class FaultLike(Protocol):
    """What is needed of a fault (`softmrc.sim.config.Fault`)."""

    @property
    def at_ns(self) -> int:
        """When, ns."""

    @property
    def kind(self) -> str:
        """What, for instance "link_down"."""

    @property
    def target(self) -> str:
        """Which link, switch, plane or host."""

    @property
    def value(self) -> float:
        """A loss, a rate or a length."""

    @property
    def direction(self) -> str:
        """Which way."""


@dataclass(frozen=True)
class Incident:
    """A time during which something was broken."""

    start_ns: int
    repaired_ns: int | None
    """None: nothing undid it before the run ended."""
    faults: tuple[tuple[str, int, tuple[str, ...]], ...]
    """Kind, how many, and the first targets of that kind."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return {
            "start_ns": self.start_ns,
            "repaired_ns": self.repaired_ns,
            "faults": [{"kind": k, "count": n, "targets": list(t)} for k, n, t in self.faults],
        }


def _end_of(fault: FaultLike, later: Sequence[FaultLike]) -> int | None:
    if fault.kind == "switch_reboot":
        return fault.at_ns + int(fault.value)
    undo = _UNDONE_BY.get(fault.kind, fault.kind)
    for other in later:
        if (
            other.kind == undo
            and other.target == fault.target
            and other.direction in (fault.direction, "both")
        ):
            return other.at_ns
    return None


def _is_break(fault: FaultLike) -> bool:
    if fault.kind == "link_rate":
        return fault.value < 1  # a fraction of the full rate
    if fault.kind in _LEVELS:
        return fault.value > 0
    return fault.kind not in _REPAIRS


def _ranges(faults: Sequence[FaultLike]) -> list[tuple[int, int | None, FaultLike]]:
    """Return start, end and fault of every break, in order of time."""
    ordered = sorted(faults, key=lambda f: f.at_ns)
    by_target: dict[str, list[FaultLike]] = {}
    for fault in ordered:
        by_target.setdefault(fault.target, []).append(fault)
    found = []
    for same in by_target.values():
        for i, fault in enumerate(same):
            if _is_break(fault):
                found.append((fault.at_ns, _end_of(fault, same[i + 1 :]), fault))
    return sorted(found, key=lambda item: (item[0], item[2].target, item[2].kind))


def tally(faults: Sequence[FaultLike], shown: int = 4) -> tuple[tuple[str, int, tuple[str, ...]], ...]:
    """Return kind, number and first targets of faults, by kind."""
    kinds: dict[str, list[str]] = {}
    for fault in faults:
        kinds.setdefault(fault.kind, []).append(fault.target)
    return tuple((kind, len(names), tuple(names[:shown])) for kind, names in sorted(kinds.items()))


def conditions(faults: Sequence[FaultLike]) -> tuple[tuple[str, int, tuple[str, ...]], ...]:
    """Return what was broken from the start."""
    return tally([f for f in faults if f.at_ns <= 0 and _is_break(f)])


def incidents(faults: Sequence[FaultLike], end_ns: int) -> list[Incident]:
    """Return the incidents of a run that ended at `end_ns`, by time; what begins later is left out.

    Args:
        faults: all faults of the scenario, repairs included.
        end_ns: when the job, or the run, ended.
    """
    merged: list[tuple[int, int | None, list[FaultLike]]] = []
    for start, end, fault in _ranges(faults):
        if start <= 0 or start >= end_ns:
            continue
        if merged and (merged[-1][1] is None or start <= merged[-1][1]):
            first, until, members = merged[-1]
            joint = None if until is None or end is None else max(until, end)
            merged[-1] = (first, joint, [*members, fault])
        else:
            merged.append((start, end, [fault]))
    return [
        Incident(start, end if end is not None and end < end_ns else None, tally(members))
        for start, end, members in merged
    ]
