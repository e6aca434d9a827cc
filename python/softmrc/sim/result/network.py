"""Links of a run: use, queues, marks, trims and drops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from softmrc.sim.result.percentiles import summary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from softmrc.sim.run import Outcome

__all__ = ["SHOWN", "section", "utilisation"]

SHOWN = 10
"""Links listed by name in each table."""


def utilisation(outcome: Outcome) -> NDArray[np.float64]:
    """Return the share of the run each directed link was busy at its full rate, 0 to 1."""
    rates: NDArray[np.float64] = np.empty(2 * outcome.fabric.links)
    rates[0::2], rates[1::2] = outcome.fabric.link_bps_up, outcome.fabric.link_bps_down
    sent = outcome.links["tx_bytes"].astype(np.float64) * 8e9
    return sent / (rates * max(int(outcome.sim_ns), 1))


def section(outcome: Outcome) -> dict[str, Any]:
    """Return distributions over the links that carried anything, and the first links of each kind by name."""
    links = outcome.links
    used = links["tx_packets"] > 0
    busy = utilisation(outcome)
    return {
        "links": int(used.size),
        "links_used": int(used.sum()),
        "utilisation": summary(busy[used], digits=5),
        "max_queue_bytes": summary(links["max_queue_bytes"][used], digits=0),
        "deepest_queues": _top(outcome, links["max_queue_bytes"]),
        "most_drops": _top(outcome, links["drops"]),
        "most_lost": _top(outcome, links["lost"]),
        "most_marks": _top(outcome, links["marks"]),
        "most_trims": _top(outcome, links["trims"]),
    }


def _top(outcome: Outcome, values: NDArray[np.int64]) -> list[dict[str, Any]]:
    order = np.argsort(-values, kind="stable")[:SHOWN]
    return [{"link": outcome.link_name(int(i)), "value": int(values[i])} for i in order if values[i] > 0]
