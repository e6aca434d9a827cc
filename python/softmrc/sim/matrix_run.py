"""An htsim matrix as a run: its fabric, its transport, its flows.

Decides what is simulated when a matrix says nothing of it: a full two-tier fabric with links of 1 us. Reading the files
is `htsim`'s and `htsim_topo`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softmrc.errors import UsageError
from softmrc.sim.result.execute import Limits, Plan

if TYPE_CHECKING:
    from softmrc.sim.config import Clos, Queues, Transport

__all__ = ["MatrixRun", "full_two_tier"]

DEFAULT_MBPS = 400_000
LINK_NS = 1_000
"""One way, as htsim's own topology files have it; their switches forward in no time."""
_MAX_MBPS = 10_000_000


def full_two_tier(hosts: int, *, gbps: float, planes: int = 1) -> Clos:
    """Return the smallest full two-tier fabric of switches of 2^n ports that has so many hosts.

    Args:
        hosts: 2 or more.
        gbps: of a host over all planes.
        planes: equal planes.

    Raises:
        UsageError: a number out of range.
    """
    from softmrc.sim.config import Clos

    if hosts < 2:
        raise UsageError(f"a fabric has at least 2 hosts, not {hosts}")
    half = 1
    while 2 * half * half < hosts:
        half *= 2
    return Clos(
        hosts=hosts,
        planes=planes,
        hosts_per_t0=half,
        t1_per_plane=half,
        host_gbps=gbps / planes,
        host_link_ns=LINK_NS,
        t0_t1_ns=LINK_NS,
        switch_ns=0,
    )


@dataclass(frozen=True, kw_only=True)
class MatrixRun:
    """What to make of a matrix."""

    matrix: str
    """Path of a `.cm` or `.tm` file."""
    topology: str | None = None
    """Path of a `.topo` file; none: `full_two_tier`."""
    link_mbps: int | None = None
    """Rate of a host, Mb/s, instead of the file's."""
    planes: int = 1
    transport: str = "mrc"
    paths: int = 64
    """EVs a flow sprays over, mrc only."""
    qps: int = 1
    seed: int = 1
    until_ns: int | None = None
    sample_ns: int | None = None
    hashed: bool = False
    """Switches hash EVs onto paths, as htsim's do, instead of following the paths that they name; mrc only."""
    ecn_bytes: tuple[int, int] | None = None
    """Marks begin and are certain at so many queued bytes; none: 0.2 and 0.8 of rate x RTT."""
    limits: Limits = field(default_factory=Limits)

    def plan(self) -> Plan:
        """Return the run.

        Raises:
            UsageError: a file is wrong (named with its line), or a number is out of range.
        """
        from softmrc.sim.ablations import changes_of
        from softmrc.sim.config import MAX_PLANES
        from softmrc.sim.htsim import read_matrix
        from softmrc.sim.htsim_workload import matrix_faults, matrix_workload
        from softmrc.sim.workload import GREEDY

        if self.link_mbps is not None and not 1 <= self.link_mbps <= _MAX_MBPS:
            raise UsageError(f"--linkspeed is 1 to {_MAX_MBPS} Mb/s, not {self.link_mbps}")
        if not 1 <= self.planes <= MAX_PLANES:
            raise UsageError(f"planes = {self.planes}: 1 to {MAX_PLANES}")
        if self.hashed and changes_of(self.transport)[0] != "mrc":
            raise UsageError(f"{self.transport}: its packets are hashed anyway; --hashed is for mrc")
        if not 0 <= self.seed < 1 << 63:
            raise UsageError(f"a seed is a whole number from 0 to 2^63 - 1, not {self.seed}")
        read = read_matrix(self.matrix)
        fabric, queue = self._fabric(read.nodes)
        if read.nodes > fabric.hosts:
            raise UsageError(f"{self.matrix} has {read.nodes} nodes, the fabric {fabric.hosts} hosts")
        workload = matrix_workload(read)
        workload.validate(fabric.hosts)
        if self.until_ns is None and bool((workload.size == GREEDY).any()):
            raise UsageError(f"{self.matrix} has flows of size 0, which never end; say when to stop: --end")
        return Plan(
            name=Path(self.matrix).stem,
            topology=fabric,
            workload=workload,
            transport=self._transport(),
            label=self.transport,
            queues=self._queues(queue),
            faults=matrix_faults(read, fabric),
            seed=self.seed,
            until_ns=self.until_ns,
            sample_ns=self.sample_ns,
            limits=self.limits,
            settings={
                "matrix": Path(self.matrix).name,
                "topology": Path(self.topology).name if self.topology else "full two tiers",
                "hosts": fabric.hosts,
                "planes": fabric.planes,
                "plane_gbps": fabric.host_gbps,
                "transport": self.transport,
                "paths": self.paths,
                "qps": self.qps,
                "until_ns": self.until_ns,
                "sample_ns": self.sample_ns,
                **({"hashed": True} if self.hashed else {}),
            },
        )

    def _fabric(self, nodes: int) -> tuple[Clos, int | None]:
        from softmrc.sim.htsim_topo import read_topology

        gbps = (self.link_mbps or DEFAULT_MBPS) / 1000
        if self.topology is None:
            return full_two_tier(nodes, gbps=gbps, planes=self.planes), None
        rate = None if self.link_mbps is None else gbps / self.planes
        read = read_topology(self.topology, planes=self.planes, link_gbps=rate)
        return read.fabric, read.queue_bytes

    def _transport(self) -> Transport:
        from softmrc.sim.ablations import changes_of, transport_of

        kind, _ = changes_of(self.transport)
        settings: dict[str, Any] = {"qps": self.qps}
        if kind == "mrc":
            settings |= {"evs": self.paths, **({"mode": "ecmp"} if self.hashed else {})}
        return transport_of(self.transport, **settings)

    def _queues(self, data_bytes: int | None) -> Queues:
        from softmrc.sim.config import Queues

        low, high = self.ecn_bytes or (None, None)
        return Queues(data_bytes=data_bytes, ecn_min=low, ecn_max=high)
