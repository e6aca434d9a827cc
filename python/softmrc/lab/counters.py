"""What the kernel counts for each SID."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from softmrc.netns.space import tell

if TYPE_CHECKING:
    from softmrc.lab.lab import Lab

__all__ = ["Count", "sid_counters"]


@dataclass(frozen=True)
class Count:
    """Packets, their bytes from the IPv6 header on, and those that could not be passed on."""

    packets: int = 0
    bytes: int = 0
    errors: int = 0

    def __sub__(self, other: Count) -> Count:
        """Return what came since."""
        return Count(self.packets - other.packets, self.bytes - other.bytes, self.errors - other.errors)


def sid_counters(lab: Lab) -> dict[str, Count]:
    """Return the counters of every switch's own uSID; zeros where the SID is gone."""

    def read(name: str) -> Count:
        sid = next(s for s in lab.plan.nodes[name].sids if s.action == "End")
        text = tell("ip", "-n", lab.namespace(name), "-6", "-s", "-j", "route", "show", sid.dst)
        for route in json.loads(text or "[]"):
            if "stats64" in route:
                found = route["stats64"]
                return Count(int(found["packets"]), int(found["bytes"]), int(found["errors"]))
        return Count()

    names = lab.switches
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(names, pool.map(read, names), strict=True))
