"""The fabrics and transports of the scenarios, all out of the one parameter set, and the call that runs them.

Decides nothing about workloads or criteria. Latencies are the paper's: 5.09 us one way below a T0, 1.45 us more
across a T1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from softmrc.paper.params import PARAMS
from softmrc.sim.config import Clos, Fault, Mrc, Queues, Rocev2, Transport
from softmrc.sim.run import Outcome, simulate

if TYPE_CHECKING:
    from softmrc.sim.workload import Workload

__all__ = ["clos", "cluster_c", "cluster_d", "mrc", "roce", "run", "transport"]

LINE_C_GBPS = 400.0
"""Rate of a host on Clusters C and D, all planes."""


def clos(
    hosts: int,
    planes: int,
    hosts_per_t0: int,
    t1: int,
    gbps: float = 100.0,
    uplink_gbps: float | None = None,
) -> Clos:
    """Return a two-tier fabric with the paper's latencies.

    Args:
        hosts: NICs.
        planes: Planes.
        hosts_per_t0: NICs below a T0.
        t1: T1 switches of a plane, each with one link to every T0; 0 for a single T0.
        gbps: Rate of a NIC port.
        uplink_gbps: Rate of a T0-T1 link; None is the port's.
    """
    return Clos(
        hosts=hosts,
        planes=planes,
        hosts_per_t0=hosts_per_t0,
        t1_per_plane=t1,
        host_gbps=gbps,
        t0_t1_gbps=uplink_gbps,
        host_link_ns=PARAMS.host_cable_ns,
        t0_t1_ns=PARAMS.hop_cable_ns,
        switch_ns=PARAMS.switch_ns,
        nic_ns=PARAMS.nic_ns,
    )


def cluster_d() -> Clos:
    """Return the incast and permutation fabric: 4 racks of 4 hosts, 4 spines, one plane, 400 Gb/s links."""
    return clos(16, 1, 4, 4, gbps=LINE_C_GBPS)


def cluster_c(planes: int) -> Clos:
    """Return 64 hosts of 400 Gb/s below 8 T0s with 8 T1s a plane; 4 planes for MRC, 1 for RoCE."""
    return clos(64, planes, 8, 8, gbps=LINE_C_GBPS / planes)


def mrc(**changes: Any) -> Mrc:
    """Return MRC with the common parameters and what the scenario's experiment changes."""
    settings: dict[str, Any] = {
        "evs": PARAMS.evs,
        "backups": PARAMS.backups,
        "mpr": PARAMS.mpr,
        "mtu": PARAMS.mtu,
        "tail_timer_ns": PARAMS.loss_timer_ns,
        "probe_interval_ns": PARAMS.probe_interval_ns,
        "probe_successes": PARAMS.probe_successes,
    }
    return Mrc(**(settings | changes))


def dcqcn_config(gbps: float = LINE_C_GBPS) -> dict[str, float]:
    """Return DCQCN's published parameters at a line rate, by the names the baseline has for them."""
    scale = gbps / PARAMS.dcqcn_published_gbps
    return {
        "ai_mbps": PARAMS.dcqcn_ai_mbps * scale,
        "hai_mbps": PARAMS.dcqcn_hai_mbps * scale,
        "byte_counter": round(PARAMS.dcqcn_byte_counter * scale),
    }


def roce(qps: int, dcqcn: bool, pfc: bool = True, gains: Mapping[str, float] | None = None) -> Rocev2:
    """Return RoCEv2 with go-back-N and the common parameters; `gains` replace some of DCQCN's."""
    config = dcqcn_config() | dict(gains or {}) if dcqcn else {}
    return Rocev2(
        qps=qps, mtu=PARAMS.mtu, pfc=pfc, dcqcn=dcqcn, dcqcn_config=config, rto_ns=PARAMS.roce_rto_ns
    )


def queues_of(kind: Transport) -> Queues:
    """Return the switch queues of a transport: UEC's for MRC, DCQCN's published marking for RoCE.

    ECN is off at the last hop for MRC, as in the paper; DCQCN needs it there, as it has no other sign of incast.
    """
    if isinstance(kind, Mrc):
        return Queues()
    scale = LINE_C_GBPS / PARAMS.dcqcn_published_gbps
    return Queues(
        ecn_min=round(PARAMS.dcqcn_kmin * scale),
        ecn_max=round(PARAMS.dcqcn_kmax * scale),
        ecn_pmax=PARAMS.dcqcn_pmax,
        ecn_last_hop=True,
    )


def transport(name: str) -> Mrc | Rocev2:
    """Return a transport by its short name: mrc1, mrc8, dcqcn16 (PFC and DCQCN), pfc8 (PFC only).

    Raises:
        KeyError: No such name.
    """
    kind, qps = name.rstrip("0123456789"), int(name.lstrip("abcdefghijklmnopqrstuvwxyz") or 1)
    if kind == "mrc":
        return mrc(qps=qps)
    return roce(qps, {"dcqcn": True, "pfc": False}[kind])


def run(
    topology: Any,
    workload: Workload,
    kind: Transport,
    *,
    seed: int,
    faults: Sequence[Fault] = (),
    until_ns: int | None = None,
    sample_ns: int | None = None,
    **watch: Any,
) -> Outcome:
    """Run one simulation with the queues of its transport and return what it measured.

    Raises:
        KeyboardInterrupt: It was interrupted; half a measurement is none.
        RuntimeError: It stopped for a limit of the machine.
    """
    found = simulate(
        topology,
        workload,
        kind,
        queues=queues_of(kind),
        faults=tuple(faults),
        seed=seed,
        until_ns=until_ns,
        sample_ns=sample_ns,
        **watch,
    )
    if found.stopped == "interrupted":
        raise KeyboardInterrupt
    if found.partial:
        raise RuntimeError(f"the simulation stopped early: {found.stopped} at {found.sim_ns} ns")
    return found
