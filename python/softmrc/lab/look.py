"""What passes the links of a lab right now, and which of them pass nothing.

The kernel counts at the lower end of each link; two looks make rates. What is broken without the kernel knowing (a
silent hole, loss) is what the lab's own faults say.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from softmrc.lab.ledger import opened
from softmrc.lab.names import Link

if TYPE_CHECKING:
    from softmrc.lab.lab import Lab

__all__ = ["LinkLoad", "Look", "faulty_links", "look"]

DOWN, HURT, UP = "down", "hurt", "up"


@dataclass(frozen=True)
class LinkLoad:
    """A link between two looks.

    Attributes:
        link: which.
        state: "up", "hurt" (it passes packets but not as it should) or "down".
        why: the fault in words; "" when there is none.
        up_bps, down_bps: rate towards the upper and the lower end, bit/s on the wire.
        rate_bps: of the link; 0: not limited.
    """

    link: Link
    state: str
    why: str
    up_bps: float
    down_bps: float
    rate_bps: int

    @property
    def share(self) -> float:
        """The busier direction as a share of the link's rate; 0 when that is not limited."""
        return max(self.up_bps, self.down_bps) / self.rate_bps if self.rate_bps else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return {
            "link": self.link.name, "plane": self.link.plane, "state": self.state, "why": self.why,
            "up_bps": round(self.up_bps), "down_bps": round(self.down_bps), "rate_bps": self.rate_bps,
            "share": round(self.share, 4),
        }  # fmt: skip


@dataclass(frozen=True)
class Look:
    """Counters of every link at one moment.

    Attributes:
        seconds: CLOCK_MONOTONIC.
        counts: by link: bytes upwards, bytes downwards.
        dead: by link, why the kernel passes nothing.
        hurt: by link, what the lab's faults do to it: state and words.
        links: all, in order.
        rates: by kind of link, bit/s; 0: not limited.
    """

    seconds: float
    counts: Mapping[str, tuple[int, int]]
    dead: Mapping[str, str]
    hurt: Mapping[str, tuple[str, str]]
    links: tuple[Link, ...]
    rates: Mapping[str, int] = field(default_factory=dict)

    def since(self, before: Look) -> list[LinkLoad]:
        """Return the links with their rates since an earlier look."""
        spent = max(self.seconds - before.seconds, 1e-6)
        found = []
        for link in self.links:
            now, then = self.counts.get(link.name, (0, 0)), before.counts.get(link.name, (0, 0))
            up, down = (max(0, a - b) * 8 / spent for a, b in zip(now, then, strict=True))
            state, why = self.hurt.get(link.name, (UP, ""))
            if link.name in self.dead:
                state, why = DOWN, why or self.dead[link.name]
            found.append(LinkLoad(link, state, why, up, down, self.rates.get(link.kind, 0)))
        return found


def look(lab: Lab) -> Look:
    """Read the counters of a lab.

    Raises:
        MrcError: the system refused to tell.
    """
    if lab.state.mode == "soft":
        from softmrc.lab.soft import SoftLab

        assert isinstance(lab, SoftLab)
        return lab.look()
    counts: dict[str, tuple[int, int]] = {}
    dead: dict[str, str] = {}
    began = time.monotonic()
    for node in {link.a_node: None for link in lab.links}:
        devices = {
            str(d.get_attr("IFLA_IFNAME")): d for d in lab.netlinks.ask(lab.namespace(node), "get_links")
        }
        for link in lab.plan.at[node]:
            if link.a_node != node:
                continue
            device = devices.get(link.a_dev)
            if device is None:
                dead[link.name] = "gone"
                continue
            stats = device.get_attr("IFLA_STATS64") or {}
            counts[link.name] = int(stats.get("tx_bytes", 0)), int(stats.get("rx_bytes", 0))
            if device.get_attr("IFLA_OPERSTATE") != "UP":
                dead[link.name] = "no carrier" if int(device["flags"]) & 1 else "set down"
    seconds = (began + time.monotonic()) / 2
    rates = {kind: lab.spec.link_rate(kind) or 0 for kind in ("host", "fabric")}
    return Look(seconds, counts, dead, faulty_links(lab), tuple(lab.links), rates)


def faulty_links(lab: Lab) -> dict[str, tuple[str, str]]:
    """Return what the lab's faults do to links, by name: "down" or "hurt", and the fault in words."""
    found: dict[str, tuple[str, str]] = {}
    with opened(lab.name, change=False) as ledger:
        faults = [fault for fault in ledger.faults if fault.on]
    for fault in faults:
        harm = fault.harm
        whole = harm.cuts or (harm.silent and harm.direction == "both")
        for name in fault.links:
            found[name] = (DOWN if whole else HURT, f"{fault.target} {harm.words()}")
    return found
