"""A fabric as arrays: nodes, links, queue rules, and the names that faults and reports use.

`build` turns a `Clos` or a `Graph` into what the core takes. Nodes are hosts, then switches; a link has two directed
ports, `2 * link` upwards and `2 * link + 1` downwards.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmrc.errors import UsageError
from softmrc.sim.config import Clos, Graph, Queues, Topology

__all__ = ["PACKET_HEADERS", "Fabric", "build"]

PACKET_HEADERS = 52 + 86
"""Bytes of a full packet beside its payload: the longest headers, the rest of the wire (core/sim/units.h)."""
MTU_WIRE = 4096 + PACKET_HEADERS
_LINK = re.compile(r"^(?:h(\d+)\.p(\d+)|p(\d+)\.t(\d)-(\d+)\.t(\d)-(\d+))$")
_SWITCH = re.compile(r"^p(\d+)\.t(\d)-(\d+)$")


@dataclass
class Fabric:
    """The arrays of a fabric, and its names."""

    hosts: int
    planes: int
    switch_tier: NDArray[np.uint8]
    switch_plane: NDArray[np.uint8]
    switch_index: NDArray[np.uint32]
    link_a: NDArray[np.uint32]
    link_b: NDArray[np.uint32]
    link_bps_up: NDArray[np.float64]
    link_bps_down: NDArray[np.float64]
    link_delay_ns: NDArray[np.int64]
    link_plane: NDArray[np.uint8]

    def __post_init__(self) -> None:
        self._switches: dict[str, int] | None = None
        self._links: dict[tuple[int, int], int] | None = None

    @property
    def links(self) -> int:
        """Links, both directions of one counted once."""
        return len(self.link_a)

    def node_name(self, node: int) -> str:
        """`h3` or `p2.t0-5`."""
        if node < self.hosts:
            return f"h{node}"
        s = node - self.hosts
        return f"p{self.switch_plane[s]}.t{self.switch_tier[s]}-{self.switch_index[s]}"

    def link_name(self, link: int) -> str:
        """`h3.p2` or `p2.t0-5.t1-7`."""
        a, b = int(self.link_a[link]), int(self.link_b[link])
        if a < self.hosts:
            return f"h{a}.p{self.link_plane[link]}"
        return f"{self.node_name(a)}.{self.node_name(b).split('.', 1)[1]}"

    def port_name(self, port: int) -> str:
        """A directed link: its name and `up` or `down`."""
        return f"{self.link_name(port // 2)}.{'down' if port % 2 else 'up'}"

    def switch(self, name: str) -> int:
        """The node of `p2.t1-7`; UsageError if there is none."""
        if self._switches is None:
            self._switches = {
                self.node_name(self.hosts + i): self.hosts + i for i in range(len(self.switch_tier))
            }
        if name not in self._switches:
            raise UsageError(f"no switch {name}: switches are named like p1.t0-0, p{self.planes}.t1-0")
        return self._switches[name]

    def link(self, name: str) -> int:
        """The link of `h3.p2` or `p2.t0-5.t1-7`; UsageError if there is none."""
        m = _LINK.match(name)
        if m is None:
            raise UsageError(f"no link {name}: links are named like h0.p1 and p1.t0-0.t1-0")
        if self._links is None:
            pairs = zip(self.link_a.tolist(), self.link_b.tolist(), strict=True)
            self._links = {pair: i for i, pair in reversed(list(enumerate(pairs)))}
        if m[1] is not None:
            of_host = np.flatnonzero((self.link_a == int(m[1])) & (self.link_plane == int(m[2])))
            if len(of_host) == 0 or int(m[1]) >= self.hosts:
                raise UsageError(f"no link {name}: {self.hosts} hosts, {self.planes} planes")
            return int(of_host[0])
        ends = self.switch(f"p{m[3]}.t{m[4]}-{m[5]}"), self.switch(f"p{m[3]}.t{m[6]}-{m[7]}")
        found = self._links.get(ends, self._links.get(ends[::-1]))
        if found is None:
            raise UsageError(f"no link {name}: those switches are not neighbours")
        return found

    def links_of(self, target: str) -> list[int]:
        """The links of a host (`h3`), switch or plane (`p2`), or the one link of that name."""
        if re.match(r"^h\d+$", target):
            host = int(target[1:])
            if host >= self.hosts:
                raise UsageError(f"no host {target}: {self.hosts} hosts, h0 to h{self.hosts - 1}")
            return [int(i) for i in np.flatnonzero(self.link_a == host)]
        if re.match(r"^p\d+$", target):
            plane = int(target[1:])
            if not 1 <= plane <= self.planes:
                raise UsageError(f"no plane {target}: p1 to p{self.planes}")
            return [int(i) for i in np.flatnonzero(self.link_plane == plane)]
        if _SWITCH.match(target):
            node = self.switch(target)
            return [int(i) for i in np.flatnonzero((self.link_a == node) | (self.link_b == node))]
        return [self.link(target)]

    def base_rtt_ns(self) -> float:
        """Longest round trip without queues: a full packet one way, a short one back."""
        best = 0.0
        tiers = int(self.switch_tier.max(initial=0)) + 1
        for level in range(tiers):
            tier = self.tier_of_links()
            mask = tier == level
            if not mask.any():
                continue
            one = float(np.max(self.link_delay_ns[mask]))
            ser = MTU_WIRE * 8e9 / float(np.min(np.minimum(self.link_bps_up[mask], self.link_bps_down[mask])))
            best += 4 * one + 2 * ser
        return best

    def tier_of_links(self) -> NDArray[np.int64]:
        """0: host links, 1: T0-T1, 2: T1-T2."""
        tier = np.zeros(self.links, dtype=np.int64)
        inner = self.link_a >= self.hosts
        tier[inner] = self.switch_tier[self.link_a[inner] - self.hosts].astype(np.int64) + 1
        return tier

    def arrays(self, queues: Queues, *, pfc: bool) -> dict[str, Any]:
        """What the core takes, with a queue rule for every rate that occurs."""
        rules: list[dict[str, Any]] = []
        known: dict[float, int] = {}
        rtt = self.base_rtt_ns()

        def rule(bps: float) -> int:
            if bps not in known:
                known[bps] = len(rules)
                rules.append(rule_of(queues, bps, rtt))
            return known[bps]

        up = np.array([rule(float(b)) for b in np.unique(self.link_bps_up)], dtype=np.uint16)
        down = np.array([rule(float(b)) for b in np.unique(self.link_bps_down)], dtype=np.uint16)
        fastest = bdp_of(float(self.link_bps_up.max(initial=1.0)), rtt)
        xoff = queues.pfc_xoff if queues.pfc_xoff is not None else min(2 * fastest, (1 << 32) - 1)
        return {
            "hosts": self.hosts,
            "planes": self.planes,
            "pfc": pfc,
            "pfc_xoff": max(xoff, 1) if pfc else 0,
            "pfc_xon": queues.pfc_xon if queues.pfc_xon is not None else xoff * 3 // 4,
            "shared_buffer": queues.shared_buffer,
            "rules": rules,
            "switch_tier": self.switch_tier,
            "switch_plane": self.switch_plane,
            "switch_index": self.switch_index,
            "link_a": self.link_a,
            "link_b": self.link_b,
            "link_bps_up": self.link_bps_up,
            "link_bps_down": self.link_bps_down,
            "link_delay_ns": self.link_delay_ns,
            "link_plane": self.link_plane,
            "link_queue_up": up[np.searchsorted(np.unique(self.link_bps_up), self.link_bps_up)],
            "link_queue_down": down[np.searchsorted(np.unique(self.link_bps_down), self.link_bps_down)],
        }


def bdp_of(bps: float, rtt_ns: float) -> int:
    """Bytes in flight that fill a link of that rate for one base RTT."""
    return int(bps / 8e9 * rtt_ns)


def rule_of(q: Queues, bps: float, rtt_ns: float) -> dict[str, Any]:
    """Thresholds of one egress queue (paper-results E.3)."""
    bdp = bdp_of(bps, rtt_ns)
    limit = (1 << 32) - 1

    def bytes_of(given: int | None, factor: float) -> int:
        return given if given is not None else min(max(int(factor * bdp), MTU_WIRE), limit)

    return {
        "data_bytes": q.data_bytes if q.data_bytes is not None else min(max(4 * bdp, 8 * MTU_WIRE), limit),
        "control_bytes": q.control_bytes,
        "ecn_min": bytes_of(q.ecn_min, 0.2),
        "ecn_max": bytes_of(q.ecn_max, 0.8),
        "ecn_pmax": q.ecn_pmax,
        "ecn_last_hop": bool(q.ecn_last_hop),
        "trim_bytes": bytes_of(q.trim_bytes, 1.0),
        "trim_last_hop": bytes_of(q.trim_last_hop, 1.5),
        "weighted": q.control == "weighted",
        "control_share_ppm": int(q.control_share * 1e6),
    }


def build(topology: Topology) -> Fabric:
    """The arrays of a topology."""
    return _build_clos(topology) if isinstance(topology, Clos) else _build_graph(topology)


def _build_clos(c: Clos) -> Fabric:
    per_plane = c.t0 + c.t1 + c.t2
    tier = np.repeat(np.array([0, 1, 2], dtype=np.uint8), [c.t0, c.t1, c.t2])
    index = np.concatenate([np.arange(n, dtype=np.uint32) for n in (c.t0, c.t1, c.t2)])
    plane0 = np.arange(c.planes, dtype=np.uint32)
    first = c.hosts + plane0 * per_plane  # first T0 of each plane
    host = np.repeat(np.arange(c.hosts, dtype=np.uint32), c.planes)
    at = np.tile(plane0, c.hosts)
    a, b = [host], [first[at] + host // c.hosts_per_t0]
    level = [np.zeros(len(host), dtype=np.int64)]
    plane = [at]
    pairs: list[tuple[NDArray[np.uint32], NDArray[np.uint32], int]] = []
    t0 = np.arange(c.t0, dtype=np.uint32)
    if c.tiers == 2:
        low, high = np.repeat(t0, c.t1), np.tile(c.t0 + np.arange(c.t1, dtype=np.uint32), c.t0)
        pairs.append((low, high, 1))
    else:
        in_pod = c.t1_per_pod or 1
        pod = t0 // (c.t0 // c.pods)
        low = np.repeat(t0, in_pod)
        high = c.t0 + np.repeat(pod, in_pod) * in_pod + np.tile(np.arange(in_pod, dtype=np.uint32), c.t0)
        pairs.append((low, high, 1))
        fan = c.t2 // in_pod
        t1 = np.arange(c.t1, dtype=np.uint32)
        rail = t1 % in_pod
        low = c.t0 + np.repeat(t1, fan)
        high = c.t0 + c.t1 + np.repeat(rail, fan) * fan + np.tile(np.arange(fan, dtype=np.uint32), c.t1)
        pairs.append((low, high, 2))
    for low, high, up in pairs:
        n = len(low)
        a.append((first[:, None] + low[None, :]).ravel().astype(np.uint32))
        b.append((first[:, None] + high[None, :]).ravel().astype(np.uint32))
        level.append(np.full(n * c.planes, up, dtype=np.int64))
        plane.append(np.repeat(plane0, n))
    tiers = np.concatenate(level)
    bps = np.array([c.gbps(i) * 1e9 for i in range(3)])[tiers]
    cable = np.array(
        [c.host_link_ns + c.switch_ns + c.nic_ns, c.t0_t1_ns + c.switch_ns, c.t1_t2_ns + c.switch_ns],
        dtype=np.int64,
    )
    return Fabric(
        c.hosts, c.planes, np.tile(tier, c.planes),
        np.repeat(np.arange(1, c.planes + 1, dtype=np.uint8), per_plane), np.tile(index, c.planes),
        np.concatenate(a).astype(np.uint32), np.concatenate(b).astype(np.uint32), bps, bps.copy(),
        cable[tiers], (np.concatenate(plane) + 1).astype(np.uint8),
    )  # fmt: skip


def _build_graph(g: Graph) -> Fabric:
    nodes = {f"h{i}": i for i in range(g.hosts)} | {s.name: g.hosts + i for i, s in enumerate(g.switches)}
    plane = {s.name: s.plane for s in g.switches}
    down = [link.gbps if link.gbps_down is None else link.gbps_down for link in g.links]
    return Fabric(
        g.hosts,
        g.planes,
        np.array([s.tier for s in g.switches], dtype=np.uint8),
        np.array([s.plane for s in g.switches], dtype=np.uint8),
        np.array([s.index for s in g.switches], dtype=np.uint32),
        np.array([nodes[link.low] for link in g.links], dtype=np.uint32),
        np.array([nodes[link.high] for link in g.links], dtype=np.uint32),
        np.array([link.gbps * 1e9 for link in g.links], dtype=np.float64),
        np.array([d * 1e9 for d in down], dtype=np.float64),
        np.array([link.delay_ns for link in g.links], dtype=np.int64),
        np.array([plane[link.high] for link in g.links], dtype=np.uint8),
    )
