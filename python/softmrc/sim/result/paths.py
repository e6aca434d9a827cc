"""EVs of a run: which changed their state, when and why."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from softmrc.sim.run import Outcome

__all__ = ["SHOWN", "section"]

SHOWN = 100
"""Events listed in full; the table `ev_events` has all."""


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def section(outcome: Outcome) -> dict[str, Any]:
    """Return the number of changes by state and reason and by plane, their first and last times, and the first ones."""
    events = outcome.ev_events
    counts: Counter[str] = Counter()
    if events.size:
        for state, reason in zip(events["state"].tolist(), events["reason"].tolist(), strict=True):
            counts[f"{_text(state)}: {_text(reason)}"] += 1
    planes = Counter(int(plane) for plane in events["plane"].tolist()) if events.size else Counter()
    first = [
        {name: _plain(row[name]) for name in events.dtype.names or ()}
        for row in events[:SHOWN]
        if events.size
    ]
    return {
        "changes": int(events.size),
        "changes_not_recorded": int(outcome.ev_events_dropped),
        "by_state_and_reason": dict(sorted(counts.items())),
        "by_plane": {str(plane): count for plane, count in sorted(planes.items())},
        "hosts": int(np.unique(events["host"]).size) if events.size else 0,
        "first_ns": int(events["at_ns"].min()) if events.size else None,
        "last_ns": int(events["at_ns"].max()) if events.size else None,
        "first": first,
    }


def _plain(value: Any) -> Any:
    return (
        _text(value) if isinstance(value, bytes | str) else value.item() if hasattr(value, "item") else value
    )
