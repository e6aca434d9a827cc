"""Where a criterion is missed: the mechanism we suspect, found by looking at counters, queues and EV events."""

from __future__ import annotations

__all__ = ["WHY"]

WHY: dict[str, str] = {
    "R2": (
        "ECN is off at the last hop, so NSCC grows until trims stop it: windows wander, and fairness builds "
        "up over many round trips only"
    ),
    "R4": (
        "DCQCN recovers from the cuts of the common start for longer than the run lasts; in its steady state "
        "the senders cause no pauses and the victim loses nothing"
    ),
    "R5": (
        "a NIC that is paused holds all QPs of a flow, so a flow runs at 8 times its slowest QP. The paper's own "
        "bars say the same: 262, 314, 353 and 392 Gb/s are 8/12, 8/10, 8/9 and 8/8 of 392. With even hashing such "
        "flows get 0.71 +- 0.06 on this fabric, one run in three 0.75 or more, one in 25 the paper's 0.82 (theory "
        "beside it): the paper shows one run, a good one. QPs that went on while others of their NIC are held "
        "would get 0.95"
    ),
    "R9": (
        "RoCE with 16 QPs: all QPs get equal bytes (libraries post to them in turn), so the fullest link sets the "
        "pace. What even hashing leaves stands beside it: 0.53 of line with 1 QP, which the paper's 0.55 fits, "
        "and 0.81 with 16, less than the 0.85 asked; more rings would lift both. At 16 MB a step takes 12 us here "
        "and 20 us in the paper, so that collisions show earlier. MRC, where it falls short: the 8 x 8 x 8 fabric "
        "is exactly full, and windows of 1.5 BDP keep its 100 Gb/s queues between the marking and the trimming "
        "threshold"
    ),
    "R10": (
        "eight rings, each with QPs of its own, hide the stalls of MRC: while one waits for its timer, the others "
        "use its share. The published figures at 1 % fit one QP a pair with the API's example of MPR: 1,024 "
        "packets in a timer of 200 us and a round trip are 157 Gb/s, the paper's plateau is 151; that case stands "
        "beside it. One ring for all, however, would leave RoCE 0.28 of line with 1 QP and 0.62 with 16 (R9). "
        "RoCE: a lost packet costs one timer with 1 QP and with 16, but with 16 the timers run side by side and "
        "no collision slows the rest, so 16 QPs are better in Gb/s, though they keep a smaller share of their "
        "rate without loss, as in the paper. With NAKs heeded 16 are the slower ones: the last packet of a QP has "
        "no successor that betrays its loss, and 16 QPs have 16 of them a step; but then 1 QP loses hardly "
        "anything at 0.1 %"
    ),
    "R11": ("short runs: one all-to-all of at most 1 GB, started by all at once"),
    "R13": (
        "at 100 Gb/s marking begins at 8 packets, less than the queues of a random walk over four full "
        "links. With three of four links dead most SACKs are lost, too, until the receiver has tried its "
        "reverse EVs: tens of milliseconds without goodput (the paper's plot has one empty sample there). EVs of "
        "restored links come back after the back-off of their probes"
    ),
    "R14": (
        "DCQCN's gains in the paper are not known; a flow starts at line rate, its first cut is deep, and "
        "what slower increase costs depends on the time between arrivals (10 ms here, 5 s in the paper)"
    ),
    "R15": (
        "each QP finds its dead paths by losing a packet on each; what is left are SACKs, probes and their "
        "back-off"
    ),
    "R18": (
        "the bounces last as long as a few steps here, so one step that waits for a loss timer weighs more "
        "than in the paper's 30 s samples"
    ),
    "R23": (
        "a few packets that only waited in a full last-hop queue, or whose NACK came late, are inferred "
        "lost, and their EVs leave until the mistake is seen; no trim as such does that"
    ),
}
