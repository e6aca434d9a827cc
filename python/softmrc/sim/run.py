"""Running a workload over a fabric: `simulate` and the `Outcome` it gives.

Decides progress, limits and interruption; the simulation itself is the core's. Equal arguments give equal outcomes,
byte for byte, apart from `wall_s`.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmrc import _core
from softmrc.errors import UsageError
from softmrc.sim.checks import check
from softmrc.sim.config import Fault, Mrc, Queues, Rocev2, Tcp, Topology, Transport
from softmrc.sim.fabric import PACKET_HEADERS, Fabric, build
from softmrc.sim.faults import fault_arrays
from softmrc.sim.workload import Workload

__all__ = ["Outcome", "Progress", "simulate"]

FIRST_BUDGET, SLICE_S = 20_000, 0.2  # frame hops of the first slice, wall seconds of the later ones
MIN_BUDGET, MAX_BUDGET = 1_000, 50_000_000
COLUMNS = (
    "kind",
    "node",
    "peer",
    "qp",
    "group",
    "size",
    "start",
    "delay",
    "dep_ptr",
    "dep_idx",
)  # of a Workload
EXPERIMENTS = ("fixed_ev", "fast_loss", "fixed_reverse_ev")  # of Mrc, outside the EV table


@dataclass(frozen=True)
class Progress:
    """How far a run has come. `packets` are frames sent by hosts."""

    sim_ns: int
    wall_s: float
    tasks_done: int
    tasks_total: int
    packets: int
    until_ns: int | None = None


@dataclass(eq=False)
class Outcome:
    """What happened in a run. Times are ns, -1 = did not happen; see docs/sim.md for every member.

    Attributes:
        stopped: "done", "until" (the time given), "stuck" (open tasks and nothing left to happen), "wall", "memory" or
            "interrupted"; the last three leave a partial outcome.
        tasks: by task: ready_ns, posted_ns, delivered_ns, acked_ns, status (0 open, 1 done, 2 failed).
        flows: by task: delivered_bytes, rtx (packets sent again); empty arrays unless asked for.
        links: by directed link (`link_name`): tx_bytes, tx_packets, drops, marks, trims, lost, max_queue_bytes.
        series: time_ns and counters over the interval that ends there; two-dimensional for what is watched.
        ev_events: by EV state change: at_ns, host, peer, qp, tag, plane, state, reason.
    """

    stopped: str
    seed: int
    sim_ns: int
    wall_s: float
    windows: int
    hops: int
    tasks: dict[str, NDArray[Any]]
    flows: dict[str, NDArray[Any]]
    totals: dict[str, int]
    links: dict[str, NDArray[Any]]
    series: dict[str, NDArray[Any]]
    ev_events: dict[str, NDArray[Any]]
    ev_events_dropped: int
    fabric: Fabric
    watch_links: list[str] = field(default_factory=list)
    watch_flows: list[int] = field(default_factory=list)
    watch_hosts: list[int] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    pcap: list[tuple[Any, ...]] = field(default_factory=list)
    peak_rss_mib: float = 0.0

    @property
    def partial(self) -> bool:
        """A limit or an interrupt ended the run."""
        return self.stopped in ("wall", "memory", "interrupted")

    def link_name(self, port: int) -> str:
        """Name of a directed link, for instance `p1.t0-0.t1-3.up`."""
        return self.fabric.port_name(port)


def rss_mib() -> float:
    """Largest resident set of this process so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def ports_of(fabric: Fabric, names: Iterable[str | int]) -> list[int]:
    """Directed links: `NAME.up`, `NAME.down`, or `NAME` for both; numbers pass."""
    out: list[int] = []
    for name in names:
        if isinstance(name, int):
            out.append(name)
        elif name.endswith((".up", ".down")):
            stem, way = name.rsplit(".", 1)
            out += [2 * link + (way == "down") for link in fabric.links_of(stem)]
        else:
            out += [2 * link + way for link in fabric.links_of(name) for way in (0, 1)]
    return out


