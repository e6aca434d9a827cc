"""What a lab is: its fabric, rates and options, checked before anything is made.

The fabric has the fields of the simulator's (`softmrc.sim.config.Clos` and `Graph`) and is read from the same files
(`softmrc.lab.file`); the two are apart because the simulator needs numpy and a lab does not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from softmrc.errors import UsageError
from softmrc.srv6 import Shape

__all__ = ["LabSpec", "check_name"]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,15}")
_MAX_NODES = 4096
_MIN_MTU, _MAX_MTU = 1280, 65535
_MAX_BPS = 1_000_000_000_000
SWITCHES = ("auto", "kernel", "soft", "veth")
PLAIN = ("single", "ecmp")
PATHS = ("usid", "flow")


def check_name(name: str) -> str:
    """Return the name of a lab.

    Raises:
        UsageError: no lab can be called so. Names become those of files and namespaces.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"name = {name!r}: a letter, then letters, digits and _, 16 at most")
    return name


@dataclass(frozen=True, kw_only=True)
class LabSpec:
    """A lab to be made.

    Attributes:
        name: letters, digits, _; at most 16. Labs of different names stand beside each other.
        hosts: in all; host h hangs on T0 h // hosts_per_t0 of every plane.
        planes: equal copies of the switches, 1 to 31; a host has one port in each.
        t0, t1, t2: T0s, T1s and T2s of a plane. t2 > 0 makes three tiers. t1 = 0: one switch a plane.
        hosts_per_t0: None: hosts / t0, rounded up.
        pods: of three tiers; the T0s and T1s are split evenly over them.
        links: a fabric made by hand: (lower, upper) ends named `h3` and `p2.t0-5`; t0 to pods are then ignored.
        rate_bps: of a host's port, bit/s; None: as fast as the machine.
        fabric_rate_bps: of links between switches; None: `rate_bps`. Oversubscription is the ratio.
        mtu: of every link, bytes.
        delay_ns: one way, of every link; the user-space switch alone has it, since this kernel has no netem.
        trimming: switches cut packets that find a full queue to their headers instead of dropping them.
        ecn: switches mark.
        ua: switches also have one uA SID for each link (chosen links).
        encap: hosts also reach each other in IPv6-in-IPv6 by `seg6` routes (End.DT6 at the receiver).
        anyip: hosts accept everything behind their uSID, so that the bits after it carry an EV.
        plain: routes for a host's bare address: "single", one path, the same always, or "ecmp", by flow label.
        paths: of softmrc's own programs in hosts: "usid" lists, or "flow" labels (with plain = "ecmp").
        switch: "kernel", "soft" (the user-space switch, hosts on loopback), "veth" (the same with hosts in
            namespaces) or "auto".
    """

    name: str = "lab"
    planes: int = 4
    t0: int = 2
    t1: int = 4
    hosts: int = 8
    t2: int = 0
    hosts_per_t0: int | None = None
    pods: int = 1
    links: tuple[tuple[str, str], ...] = ()
    rate_bps: int | None = 200_000_000
    fabric_rate_bps: int | None = None
    mtu: int = 9000
    delay_ns: int = 0
    trimming: bool = True
    ecn: bool = True
    ua: bool = False
    encap: bool = False
    anyip: bool = False
    plain: str = "single"
    paths: str = "usid"
    switch: str = "auto"

    def __post_init__(self) -> None:
        """Refuse what cannot be built.

        Raises:
            UsageError: names the field, its value and what is allowed.
        """
        check_name(self.name)
        for field, low, high in (
            ("planes", 1, 31), ("hosts", 1, 4096), ("t0", 1, 4096), ("t1", 0, 4096), ("t2", 0, 4096), ("pods", 1, 256),
            ("mtu", _MIN_MTU, _MAX_MTU), ("delay_ns", 0, 1_000_000_000),
        ):  # fmt: skip
            value = getattr(self, field)
            if not low <= value <= high:
                raise UsageError(f"{field} = {value}: must be {low} to {high}")
        for field in ("rate_bps", "fabric_rate_bps"):
            value = getattr(self, field)
            if value is not None and not 10_000 <= value <= _MAX_BPS:
                raise UsageError(f"{field} = {value}: 10 kbit/s to 1 Tbit/s")
        for field, allowed in (("plain", PLAIN), ("switch", SWITCHES), ("paths", PATHS)):
            if getattr(self, field) not in allowed:
                raise UsageError(f"{field} = {getattr(self, field)!r}: one of {', '.join(allowed)}")
        if self.paths == "flow" and self.plain != "ecmp":
            raise UsageError(f'paths = "flow" needs plain = "ecmp": with {self.plain!r} all flows go one way')
        shape = self.shape
        if not self.links and shape.t0 != self.t0:
            raise UsageError(
                f"{self.hosts} hosts, {shape.hosts_per_t0} on each T0, need {shape.t0} T0s, not {self.t0}"
            )
        nodes = self.hosts + self.planes * (self.t0 + self.t1 + self.t2)
        if nodes > _MAX_NODES:
            raise UsageError(f"{nodes} namespaces: at most {_MAX_NODES}")

    @cached_property
    def shape(self) -> Shape:
        """The wiring (UsageError when there is none)."""
        if self.links:
            return Shape(planes=self.planes, hosts=self.hosts, links=tuple(self.links))
        if self.t2 == 0 and self.pods != 1:
            raise UsageError(f"pods = {self.pods}: two tiers have none; t2 > 0")
        if self.t2 and self.t1 % self.pods:
            raise UsageError(f"{self.t1} T1s cannot be split evenly over {self.pods} pods")
        each = self.hosts_per_t0 or -(-self.hosts // self.t0)
        if self.t2 == 0:
            return Shape(planes=self.planes, hosts=self.hosts, hosts_per_t0=each, t1_per_plane=self.t1)
        return Shape(
            planes=self.planes, hosts=self.hosts, hosts_per_t0=each, tiers=3, pods=self.pods,
            t1_per_pod=self.t1 // self.pods, t2_per_plane=self.t2,
        )  # fmt: skip

    def link_rate(self, kind: str) -> int | None:
        """Return the rate of a "host" or "fabric" link, bit/s; None: not limited."""
        return self.rate_bps if kind == "host" or self.fabric_rate_bps is None else self.fabric_rate_bps

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON takes them."""
        return {**asdict(self), "links": [list(link) for link in self.links]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LabSpec:
        """Read what `to_json` made.

        Raises:
            UsageError: a field is unknown or out of range.
        """
        unknown = set(data) - {f.name for f in fields(cls)}
        if unknown:
            raise UsageError(f"a lab has no {', '.join(sorted(unknown))}")
        given = dict(data)
        given["links"] = tuple((str(low), str(high)) for low, high in data.get("links", ()))
        return cls(**given)
