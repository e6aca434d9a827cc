"""EVs of a run: which changed their state, when and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from softmrc.sim.run import Outcome

__all__ = ["REASONS", "SHOWN", "STATES", "named", "section"]

SHOWN = 100
"""Events listed in full; the table `ev_events` has all."""
STATES = {1: "GOOD", 2: "ASSUMED_BAD", 4: "DENIED", 8: "SKIP"}
REASONS = ("none", "loss", "timeout", "probe", "always_skip", "port", "controller", "relapse")
"""By code, as the engine counts them."""


def named(events: Mapping[str, NDArray[Any]]) -> dict[str, list[Any]]:
    """Return the columns of the events with states and reasons by name."""
    made = {name: values.tolist() for name, values in events.items()}
    made["state"] = [STATES.get(code, str(code)) for code in made["state"]]
    made["reason"] = [REASONS[code] if code < len(REASONS) else str(code) for code in made["reason"]]
    return made


def section(outcome: Outcome) -> dict[str, Any]:
    """Return the number of changes by state and reason and by plane, their first and last times, and the first ones."""
    events = outcome.ev_events
    count = int(events["at_ns"].size)
    codes = Counter(zip(events["state"].tolist(), events["reason"].tolist(), strict=True))
    by_code = {
        f"{STATES.get(s, str(s))}: {REASONS[r] if r < len(REASONS) else r}": n for (s, r), n in codes.items()
    }
    first = named({name: values[:SHOWN] for name, values in events.items()})
    rows = zip(*first.values(), strict=True)
    planes = Counter(events["plane"].tolist())
    return {
        "changes": count,
        "changes_not_recorded": int(outcome.ev_events_dropped),
        "by_state_and_reason": dict(sorted(by_code.items())),
        "by_plane": {str(plane): n for plane, n in sorted(planes.items())},
        "hosts": int(np.unique(events["host"]).size),
        "first_ns": int(events["at_ns"].min()) if count else None,
        "last_ns": int(events["at_ns"].max()) if count else None,
        "first": [dict(zip(first, row, strict=True)) for row in rows],
    }
