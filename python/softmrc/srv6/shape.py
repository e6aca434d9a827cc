"""Who is wired to whom in each plane, and so which paths there are.

The same model as the simulator's `Clos` and `Graph`: a folded Clos of two or three tiers in equal planes, or a list of
links for a fabric made by hand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from softmrc.errors import UsageError
from softmrc.srv6.plan import MAX_PLANES, Path, path, usid

__all__ = ["Shape", "paths"]

_MOST_HOPS = 3
_HOST = re.compile(r"^h(\d+)$")
_SWITCH = re.compile(r"^p(\d+)\.(t[012])-(\d+)$")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A fabric's wiring.

    Two tiers: host h hangs on T0 h // hosts_per_t0, each T0 has one link to each of `t1_per_plane` T1s. Three tiers:
    the T0s are split evenly over `pods`, a T0 has one link to each T1 of its pod, and T1 number j of every pod one to
    each T2 of rail j.

    Attributes:
        planes: equal copies, 1 to 31.
        hosts: each has one port a plane.
        hosts_per_t0: hosts below one T0.
        t1_per_plane: T1s of a plane (two tiers); 0: one switch a plane.
        tiers: 2 or 3.
        pods, t1_per_pod, t2_per_plane: three tiers only.
        links: when given, the wiring instead of all the above but `planes` and `hosts`: (lower, upper) ends, named
            `h3` and `p2.t0-5`.
    """

    planes: int
    hosts: int
    hosts_per_t0: int = 1
    t1_per_plane: int = 0
    tiers: int = 2
    pods: int = 1
    t1_per_pod: int = 0
    t2_per_plane: int = 0
    links: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be wired.

        Raises:
            UsageError: a number is out of range, a link has malformed ends.
        """
        if not 1 <= self.planes <= MAX_PLANES:
            raise UsageError(f"planes must be 1 to {MAX_PLANES}, not {self.planes}")
        if self.hosts < 1 or self.hosts_per_t0 < 1 or self.tiers not in (2, 3) or self.pods < 1:
            raise UsageError(
                "a fabric has hosts, hosts below each T0, two or three tiers and at least one pod"
            )
        if self.links:
            for low, high in self.links:
                if not _SWITCH.match(high) or not (_HOST.match(low) or _SWITCH.match(low)):
                    raise UsageError(
                        f"link {low} - {high}: ends are named like h3 and p2.t0-5, the upper one last"
                    )
            return
        if self.tiers == 3 and (
            self.t0 % self.pods
            or self.t1_per_pod < 1
            or self.t2_per_plane % self.t1_per_pod
            or not self.t2_per_plane
        ):
            raise UsageError("three tiers: T0s split evenly over pods, and T2s over the T1s of a pod")
        if self.tiers == 2 and self.t1_per_plane < 1 and self.t0 > 1:
            raise UsageError(f"{self.t0} T0s and no T1: hosts could not reach each other")

    @property
    def t0(self) -> int:
        """T0s of a plane (without `links`)."""
        return -(-self.hosts // self.hosts_per_t0)

    @cached_property
    def _above(self) -> dict[str, tuple[str, ...]]:
        above: dict[str, list[str]] = {}
        for low, high in self.links:
            if high not in above.setdefault(low, []):
                above[low].append(high)
        return {low: tuple(high) for low, high in above.items()}

    def above(self, plane: int, node: str) -> tuple[str, ...]:
        """Return the switches one tier up that a node has a link to, in order.

        Args:
            plane: 1-based.
            node: `h3` or, without plane, `t0-5`.
        """
        if self.links:
            name = node if _HOST.match(node) else f"p{plane}.{node}"
            own = f"p{plane}."
            return tuple(n.removeprefix(own) for n in self._above.get(name, ()) if n.startswith(own))
        if match := _HOST.match(node):
            return (f"t0-{int(match[1]) // self.hosts_per_t0}",)
        kind, index = _switch(node)
        if kind == "t0" and self.tiers == 2:
            return tuple(f"t1-{j}" for j in range(self.t1_per_plane))
        if kind == "t0":
            first = index // (self.t0 // self.pods) * self.t1_per_pod
            return tuple(f"t1-{first + j}" for j in range(self.t1_per_pod))
        if kind == "t1" and self.tiers == 3:
            fan = self.t2_per_plane // self.t1_per_pod
            first = index % self.t1_per_pod * fan
            return tuple(f"t2-{first + m}" for m in range(fan))
        return ()

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON takes them."""
        data = asdict(self)
        data["links"] = [list(link) for link in self.links]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Shape:
        """Read what `to_json` made.

        Raises:
            UsageError: a field is missing, unknown or of another type.
        """
        given = dict(data)
        links = given.pop("links", [])
        known = {f.name for f in fields(cls)} - {"links"}
        if set(given) - known or not all(type(v) is int for v in given.values()):
            raise UsageError(f"a shape has the whole numbers {', '.join(sorted(known))}, and links")
        try:
            return cls(links=tuple((str(low), str(high)) for low, high in links), **given)
        except (TypeError, ValueError) as error:
            raise UsageError(f"malformed shape: {error}") from None


def paths(shape: Shape, plane: int, src: int, dst: int) -> list[Path]:
    """Return every shortest way up and down from one host to another in a plane, in the order of the switches.

    Args:
        shape: the wiring.
        plane: 1-based.
        src: index of the sending host.
        dst: index of the receiving host.

    Returns:
        The ways; empty when the plane does not join them, one without switches from a host to itself.

    Raises:
        UsageError: no such plane or host.
    """
    for what, value, low, high in (
        ("plane", plane, 1, shape.planes), ("host", src, 0, shape.hosts - 1), ("host", dst, 0, shape.hosts - 1)
    ):  # fmt: skip
        if not low <= value <= high:
            raise UsageError(f"no {what} {value}: {low} to {high}")
    if src == dst:
        return [Path(plane, (), path(plane, (), dst))]
    up: list[tuple[str, ...]] = [(f"h{src}",)]
    down: list[tuple[str, ...]] = [(f"h{dst}",)]
    for _ in range(_MOST_HOPS):
        up = [(*chain, n) for chain in up for n in shape.above(plane, chain[-1])]
        down = [(*chain, n) for chain in down for n in shape.above(plane, chain[-1])]
        ways = [(*a[1:], *reversed(b[1:-1])) for a in up for b in down if a[-1] == b[-1]]
        if ways:
            return [Path(plane, w, path(plane, [usid(*_switch(n)) for n in w], dst)) for w in ways]
    return []


def _switch(name: str) -> tuple[str, int]:
    kind, _, index = name.partition("-")
    return kind, int(index)
