"""The one set of parameters behind every scenario of `softmrc paper`; nothing is tuned for one of them.

Sources: the paper where it gives a value, else the recommendations of UEC 1.0.3 and the example values of the
OCP MRC API, else our own defaults (marked "ours"). What a scenario changes is what the paper's experiment changes:
its topology, link rates, EV count and transport.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FULL", "PARAMS", "QUICK", "Effort", "Params"]


@dataclass(frozen=True)
class Params:
    """Fabric and transport parameters; times in ns, sizes in bytes.

    Attributes:
        mtu: Payload of a packet (OCP API default).
        hop_cable_ns: Cable between two switches, one way. With `switch_ns` it makes the 725 ns a further hop costs
            in the paper's latencies (6.54 us - 5.09 us over two hops).
        host_cable_ns: Cable between NIC and T0, one way (ours: the same).
        switch_ns: Forwarding latency of a switch (ours).
        nic_ns: Host and NIC at either end: what is left of the paper's 5.09 us (a host link counts cable, switch, NIC).
        rtt_ns: Round trip across a T1 without load, the paper's 13.1 us.
        evs: Active EVs of a QP (paper: 128-256).
        evs_collective: Active EVs on Cluster C (paper: 256).
        backups: Backup EVs of a QP (ours).
        mpr: Packets in flight of a QP / 128 (ours). The API's example is 8; at 800 Gb/s those 1,024 packets are 43 us,
            less than it takes to notice a loss by what overtook it and to repair it (48 us), so that each loss stalls
            the QP for some microseconds.
        mpr_published: The API's example of MPR; shown with one QP a pair where results with loss depend on it.
        loss_timer_ns: Loss timer of MRC. The paper's curves with loss imply that each lost packet cost 175-230 us.
        repairs: The two settings results with loss are shown at. "timer": only the loss timers repair, which is what
            the curves imply of the measured NICs, both MRC and RoCE. "fast": MRC also infers losses from what overtook
            them and RoCE heeds NAKs, as both are specified. The first is compared with the paper.
        roce_rto_ns: Retransmission timeout of RoCE (the curves imply 1.0-2.2 ms).
        dcqcn_published_gbps: Line rate of DCQCN's published parameters (Zhu et al. 2015). What follows is theirs
            at that rate; all of it grows with the line rate, the times do not.
        dcqcn_ai_mbps: Additive increase.
        dcqcn_hai_mbps: Hyper increase.
        dcqcn_byte_counter: Bytes between increases.
        dcqcn_kmin: Queue at which switches begin to mark.
        dcqcn_kmax: Queue at which they mark with probability `dcqcn_pmax`, and above which they mark everything.
        dcqcn_pmax: See there.
        probe_interval_ns: Time between probes of a bad EV (ours).
        probe_successes: Successful probes in a row that revive it (ours).
        roce_qps_small: QPs a pair in the incast and permutation runs (paper: 8).
        roce_qps_large: QPs a pair in the collectives (paper: 16).
        host_step_ns: What a host adds to each step of a ring: with it a step of 31 KB takes the 10.4 us of the paper's
            2 MB all-reduce.
        channels: Rings side by side in a collective, each with its QPs (ours; libraries use 8-32).
        channel_bytes: Least a channel sends in a step; smaller sizes use fewer channels, as libraries do.
        window_packets: Packets in a window of the incast's victim.
    """

    mtu: int = 4096
    hop_cable_ns: int = 425
    host_cable_ns: int = 425
    switch_ns: int = 300
    nic_ns: int = 1820
    rtt_ns: int = 13_080
    evs: int = 128
    evs_collective: int = 256
    backups: int = 32
    mpr: int = 16
    mpr_published: int = 8
    loss_timer_ns: int = 200_000
    repairs: tuple[str, str] = ("timer", "fast")
    roce_rto_ns: int = 1_000_000
    dcqcn_published_gbps: float = 40.0
    dcqcn_ai_mbps: float = 40.0
    dcqcn_hai_mbps: float = 400.0
    dcqcn_byte_counter: int = 10_000_000
    dcqcn_kmin: int = 5_000
    dcqcn_kmax: int = 200_000
    dcqcn_pmax: float = 0.01
    probe_interval_ns: int = 1_000_000
    probe_successes: int = 3
    roce_qps_small: int = 8
    roce_qps_large: int = 16
    host_step_ns: int = 2_200
    channels: int = 8
    channel_bytes: int = 131_072
    window_packets: int = 5000


PARAMS = Params()


@dataclass(frozen=True)
class Effort:
    """How much is simulated: seeds and sizes. It changes noise and cost, no parameter of fabric or transport.

    Attributes:
        name: "quick" or "full".
        seeds: Seeds of cheap scenarios with hashing or random EVs.
        seeds_dear: Seeds of dear ones: collectives, and DCQCN that needs long runs.
        incast_ns: Measured time of the incast, RoCE.
        incast_mrc_ns: The same, MRC, whose fairness builds up over round trips.
        permutation_ns: Measured time of the permutation.
        bin_rtts: Round trips in a bin of the link failures.
        ring: All-reduce sizes without loss in MB, each with the steps simulated of the 126, which are alike; the first
            half of them warms up.
        ring_loss: The same with loss.
        ring_largest: The size at which MRC's kept fraction is judged "at 4 GB", and its steps.
        alltoall_mb: All-to-all sizes; the first is the paper's 16 MB, the last its "largest".
        job_steps: Steps of the synchronous job in an interval.
        ramp_ns: Length of the start of a job.
    """

    name: str
    seeds: int
    seeds_dear: int
    incast_ns: int
    incast_mrc_ns: int
    permutation_ns: int
    bin_rtts: int
    ring: tuple[tuple[int, int], ...]
    ring_loss: tuple[tuple[int, int], ...]
    ring_largest: tuple[int, int]
    alltoall_mb: tuple[int, ...]
    job_steps: int
    ramp_ns: int


QUICK = Effort(
    name="quick",
    seeds=10,
    seeds_dear=2,
    incast_ns=20_000_000,
    incast_mrc_ns=65_000_000,
    permutation_ns=2_000_000,
    bin_rtts=200,
    ring=((2, 126), (16, 126), (256, 120)),
    ring_loss=((64, 32), (256, 16), (1024, 8)),
    ring_largest=(4096, 4),
    alltoall_mb=(16, 64),
    job_steps=20,
    ramp_ns=4_000_000,
)

FULL = Effort(
    name="full",
    seeds=20,
    seeds_dear=5,
    incast_ns=65_000_000,
    incast_mrc_ns=65_000_000,
    permutation_ns=10_000_000,
    bin_rtts=1000,
    ring=(
        (2, 126),
        (4, 126),
        (8, 126),
        (16, 126),
        (32, 126),
        (64, 126),
        (128, 126),
        (256, 126),
        (512, 126),
        (1024, 126),
    ),
    ring_loss=((2, 126), (8, 126), (64, 126), (256, 126), (1024, 126)),
    ring_largest=(4096, 32),
    alltoall_mb=(16, 64, 256, 1024),
    job_steps=40,
    ramp_ns=20_000_000,
)