def settings_of(transport: Transport) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
    """Name, routing, settings for the core, options of the run."""
    t = transport
    if isinstance(t, Mrc):
        table: dict[str, Any] = {
            "probe_interval_ns": t.probe_interval_ns, "probe_backoff_cap_ns": t.probe_backoff_cap_ns,
            "probe_successes": t.probe_successes, "min_active": t.min_active or 0,
        }  # fmt: skip
        same = ("evs", "backups", "mtu", "cc", "trimming", "sack_bytes", "mpr", "max_wimm", "tail_timer_ns",
                "linear_cnt", "exp_cnt", "hold_time_ns", "reorder_min_ns", "denylist")  # fmt: skip
        # Experiments are named only where they differ from the protocol.
        table |= {n: False for n in ("ecn_steering", "demotion") if not getattr(t, n)}
        table |= {"any_port_spares": True} if t.replace_any_plane else {}
        core = (
            {n: getattr(t, n) for n in same}
            | {n: getattr(t, n) for n in EXPERIMENTS if getattr(t, n) != getattr(Mrc, n)}
            | {
                "cc_config": dict(t.cc_config),
                "table": table,
                "policy": "bitmap-flat" if t.replace_any_plane and t.policy == "bitmap" else t.policy,
                "base_rtt_ns": t.base_rtt_ns or 0,
            }
        )
        return "mrc", t.mode, core, {"qps_per_pair": t.qps, "port_notice_ns": t.port_remap_ns}
    if isinstance(t, Rocev2):
        core = {
            "mtu": t.mtu, "rto_ns": t.rto_ns, "window_bytes": t.window_bytes or 0, "window_factor": t.window_factor,
            "dcqcn": {"enabled": t.dcqcn, **t.dcqcn_config}, **t.options,
        }  # fmt: skip
        return "rocev2", "ecmp", core, {"qps_per_pair": t.qps}
    return (
        "tcp",
        "ecmp",
        {"mss": t.mss, "cc": t.cc, "rto_min_ns": t.rto_min_ns, **t.options},
        {"qps_per_pair": t.qps},
    )


def check_buffers(queues: Queues, transport: Transport, *, pfc: bool) -> None:
    """Raise UsageError for a buffer that holds no full packet: nothing would ever pass it."""
    payload = transport.mss if isinstance(transport, Tcp) else transport.mtu
    name, room = "data_bytes", queues.data_bytes
    if queues.shared_buffer:
        name, room = "shared_buffer", queues.shared_buffer
    elif pfc:  # the data class is bounded at the ingress, above a packet
        return
    need = payload + PACKET_HEADERS
    what = f"no packet fits; with {payload} bytes of payload it is at least {need}"
    check(room is None or room >= need, f"{name} = {room}: {what}")


def _indices(values: Sequence[int]) -> NDArray[np.uint32]:
    return np.array(list(values), dtype=np.uint32)


@dataclass(frozen=True)
class _Watch:
    """What a run notes down beside its tasks: columns of the series, and links whose frames are kept."""

    fabric: Fabric
    links: list[int]
    flows: list[int]
    hosts: list[int]
    sample_ns: int
    task_bytes: bool
    pcap: list[int]

    def arrays(self) -> dict[str, Any]:
        return {
            "sample_ns": self.sample_ns,
            "links": _indices(self.links),
            "flows": _indices(self.flows),
            "hosts": _indices(self.hosts),
            "pcap": _indices(self.pcap),
            "task_bytes": self.task_bytes,
        }

    def widths(self, groups: int) -> dict[str, int]:
        links = len(self.links)
        return {
            "flow_bytes": len(self.flows),
            "host_rx_bytes": len(self.hosts),
            "link_bytes": links,
            "link_queue_bytes": links,
            "link_max_queue": links,
            "group_bytes": groups,
            "plane_bytes": self.fabric.planes,
        }


class _Slices:
    """Runs the core in slices of `SLICE_S` and watches limits."""

    def __init__(
        self,
        run: _core.SimRun,
        begun: float,
        until_ns: int | None,
        wall_s: float | None,
        max_rss_mib: float | None,
    ) -> None:
        self.run, self.begun = run, begun
        self.until_ns, self.wall_s, self.max_rss_mib = until_ns, wall_s, max_rss_mib

    def elapsed(self) -> float:
        return time.monotonic() - self.begun

    def go(self, progress: Callable[[Progress], None] | None) -> str:
        budget, told = FIRST_BUDGET, 0.0
        try:
            while True:
                before = self.elapsed()
                state = self.run.run(budget)
                now = self.elapsed()
                if progress is not None and (now - told >= 1 or state != "running"):
                    told = now
                    progress(self.report(now))
                if state != "running":
                    return state
                if self.wall_s is not None and now >= self.wall_s:
                    return "wall"
                if self.max_rss_mib is not None and rss_mib() > self.max_rss_mib:
                    return "memory"
                budget = max(
                    MIN_BUDGET, min(MAX_BUDGET, int(budget * SLICE_S / max(now - before, SLICE_S / 8)))
                )
        except KeyboardInterrupt:
            return "interrupted"

    def report(self, now: float) -> Progress:
        p = self.run.progress()
        return Progress(p["sim_ns"], now, p["tasks_done"], p["tasks_total"], p["frames_sent"], self.until_ns)


