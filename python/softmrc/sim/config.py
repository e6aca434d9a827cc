"""What a run is given: fabric, queues, transport, faults. Plain frozen dataclasses that check themselves.

Bytes are bytes on the wire, rates are Gbit/s, times are integer nanoseconds. Planes count from 1, everything
else from 0. `None` means "the default that the fabric implies" (paper-results E.3 and E.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from softmrc.sim.checks import check, check_range
from softmrc.sim.transports import Mrc, Rocev2, Tcp, Transport

__all__ = [
    "Clos",
    "Fault",
    "Graph",
    "GraphLink",
    "GraphSwitch",
    "Mrc",
    "Queues",
    "Rocev2",
    "Tcp",
    "Topology",
    "Transport",
]

MAX_HOSTS = 1 << 20
MAX_PLANES = 31
MAX_LINK_NS = 10_000_000_000


@dataclass(frozen=True)
class Clos:
    """A folded Clos in `planes` equal copies; every host has one port in each.

    Two tiers: `ceil(hosts / hosts_per_t0)` T0s, each with one link to each of `t1_per_plane` T1s. Three tiers: the T0s
    are split evenly over `pods`; a T0 has one link to each of its pod's `t1_per_pod` T1s, and T1 number j of every pod
    one to each of the `t2_per_plane / t1_per_pod` T2s of rail j. `t1_per_plane = 0`: one switch a plane.

    Attributes:
        host_gbps: rate of a host's port in one plane.
        t0_t1_gbps: rate of a T0-T1 link; None = `host_gbps`. Oversubscription is hosts x host rate over
            uplinks x uplink rate.
        host_link_ns, t0_t1_ns, t1_t2_ns: one-way delay of the cable.
        switch_ns: forwarding delay of a switch, counted once for every switch passed.
        nic_ns: delay of a NIC, counted at the receiving host.
    """

    hosts: int
    planes: int = 8
    hosts_per_t0: int = 256
    t1_per_plane: int = 256
    tiers: int = 2
    pods: int = 1
    t1_per_pod: int | None = None
    t2_per_plane: int | None = None
    host_gbps: float = 100.0
    t0_t1_gbps: float | None = None
    t1_t2_gbps: float | None = None
    host_link_ns: int = 500
    t0_t1_ns: int = 500
    t1_t2_ns: int = 500
    switch_ns: int = 300
    nic_ns: int = 0

    def __post_init__(self) -> None:
        check_range("hosts", self.hosts, 1, MAX_HOSTS)
        check_range("planes", self.planes, 1, MAX_PLANES)
        check_range("hosts_per_t0", self.hosts_per_t0, 1, 1 << 14)
        check_range("t1_per_plane", self.t1_per_plane, 0, 1 << 14)
        check(self.tiers in (2, 3), f"tiers = {self.tiers}: 2 or 3")
        check_range("pods", self.pods, 1, 1 << 14)
        check(self.tiers == 3 or self.pods == 1, f"pods = {self.pods}: two tiers have none; tiers = 3")
        for name in ("host_gbps", "t0_t1_gbps", "t1_t2_gbps"):
            check_range(name, getattr(self, name), 1e-6, 1e5)
        for name in ("host_link_ns", "t0_t1_ns", "t1_t2_ns", "switch_ns", "nic_ns"):
            check_range(name, getattr(self, name), 0, MAX_LINK_NS)
        check_range("t0", self.t0, 1, 1 << 14)
        check(
            self.t1_per_plane > 0 or self.t0 == 1,
            f"{self.t0} T0s and no T1: hosts could not reach each other",
        )
        if self.tiers == 3:
            check(
                self.t1_per_pod is not None and self.t2_per_plane is not None,
                "three tiers need t1_per_pod and t2_per_plane",
            )
            check(self.t0 % self.pods == 0, f"{self.t0} T0s cannot be split evenly over {self.pods} pods")
            check_range("t1_per_pod", self.t1_per_pod, 1, 1 << 14)
            check_range("t2_per_plane", self.t2_per_plane, 1, 1 << 14)
            check(self.t2 % (self.t1_per_pod or 1) == 0, "t2_per_plane must be a multiple of t1_per_pod")

    @property
    def t0(self) -> int:
        """T0s in a plane."""
        return -(-self.hosts // self.hosts_per_t0)

    @property
    def t1(self) -> int:
        """T1s in a plane."""
        return self.pods * (self.t1_per_pod or 0) if self.tiers == 3 else self.t1_per_plane

    @property
    def t2(self) -> int:
        """T2s in a plane."""
        return (self.t2_per_plane or 0) if self.tiers == 3 else 0

    def gbps(self, tier: int) -> float:
        """Rate of the links above hosts (0), T0s (1) and T1s (2)."""
        up = self.t0_t1_gbps if self.t0_t1_gbps is not None else self.host_gbps
        return (self.host_gbps, up, self.t1_t2_gbps if self.t1_t2_gbps is not None else up)[tier]


@dataclass(frozen=True)
class GraphSwitch:
    """A switch of a hand-made fabric; `index` counts inside its tier and plane."""

    tier: int
    plane: int = 1
    index: int = 0

    @property
    def name(self) -> str:
        """As faults name it, for instance `p1.t0-3`."""
        return f"p{self.plane}.t{self.tier}-{self.index}"


@dataclass(frozen=True)
class GraphLink:
    """A link of a hand-made fabric: `low` is `h3` or a switch, `high` a switch one tier above."""

    low: str
    high: str
    gbps: float = 100.0
    gbps_down: float | None = None
    delay_ns: int = 800


@dataclass(frozen=True)
class Graph:
    """A hand-made fabric: hosts, switches of tiers 0 to 2, and the links between neighbouring tiers."""

    hosts: int
    switches: Sequence[GraphSwitch]
    links: Sequence[GraphLink]
    planes: int = 1

    def __post_init__(self) -> None:
        check_range("hosts", self.hosts, 1, MAX_HOSTS)
        check_range("planes", self.planes, 1, MAX_PLANES)
        names = [s.name for s in self.switches]
        twice = {n for n in names if names.count(n) > 1} if len(names) < 4096 else set()
        check(len(set(names)) == len(names), f"switches named twice: {', '.join(sorted(twice)) or '(many)'}")
        for s in self.switches:
            check(
                s.tier in (0, 1, 2) and 1 <= s.plane <= self.planes and s.index >= 0,
                f"switch {s.name}: tier 0 to 2, plane 1 to {self.planes}",
            )
        known = set(names)
        for link in self.links:
            where = f"link {link.low} - {link.high}"
            check(link.high in known, f"{where}: there is no switch {link.high}")
            low_host = link.low.startswith("h") and link.low[1:].isdigit() and int(link.low[1:]) < self.hosts
            check(low_host or link.low in known, f"{where}: there is no host or switch {link.low}")
            check_range(f"{where}: gbps", link.gbps, 1e-6, 1e5)
            check_range(f"{where}: gbps_down", link.gbps_down, 1e-6, 1e5)
            check_range(f"{where}: delay_ns", link.delay_ns, 0, MAX_LINK_NS)


Topology = Clos | Graph


@dataclass(frozen=True)
class Queues:
    """Egress queues of switches (paper-results E.3). None = from `rate x base RTT` of the fabric (BDP).

    Attributes:
        data_bytes: capacity of the data class; None = 4 BDP.
        ecn_min, ecn_max: random marking between them, from probability 0 to `ecn_pmax`; None = 0.2 and 0.8 BDP;
            equal = a threshold; 0 and 0 = no marking.
        ecn_last_hop: mark also on the port to the host; None = not for MRC (the paper: off), but for baselines, which
            have nothing else to tell an incast by.
        trim_bytes, trim_last_hop: data queued beyond which arrivals are trimmed; None = 1.0 and 1.5 BDP; 0 = never.
        control_bytes: capacity of the control class.
        control: "strict" = before all data; "weighted" = at most `control_share` of a busy line.
        shared_buffer: bytes that all ports of a switch share; 0 = every port its own.
        shared_alpha: dynamic threshold of the shared buffer; 0 = any port may take all of it.
        pfc: pause the upstream port when `pfc_xoff` bytes from it are buffered, until `pfc_xon`; None = 2 BDP and 3/4
            of it.
    """

    data_bytes: int | None = None
    ecn_min: int | None = None
    ecn_max: int | None = None
    ecn_pmax: float = 1.0
    ecn_last_hop: bool | None = None
    trim_bytes: int | None = None
    trim_last_hop: int | None = None
    control_bytes: int = 1 << 20
    control: str = "strict"
    control_share: float = 0.25
    shared_buffer: int = 0
    shared_alpha: float = 0.0
    pfc: bool = False
    pfc_xoff: int | None = None
    pfc_xon: int | None = None

    def __post_init__(self) -> None:
        for name in (
            "data_bytes",
            "ecn_min",
            "ecn_max",
            "trim_bytes",
            "trim_last_hop",
            "pfc_xoff",
            "pfc_xon",
            "control_bytes",
            "shared_buffer",
        ):
            check_range(name, getattr(self, name), 0, (1 << 32) - 1)
        check_range("ecn_pmax", self.ecn_pmax, 0, 1)
        check_range("shared_alpha", self.shared_alpha, 0, 1024)
        check(self.control in ("strict", "weighted"), f"control = {self.control!r}: strict or weighted")
        check(0 < self.control_share < 1, f"control_share = {self.control_share}: above 0, below 1")
        check(
            self.ecn_min is None or self.ecn_max is None or self.ecn_min <= self.ecn_max,
            "ecn_min is above ecn_max",
        )
        check(
            self.pfc_xon is None or self.pfc_xoff is None or self.pfc_xon <= self.pfc_xoff,
            "pfc_xon is above pfc_xoff",
        )


FAULT_KINDS = (
    "link_down", "link_up", "link_loss", "link_corrupt", "link_rate",
    "switch_down", "switch_up", "port_down", "port_up",
)  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """Something that breaks or heals at a moment.

    Attributes:
        kind: one of `FAULT_KINDS`, or `switch_reboot` (down with all its links for `value` ns).
        target: link `h3.p2` or `p2.t0-5.t1-7`, switch `p2.t1-7`, plane `p2` (all its links), host `h3` (all its ports).
        value: probability of link_loss and link_corrupt, fraction of link_rate, ns of switch_reboot.
        direction: "both", "up" (towards higher tiers) or "down".
    """

    at_ns: int
    kind: str
    target: str
    value: float = 0.0
    direction: str = "both"

    def __post_init__(self) -> None:
        check_range(f"{self.kind} {self.target}: at_ns", self.at_ns, 0, 10**15)
        kinds = (*FAULT_KINDS, "switch_reboot")
        check(self.kind in kinds, f"no fault {self.kind!r}; there are {', '.join(kinds)}")
        check(self.direction in ("both", "up", "down"), f"direction = {self.direction!r}: both, up or down")
        if self.kind in ("link_loss", "link_corrupt"):
            check_range(f"{self.kind} {self.target}: value", self.value, 0, 1)
        if self.kind == "link_rate":
            check_range(f"{self.kind} {self.target}: value", self.value, 1e-6, 1)
        if self.kind == "switch_reboot":
            check_range(f"{self.kind} {self.target}: value", self.value, 1, 10**15)
