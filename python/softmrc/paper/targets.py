"""The published results we compare with, as data: what the paper shows and what counts as reproduced.

R numbers, values and criteria are those of our reproduction plan; "paper" is the published value, "criterion" what
our run must satisfy. Figures are those of arXiv 2605.04333.
"""

from __future__ import annotations

from dataclasses import dataclass

from softmrc.errors import UsageError

__all__ = ["TARGETS", "Target", "chosen"]


@dataclass(frozen=True)
class Target:
    """One published result.

    Attributes:
        id: R number.
        title: What it is about.
        source: Figure or section.
        paper: The published value.
        criterion: What our run must satisfy.
        must: True where the criterion is expected to hold; otherwise it is run and reported.
        skip: Why no simulation is made of it; "" where there is one.
    """

    id: str
    title: str
    source: str
    paper: str
    criterion: str
    must: bool
    skip: str = ""


TARGETS: tuple[Target, ...] = (
    Target(
        "R1", "Size and cost of two-tier planes beside three tiers", "Fig 1, sec 2",
        "131,072 NICs; switches 3/5, optics 2/3 per unit of bisection",
        "every number of the formulae, exactly", True,
    ),
    Target(
        "R2", "Incast with a victim, MRC", "Fig 18c, 21a",
        "victim 99.7 % of solo, worst 98.9 %; Jain 1.000; bottleneck 97 % busy",
        "victim >= 98 % mean, >= 96 % in every window of 5,000 packets; Jain >= 0.995; bottleneck >= 95 % busy; "
        "1 and 8 QPs within 2 %", True,
    ),
    Target(
        "R3", "Incast with a victim, RoCE with PFC only", "Fig 21b, 21c",
        "victim 97 (1 QP) and 25 (8 QPs) of 400 Gb/s",
        "1 QP: within 15 % of C/4/n for n incast flows on its spine port; mean over seeds 25-100 of 400 when it "
        "shares a spine; bottleneck full", True,
    ),
    Target(
        "R4", "Incast with a victim, RoCE with PFC and DCQCN", "Fig 18a, 18b",
        "1 QP: victim -18 % mean, -27 % worst; 8 QPs: -8 % mean, worst 16 % of solo",
        "1 QP loses 10-35 % when sharing a spine; 8 QPs lose less on average but their worst window is below 50 %; "
        "pauses in both; MRC beats both", False,
    ),
    Target(
        "R5", "Permutation across four spines", "Fig 20",
        "RoCE PFC 1 QP 62 %, 8 QPs 82 %; MRC 99.5 % on every flow",
        "ECMP 1 QP: rates at 1, 1/2, 1/3, 1/4 of line, mean 50-70 %, all at line in < 2 % of runs; 8 QPs 75-92 %; "
        "MRC 1 and 8 QPs: every flow >= 97 %", True,
    ),
    Target(
        "R6", "One EV loses 20 % of its packets", "Fig 12, 13",
        "throughput 100 % throughout; the EV is replaced at once",
        "every 1 ms >= 99 % of before; the EV leaves within 3 RTT or one loss timer of its first loss; replaced in "
        "its plane; no other EV demoted; not revived before the configured successes", True,
    ),
    Target(
        "R7", "T0-T1 links and a T1 fail under a cross-T1 pair", "Fig 9c, 9d, 11",
        "20 links one by one: 99.1 % worst; 8 at once: 96 % worst; T1: 99.7 % steady, 98.3 % worst",
        "(a) every bin >= 98 %; (b) worst >= 95 %, median unchanged; (c) steady >= 99 %, worst >= 97 %; no QP error",
        True,
    ),
    Target(
        "R8", "NIC-T0 links fail one by one and four at once", "Fig 9a, 9b",
        "0.871 .748 .622 .500 .371 .250 of start for 1..6 down; four at once 49.7 %; restored 100 %",
        "(8-k)/8 within 2 % for k = 1..6; four at once 48-51 %; restored >= 99 %; gap <= notification + 2 RTT; "
        "no QP error", True,
    ),
    Target(
        "R9", "Ring all-reduce of 64, no loss", "Fig 16",
        "MRC 95 %, RoCE 1 QP 55 %, 16 QPs 91 % of line; MRC over them 1.7 and 1.04-1.25",
        "MRC >= 93 %; RoCE 1 QP 30-65 %, 16 QPs 85-95 %; 8 to 16 QPs gain < 20 %; MRC/RoCE1 >= 1.5, MRC/RoCE16 "
        "1.0-1.25; within 10 % of one another at 2-16 MB", True,
    ),
    Target(
        "R10", "Ring all-reduce of 64 with random loss at every NIC", "Fig 16",
        "kept at 0.1 %: MRC .48 at 256 MB, .89 at 4 GB; at 1 %: .28-.40; MRC over RoCE 4.6x and 13x up to 1 GB",
        "MRC at 0.1 %: >= 0.5 at 256 MB, >= 0.85 at 4 GB; at 1 %: 0.2-0.5; MRC over either RoCE >= 2x at 0.1 % and "
        ">= 5x at 1 % up to 1 GB; 16 QPs worse than 1 at 0.1 %", True,
    ),
    Target(
        "R11", "All-to-all of 64 with and without loss", "Fig 17",
        "MRC over RoCE 1.10 (1 QP), 1.22 (16); 16 MB at 0.1 %: MRC keeps .54, RoCE .08; largest: RoCE keeps .99; "
        "1 %: MRC 1.9x RoCE",
        "no loss 1.05-1.2 and 1.1-1.3; 16 MB at 0.1 %: MRC >= .45, RoCE <= .2; largest: RoCE >= .9; 1 %: MRC >= "
        "1.5x RoCE", False,
    ),
    Target(
        "R12", "ECN moves a flow to its other EV", "Fig 14",
        "pair 1 moves to EV-B by ECN alone; both at line",
        "both >= 95 % of line within 100 RTT; loss and trims <= 0.01 %; without ECN steering both sit near 50 %", True,
    ),
    Target(
        "R13", "Two hosts, four spines, links fail", "Fig 19",
        "(a) 99 %; (b) 74.5 / 49.7 / 24.7 %; (c) 49.7 %",
        "(a) >= 98 %; (b) 75 / 50 / 25 % +- 2; (c) 50 % +- 2, settled within 100 ms-equivalent", False,
    ),
    Target(
        "R14", "15-to-1 incast and DCQCN's gains", "Fig 22",
        "default gains: controlled below ~10 flows, then PFC; aggressive gains: -10 %, -20 % throughput",
        "one set goes from a controlled queue to PFC as flows grow; a more aggressive one loses 5-25 %; MRC >= 95 % "
        "with a bounded queue at all counts", False,
    ),
    Target(
        "R15", "Start of a job on a fabric with dead links", "Fig 4",
        "losses fall 63-fold in a minute, 590-fold in seven; < 5 lost per QP",
        "loss rate falls >= 100-fold from its peak and stays; < 5 lost per QP; goodput after >= 99 % of a clean "
        "fabric; a pre-filled denylist removes the peak", False,
    ),
    Target(
        "R16", "A T1 drops everything silently during a job", "Fig 8",
        "~25 % of QPs touched; job -19 % for one sample, 98.6 % after; later drops 7 % of the first minute's",
        "share of QPs as the formula +- 3 points; dip in one interval, then >= 98 %; later drops <= 10 % of the "
        "first; no dip at recovery; EVs return by probes", True,
    ),
    Target(
        "R17", "Background flaps of T0-T1 links", "Fig 5",
        "4.2 flaps a minute, no effect on the job; typically 1 packet lost per affected QP",
        "job rate changes < 0.5 %; median 1 lost per affected QP per flap, p99 <= 4", False,
    ),
    Target(
        "R18", "Three nodes lose a NIC port for a while", "Fig 6, 7",
        "job -24 to -27 % while bouncing, recovered at once; no QP error",
        "instant remap: <= 1/4 loss, full recovery within one interval; the curve over remap delays is shown; no QP "
        "error", False,
    ),
    Target(
        "R19", "Latency T0-local and cross-T1", "sec 5.2.1",
        "5.09 and 6.54 us", "difference is two hops, calibrated to 1.45 us +- 2 %", False,
    ),
    Target(
        "R20", "Send/recv by message size, 42 K GPUs", "Fig 15",
        "675 to 750 Gb/s", "S/(S/bw + t0) fits the seven points within 5 %", False,
    ),
    Target(
        "R21", "Equal planes: cross traffic and missing uplinks on one plane", "sec 4",
        "p(C - x), and (1 - f) of line",
        "MRC total = p(C - x) +- 3 %; = (1 - f) of line +- 3 %; replacing from any plane recovers more", True,
    ),
    Target(
        "R22", "All NIC ports down", "sec 5.1",
        "QPs fail; with one port left they do not",
        "all ports: QP error after the retry budget; one port left: none", False,
    ),
    Target(
        "R23", "Which loss means what", "sec 2.1",
        "failover within a few tens of us",
        "trimmed: never ASSUMED_BAD; last-hop trim: no path penalty; silent loss: ASSUMED_BAD; last packet on a dead "
        "path <= 50 us after it died", True,
    ),
    Target(
        "R24", "The reverse EV of a plane dies", "sec 2.4",
        "replaced by EV probe, once per RTT", "replaced within 2-3 RTT; sender sees no timeout", False,
    ),
    Target(
        "R25", "Clustermapper localises faults", "sec 3", "every link probed every 1 ms",
        "every fault localised within 10-50 ms", False,
        skip="needs the cluster-wide prober (source-routed loop-back probes of every link), which is not part of the "
        "simulator",
    ),
)  # fmt: skip


def chosen(only: str) -> list[Target]:
    """Return the targets named in a list with commas, in their own order; all of them for an empty text.

    Raises:
        UsageError: A name is none of ours.
    """
    names = {name.strip().upper() for name in only.split(",") if name.strip()}
    unknown = sorted(names - {target.id for target in TARGETS})
    if unknown:
        raise UsageError(f"no such target: {', '.join(unknown)}; there are R1 to R{len(TARGETS)}")
    return [target for target in TARGETS if not names or target.id in names]
