"""The [[fault]] tables of a scenario: what breaks when, for how long, how often, and which of many.

Decides how a table becomes single faults; leaves their effect to the simulator. Everything drawn at random comes from
the seed of the table, so a scenario breaks the same links in every run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from softmrc.errors import UsageError
from softmrc.sim.config import Fault, Topology
from softmrc.sim.fabric import Fabric, build
from softmrc.sim.table import mapping, read_table

__all__ = ["FaultPlan", "plan_faults"]

# What ends a fault, and the value it then has.
_HEAL = {
    "link_down": ("link_up", 0.0),
    "port_down": ("port_up", 0.0),
    "switch_down": ("switch_up", 0.0),
    "link_loss": ("link_loss", 0.0),
    "link_corrupt": ("link_corrupt", 0.0),
    "link_rate": ("link_rate", 1.0),
}
_LAYERS = {"host-t0": 0, "t0-t1": 1, "t1-t2": 2}
_TIERS = {"t0": 0, "t1": 1, "t2": 2}
_MOST = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Pick:
    """Some links or switches of a kind, drawn without repetition."""

    of: str
    """Links "host-t0", "t0-t1", "t1-t2"; switches "t0", "t1", "t2"."""
    count: int | None = None
    fraction: float | None = None
    """Share of all of them, rounded to whole ones, at least one."""
    plane: int | None = None
    """Only in this plane, 1..; None: in all."""

    def __post_init__(self) -> None:
        if self.of not in (*_LAYERS, *_TIERS):
            raise UsageError(f"of = {self.of!r}: {', '.join((*_LAYERS, *_TIERS))}")
        if (self.count is None) == (self.fraction is None):
            raise UsageError("give count or fraction, and not both")
        if self.count is not None and self.count < 1:
            raise UsageError(f"count = {self.count}: at least 1")
        if self.fraction is not None and not 0 < self.fraction <= 1:
            raise UsageError(f"fraction = {self.fraction}: above 0, at most 1")

    def names(self, fabric: Fabric, rng: np.random.Generator) -> list[str]:
        """Draw.

        Raises:
            UsageError: the fabric has none, or fewer than asked for.
        """
        if self.of in _LAYERS:
            mask = fabric.tier_of_links() == _LAYERS[self.of]
            planes = fabric.link_plane
        else:
            mask = fabric.switch_tier == _TIERS[self.of]
            planes = fabric.switch_plane
        if self.plane is not None:
            mask = mask & (planes == self.plane)
        found = np.flatnonzero(mask)
        where = "" if self.plane is None else f" in plane {self.plane}"
        if not len(found):
            raise UsageError(f"pick: the fabric has no {self.of}{where}")
        count = self.count or max(1, round(len(found) * (self.fraction or 0)))
        if count > len(found):
            raise UsageError(f"pick: {count} of {self.of}{where} asked for, the fabric has {len(found)}")
        drawn = np.sort(rng.choice(found, count, replace=False)).tolist()
        if self.of in _LAYERS:
            return [fabric.link_name(i) for i in drawn]
        return [fabric.node_name(fabric.hosts + i) for i in drawn]


@dataclass(frozen=True, kw_only=True)
class FaultPlan:
    """One [[fault]] table."""

    kind: str
    """As `Fault`, for instance link_down."""
    at_ns: int = 0
    target: str | tuple[str, ...] | None = None
    """A name or several that fail together (the ports of one transceiver)."""
    pick: Mapping[str, Any] | None = None
    """Instead of names: `Pick`."""
    value: float = 0.0
    direction: str = "both"
    duration_ns: int | None = None
    """Heals by itself after so long; None: never. Of a switch_reboot how long it takes."""
    times: int = 1
    """How often it happens, `every_ns` apart."""
    every_ns: int | None = None
    poisson: bool = False
    """It strikes ONE of the targets at a time, drawn anew, in random gaps of `every_ns` on average, to `until_ns`."""
    until_ns: int | None = None
    seed: int = 1
    """Of everything drawn."""

    def __post_init__(self) -> None:
        if (self.target is None) == (self.pick is None):
            raise UsageError("give target (one name or a list) or pick (a table), and not both")
        if self.duration_ns is not None and self.duration_ns < 1:
            raise UsageError(f"duration_ns = {self.duration_ns}: at least 1")
        if self.kind == "switch_reboot" and self.duration_ns is None:
            raise UsageError("a switch_reboot needs duration_ns, the time until it forwards again")
        if self.kind not in (*_HEAL, "switch_reboot") and self.duration_ns is not None:
            raise UsageError(f"{self.kind} has no duration; it is a repair")
        if self.times < 1 or ((self.times > 1 or self.poisson) and (self.every_ns or 0) < 1):
            raise UsageError(f"times = {self.times}: at least 1, and with every_ns > 0 if more or poisson")
        if self.poisson != (self.until_ns is not None) or (self.poisson and self.times != 1):
            raise UsageError("poisson = true goes with until_ns, and without times")
        if self.times > 1 and self.duration_ns is not None and self.duration_ns >= (self.every_ns or 0):
            raise UsageError(
                f"duration_ns = {self.duration_ns} does not end before the next, {self.every_ns} ns later"
            )
        if self.poisson and ((self.until_ns or 0) - self.at_ns) // (self.every_ns or 1) > _MOST:
            raise UsageError(f"until_ns = {self.until_ns}: more than {_MOST} faults; lengthen every_ns")
        if self.poisson and (self.until_ns or 0) <= self.at_ns:
            raise UsageError(f"until_ns = {self.until_ns}: after at_ns = {self.at_ns}")

    def faults(self, fabric: Fabric, number: int) -> list[Fault]:
        """Return the single faults, by time.

        Args:
            fabric: for names.
            number: of the table among all, part of the seed.

        Raises:
            UsageError: no such target, or more than 2^20 faults.
        """
        rng = np.random.default_rng([self.seed, number, 0xFA])
        targets = self._targets(fabric, rng)
        moments = self._moments(rng)
        if len(moments) * (1 if self.poisson else len(targets)) > _MOST:
            raise UsageError(f"about {len(moments)} times {len(targets)} faults; the most is {_MOST}")
        out: list[Fault] = []
        for at in moments:
            struck = [targets[int(rng.integers(len(targets)))]] if self.poisson else targets
            for name in struck:
                out += self._one(at, name)
        # Of two faults at one moment the healing comes first: a flap may begin where another one ends.
        return sorted(out, key=lambda f: f.at_ns)

    def _one(self, at_ns: int, target: str) -> list[Fault]:
        if self.kind == "switch_reboot":
            return [Fault(at_ns, self.kind, target, float(self.duration_ns or 0), self.direction)]
        out = [Fault(at_ns, self.kind, target, self.value, self.direction)]
        if self.duration_ns is not None:
            kind, value = _HEAL[self.kind]
            out.append(Fault(at_ns + self.duration_ns, kind, target, value, self.direction))
        return out

    def _moments(self, rng: np.random.Generator) -> list[int]:
        if not self.poisson:
            return [self.at_ns + k * (self.every_ns or 0) for k in range(self.times)]
        out: list[int] = []
        at = float(self.at_ns)
        while len(out) <= _MOST:
            at += rng.exponential(self.every_ns or 1)
            if at >= (self.until_ns or 0):
                break
            out.append(int(at))
        return out

    def _targets(self, fabric: Fabric, rng: np.random.Generator) -> list[str]:
        if self.pick is not None:
            return read_table(Pick, self.pick, "pick").names(fabric, rng)
        names = [self.target] if isinstance(self.target, str) else list(self.target or ())
        if not names:
            raise UsageError("target is an empty list")
        for name in names:
            if self.kind.startswith("switch_"):
                fabric.switch(name)
            else:
                fabric.links_of(name)
        return names


def plan_faults(tables: Sequence[object], topology: Topology) -> tuple[Fault, ...]:
    """Return the faults of all [[fault]] tables, by time.

    Raises:
        UsageError: names the table (fault.0, fault.1, ...) and what is wrong.
    """
    plans = [read_table(FaultPlan, mapping(t, f"fault.{i}"), f"fault.{i}") for i, t in enumerate(tables)]
    fabric = build(topology) if plans else None
    out: list[Fault] = []
    for i, plan in enumerate(plans):
        try:
            out += plan.faults(fabric, i) if fabric is not None else []
        except UsageError as e:
            raise UsageError(f"[fault.{i}] {e}") from None
    return tuple(sorted(out, key=lambda f: f.at_ns))
