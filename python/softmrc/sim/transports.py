"""The transports a run can use: MRC by the engine of this project, and the baselines RoCEv2 and TCP.

Sizes are bytes, times integer nanoseconds. `None` means "the default that the fabric implies".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from softmrc.sim.checks import check, check_range

__all__ = ["Mrc", "Rocev2", "Tcp", "Transport"]


@dataclass(frozen=True)
class Mrc:
    """MRC by the engine of this project, the same code that runs on sockets.

    Attributes:
        qps: QPs between two hosts; messages go over them in turn unless their task names one.
        evs, backups: EVs of a QP over all planes; a random subset of the paths, equally many in each plane.
        mtu: payload bytes a packet, a multiple of 64 to 8960.
        mode: "srv6" = uSID lists, "stev" = EV bits read by switches, "ecmp" = hashed by switches.
        cc, cc_config, policy: as in QP attributes; names of the registries.
        trimming: data is trimmable, trims come back as NACKs.
        mpr: PSNs in flight / 128.
        base_rtt_ns: None = from the fabric, for each pair of hosts.
        tail_timer_ns: the loss timer: nothing acknowledged for so long means lost (paper-results B.7).
        hold_time_ns: 0 = the retry budget decides; else the QP fails after so long without progress.
        probe_interval_ns, probe_successes: how ASSUMED_BAD EVs are tried and taken back.
        min_active: fewest EVs left in use by demotions; None = a quarter.
        port_remap_ns: from the failure of a NIC's own port to the moment its host knows.
        denylist: EVs avoid what is dead at the start (a controller has said so).
        ecn_steering: False = marks take no EV out of its turn; congestion control still hears them. An experiment, as
            are the next ones: docs/sim-ablations.md.
        demotion: False = losses take no EV out of use; only a dead NIC port does.
        fixed_ev: one EV a QP, in a plane drawn for its pair of hosts, and nothing in its place; `evs` and `backups`
            do not count.
        replace_any_plane: a bad EV is replaced by a spare of any plane, and load follows the number of EVs: policy
            "bitmap" becomes "bitmap-flat" (paper-results A.3).
        fast_loss: False = being overtaken proves no loss; only probes and the timer find losses.
        fixed_reverse_ev: control packets keep the first EV of a plane, whatever becomes of it.
    """

    qps: int = 1
    evs: int = 128
    backups: int = 32
    mtu: int = 4096
    mode: str = "srv6"
    cc: str = "uet-1.0-nscc"
    cc_config: Mapping[str, Any] = field(default_factory=dict)
    policy: str = "bitmap"
    trimming: bool = True
    sack_bytes: int = 16384
    mpr: int = 8
    max_wimm: int = 32
    base_rtt_ns: int | None = None
    tail_timer_ns: int = 200_000
    linear_cnt: int = 7
    exp_cnt: int = 7
    hold_time_ns: int = 0
    probe_interval_ns: int = 1_000_000
    probe_backoff_cap_ns: int = 1_000_000_000
    probe_successes: int = 3
    min_active: int | None = None
    reorder_min_ns: int = 0
    port_remap_ns: int = 0
    denylist: bool = False
    ecn_steering: bool = True
    demotion: bool = True
    fixed_ev: bool = False
    replace_any_plane: bool = False
    fast_loss: bool = True
    fixed_reverse_ev: bool = False

    name = "mrc"

    def __post_init__(self) -> None:
        for what, low, high in (
            ("qps", 1, 4096),
            ("evs", 1, 4096),
            ("backups", 0, 4096),
            ("mtu", 256, 8960),
            ("mpr", 1, 255),
            ("max_wimm", 1, 1024),
            ("base_rtt_ns", 1, 10**10),
            ("tail_timer_ns", 1000, 10**11),
            ("linear_cnt", 0, 7),
            ("exp_cnt", 0, 25),
            ("hold_time_ns", 0, 10**13),
            ("probe_interval_ns", 1000, 10**11),
            ("probe_backoff_cap_ns", 1000, 10**12),
            ("probe_successes", 1, 255),
            ("min_active", 0, 4096),
            ("reorder_min_ns", 0, 10**10),
            ("port_remap_ns", 0, 10**11),
            ("sack_bytes", 0, 1 << 24),
        ):
            check_range(what, getattr(self, what), low, high)
        check(self.mtu % 64 == 0, f"mtu = {self.mtu}: a multiple of 64")
        check(self.mode in ("srv6", "stev", "ecmp"), f"mode = {self.mode!r}: srv6, stev or ecmp")


@dataclass(frozen=True)
class Rocev2:
    """RoCEv2 RC as a baseline: go-back-N, one ECMP path a QP (docs/sim-baselines.md says what it leaves out).

    Attributes:
        pfc: the fabric pauses (also without `Queues.pfc`).
        dcqcn, dcqcn_config: rate control and its parameters by the names of DcqcnConfig.
        rto_ns: acknowledgement timer; doubles.
        window_bytes: payload in flight of a QP; None = `window_factor` x NIC rate x base RTT.
        window_factor: 0 = no window: RC bounds what is in flight by its 2^23 PSNs alone.
        options: other members of RoceConfig by name.
    """

    qps: int = 1
    mtu: int = 4096
    pfc: bool = True
    dcqcn: bool = True
    dcqcn_config: Mapping[str, Any] = field(default_factory=dict)
    rto_ns: int = 1_000_000
    window_bytes: int | None = None
    window_factor: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)

    name = "rocev2"

    def __post_init__(self) -> None:
        check_range("qps", self.qps, 1, 4096)
        check_range("mtu", self.mtu, 256, 9216)
        check_range("rto_ns", self.rto_ns, 1000, 10**11)
        check_range("window_bytes", self.window_bytes, 256, 1 << 40)
        check_range("window_factor", self.window_factor, 0, 1000)


@dataclass(frozen=True)
class Tcp:
    """One TCP connection a (pair, qp) on one ECMP path: SACK with cubic or DCTCP (docs/sim-baselines.md).

    Attributes:
        rto_min_ns: a data-centre setting; Linux has 200 ms.
        options: other members of TcpConfig by name.
    """

    qps: int = 1
    mss: int = 4096
    cc: str = "cubic"
    rto_min_ns: int = 1_000_000
    options: Mapping[str, Any] = field(default_factory=dict)

    name = "tcp"

    def __post_init__(self) -> None:
        check_range("qps", self.qps, 1, 4096)
        check_range("mss", self.mss, 256, 9216)
        check_range("rto_min_ns", self.rto_min_ns, 1000, 10**11)
        check(self.cc in ("cubic", "dctcp"), f"cc = {self.cc!r}: cubic or dctcp")


Transport = Mrc | Rocev2 | Tcp
