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
        "a NIC that is paused holds all QPs of a flow, so a flow runs at 8 times its slowest QP; with uniform"
        " hashing that gives 0.70 +- 0.06 on this fabric (counted over 3,000 draws), the paper's one run lies"
        " at its upper end"
    ),
    "R9": (
        "RoCE with 16 QPs: a step ends with its slowest QP, and uniform hashing puts up to 1.3 times the "
        "mean on one of 64 uplinks; DCQCN's cuts of the common start add to it. The ratio to MRC and the 16"
        " MB size follow from these collisions. MRC, where it falls short: the 8 x 8 x 8 fabric is exactly "
        "full, and windows of 1.5 BDP keep its 100 Gb/s queues between the marking and the trimming "
        "threshold"
    ),
    "R10": (
        "eight rings side by side hide the stalls of MRC: while one waits for its timer, the others use its"
        " share; a single ring keeps about half as much at 1 % and 1 GB. RoCE: a lost packet costs one "
        "timer with 1 QP and with 16, but with 16 fewer packets are sent again and no collision slows the "
        "rest, so 16 QPs are better in Gb/s, though they keep a smaller share of their rate without loss, "
        "as in the paper"
    ),
    "R11": ("short runs: one all-to-all of at most 1 GB, started by all at once"),
    "R12": (
        "an EV's SKIP ends when it was passed over once (reference 5.4), so of two EVs a marked one still "
        "gets every third packet and load moves by 2/3 at most; ending it by time alone moves 85 %, but costs"
        " a fully loaded fabric a fifth of its rate"
    ),
    "R13": (
        "at 100 Gb/s marking begins at 8 packets, less than the queues of a random walk over four full "
        "links. With three of four links dead most SACKs are lost, too, until the receiver has tried its "
        "reverse EVs: tens of milliseconds without goodput (the paper's plot has one empty sample there). EVs of "
        "restored links come back after the back-off of their probes"
    ),
    "R14": (
        "a new flow starts at line rate and its first cut is deep; DCQCN recovers more slowly than flows arrive "
        "here (one a millisecond, in the paper one in five seconds), so that all three sets lose more"
    ),
    "R15": (
        "each QP finds its dead paths by losing a packet on each; what is left are SACKs, probes and their "
        "back-off"
    ),
    "R18": (
        "the bounces last as long as a few steps here, so one step that waits for a loss timer weighs more "
        "than in the paper's 30 s samples"
    ),
    "R21": (
        "planes get equal packets, but what is trimmed on the short plane is repaired over the others, and "
        "NSCC, one window for all planes, hears of it in one SACK of eight: it does not come down to what the"
        " short plane carries. A flow on that plane alone is starved in the same way"
    ),
    "R23": (
        "a few packets that only waited in a full last-hop queue, or whose NACK came late, are inferred "
        "lost, and their EVs leave until the mistake is seen; no trim as such does that"
    ),
}
