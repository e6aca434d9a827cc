"""What the transport did during a row: differences of its counters."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from softmrc.perf.ends import Ends

__all__ = ["Counters"]

_PATH_KEYS = ("sent", "lost", "ecn", "trimmed")
_WORST = ("good", "skip", "assumed_bad", "denied")


@dataclass
class Counters:
    """A look at all counters."""

    rtx: int = 0
    timeouts: int = 0
    plane_tx: dict[int, int] = field(default_factory=dict)
    plane_rx: dict[int, int] = field(default_factory=dict)
    local_rx_drops: int = 0
    tx_errors: int = 0
    paths: dict[tuple[int, int], dict[str, int]] = field(default_factory=dict)
    states: dict[tuple[int, int], str] = field(default_factory=dict)
    active: set[tuple[int, int]] = field(default_factory=set)
    not_good: int = 0
    """(Queue pair, EV) that are in use and not GOOD."""
    assumed_bad: int = 0
    qp_errors: int = 0
    names: dict[tuple[int, int], str] = field(default_factory=dict)
    """Ways through a known fabric, by plane and EV."""

    @classmethod
    def of(cls, ends: Ends) -> Counters:
        """Look at them now."""
        raw = ends.ctx.stats()
        made = cls(
            plane_tx=dict(raw["port_tx_bytes"]),
            plane_rx=dict(raw["port_rx_bytes"]),
            local_rx_drops=raw["local_rx_drops"],
            tx_errors=raw["tx_errors"],
            assumed_bad=ends.events["assumed_bad"],
            qp_errors=ends.events["qp_error"],
        )
        paths: dict[tuple[int, int], dict[str, int]] = defaultdict(lambda: dict.fromkeys(_PATH_KEYS, 0))
        for qp in ends.qps:
            counters = qp.stats()["counters"]
            made.timeouts += counters["tx.timeouts"]
            made.rtx += sum(v for k, v in counters.items() if k.startswith("tx.rtx_"))
            for path in qp.path_stats():
                key = (path["plane"], path["ev"])
                for name in _PATH_KEYS:
                    paths[key][name] += path[name]
                state = path["state"]
                made.not_good += bool(path["active"]) and state not in ("good", "skip")
                if path["active"]:
                    made.active.add(key)
                before = made.states.get(key, "good")
                made.states[key] = max(before, state, key=_WORST.index)
        made.paths = dict(paths)
        made.names = {key: name for key in paths if (name := ends.path_name(*key))}
        return made

    def since(self, before: Counters) -> dict[str, Any]:
        """Return what happened between two looks, as the result shows it."""
        planes = {p: n - before.plane_tx.get(p, 0) for p, n in self.plane_tx.items()}
        total = sum(planes.values())
        zero = dict.fromkeys(_PATH_KEYS, 0)
        return {
            "rtx": self.rtx - before.rtx,
            "timeouts": self.timeouts - before.timeouts,
            "qp_errors": self.qp_errors - before.qp_errors,
            "assumed_bad": self.assumed_bad - before.assumed_bad,
            "not_good": self.not_good,
            "local_rx_drops": self.local_rx_drops - before.local_rx_drops,
            "tx_errors": self.tx_errors - before.tx_errors,
            "per_plane": [
                {"plane": p, "bytes": n, "share": round(n / total, 6) if total else 0.0}
                for p, n in sorted(planes.items())
            ],
            "per_ev": [
                {
                    "plane": plane,
                    "ev": ev,
                    "state": self.states[plane, ev],
                    "active": (plane, ev) in self.active,
                    **({"path": self.names[plane, ev]} if (plane, ev) in self.names else {}),
                    **{
                        name: n - before.paths.get((plane, ev), zero)[name]
                        for name, n in self.paths[plane, ev].items()
                    },
                }
                for plane, ev in sorted(self.paths)
            ],
        }