def simulate(
    topology: Topology,
    workload: Workload,
    transport: Transport | None = None,
    *,
    queues: Queues | None = None,
    faults: Iterable[Fault] = (),
    seed: int = 1,
    until_ns: int | None = None,
    sample_ns: int | None = None,
    watch_links: Iterable[str | int] = (),
    watch_flows: Sequence[int] = (),
    watch_hosts: Sequence[int] = (),
    pcap_links: Iterable[str | int] = (),
    task_bytes: bool = True,
    check: bool = False,
    wall_s: float | None = None,
    max_rss_mib: float | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Outcome:
    """Run `workload` over `topology` by `transport` (default: `Mrc()`).

    Args:
        topology: the fabric.
        workload: what hosts send and compute.
        transport: how.
        queues: egress queues of switches; default `Queues()`.
        faults: what breaks and heals.
        seed: EVs, hashes, marks, losses: everything random.
        until_ns: stop at this virtual time; needed when the workload has greedy flows.
        sample_ns: interval of the series; None = no series.
        watch_links: links in the series; names or numbers.
        watch_flows: tasks in the series.
        watch_hosts: hosts in the series.
        pcap_links: links whose frames are kept (the first million).
        task_bytes: count delivered bytes and retransmissions of every task.
        check: count violations of conservation, FIFO order and link rates in totals["violations"].
        wall_s: give up after so many seconds; the outcome is partial.
        max_rss_mib: give up when the process has grown to this.
        progress: called about once a second.

    Raises:
        UsageError: something that cannot be simulated; the text says what.
    """
    fabric = build(topology)
    watch = _Watch(
        fabric, ports_of(fabric, watch_links), list(watch_flows), list(watch_hosts), sample_ns or 0, task_bytes,
        ports_of(fabric, pcap_links),
    )  # fmt: skip
    options = {"seed": seed, "until_ns": -1 if until_ns is None else until_ns, "check": check}
    begun = time.monotonic()
    run = _started(
        fabric, workload, transport or Mrc(), queues or Queues(), fault_arrays(faults, fabric), watch, options
    )
    slices = _Slices(run, begun, until_ns, wall_s, max_rss_mib)
    stopped = slices.go(progress)
    run.finish()
    return _outcome(run, watch, stopped, seed, slices.elapsed(), list(workload.groups), workload.size)


def _started(
    fabric: Fabric,
    workload: Workload,
    transport: Transport,
    queues: Queues,
    faults: dict[str, Any],
    watch: _Watch,
    options: dict[str, Any],
) -> _core.SimRun:
    """The core's run before its first step; UsageError: what the core refuses."""
    name, routing, settings, more = settings_of(transport)
    if queues.ecn_last_hop is None:
        queues = replace(queues, ecn_last_hop=not isinstance(transport, Mrc))
    pfc = queues.pfc or (isinstance(transport, Rocev2) and transport.pfc)
    check_buffers(queues, transport, pfc=pfc)
    options = options | more | {"groups": max(len(workload.groups), 1), "shared_alpha": queues.shared_alpha}
    columns = {n: getattr(workload, n) for n in COLUMNS}
    try:
        return _core.SimRun(
            fabric.arrays(queues, pfc=pfc),
            routing,
            columns,
            name,
            settings,
            faults,
            watch.arrays(),
            options,
        )
    except ValueError as e:
        raise UsageError(f"this run cannot be simulated: {e}") from e


def _outcome(
    run: _core.SimRun,
    watch: _Watch,
    stopped: str,
    seed: int,
    wall_s: float,
    groups: list[str],
    size: NDArray[np.int64],
) -> Outcome:
    tasks, progress, events = run.tasks(), run.progress(), run.ev_events()
    return Outcome(
        stopped=stopped,
        seed=seed,
        sim_ns=progress["sim_ns"],
        wall_s=wall_s,
        windows=progress["windows"],
        hops=progress["hops"],
        flows={"delivered_bytes": _without_copies(tasks.pop("bytes"), size), "rtx": tasks.pop("rtx")},
        tasks=tasks,
        totals=run.totals(),
        links=run.links(),
        series=shaped(run.series(), watch.widths(max(len(groups), 1))),
        ev_events_dropped=events.pop("dropped"),
        ev_events=events,
        fabric=watch.fabric,
        watch_links=[watch.fabric.port_name(i) for i in watch.links],
        watch_flows=watch.flows,
        watch_hosts=watch.hosts,
        groups=groups,
        pcap=run.pcap(),
        peak_rss_mib=rss_mib(),
    )


def _without_copies(arrived: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes delivered of each task: MRC counts all that arrive, also what was sent again for nothing."""
    return np.minimum(arrived, size) if arrived.size else arrived


def shaped(flat: Mapping[str, NDArray[Any]], columns: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    """Rows and columns of what the core gives row after row."""
    rows = len(flat["time_ns"])
    return {n: (v.reshape(rows, columns[n]) if n in columns else v) for n, v in flat.items()}
