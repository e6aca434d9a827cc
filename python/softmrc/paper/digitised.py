"""The paper's own points, read off its figures (arXiv 2605.04333): Gb/s unless said, +-0.5 % of full scale.

Only data; who draws or compares it is elsewhere. Figure 22 is a bitmap and not here.
"""

from __future__ import annotations

__all__ = [
    "FIG4_LOSSES_PER_S", "FIG8_JOB_PBPS", "FIG9A_GBPS", "FIG15_GBPS", "FIG16_ALLREDUCE", "FIG17_ALLTOALL",
    "FIG18_VICTIM", "FIG19B_GBPS", "FIG20_FLOWS", "SIZES_MB",
]  # fmt: skip

SIZES_MB = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)

# Ring all-reduce of 64, (transport, loss in percent) to bus bandwidth at SIZES_MB.
FIG16_ALLREDUCE: dict[tuple[str, float], tuple[float, ...]] = {
    ("mrc", 0): (24, 43, 69, 104, 149, 183, 214, 272, 294, 378, 380, 381, 375, 375),
    ("roce1", 0): (23, 43, 69, 102, 145, 178, 126, 158, 170, 200, 213, 221, 224, 223),
    ("roce16", 0): (23, 42, 65, 96, 142, 179, 209, 269, 273, 302, 352, 366, 364, 362),
    ("mrc", 0.1): (7.7, 12.5, 20, 32, 50, 81, 87, 131, 195, 220, 317, 339, 351, 339),
    ("roce1", 0.1): (1.3, 2.9, 4.7, 7, 9.3, 21, 22, 34, 57, 84, 114, 154, 179, 193),
    ("roce16", 0.1): (1.2, 2.0, 3.1, 5.1, 8.2, 13, 12, 20, 35, 48, 82, 122, 182, 214),
    ("mrc", 1): (3.9, 6.4, 9.5, 17, 27, 45, 46, 75, 93, 106, 148, 146, 151, 151),
    ("roce1", 1): (0.5, 0.7, 1.0, 1.4, 2.2, 3.3, 4, 5, 8, 12, 16, 22, 29, 32),
    ("roce16", 1): (0.4, 0.6, 0.9, 1.2, 1.4, 2.2, 2, 4, 5, 8, 12, 18, 25, 29),
}

# All-to-all of 64, likewise.
FIG17_ALLTOALL: dict[tuple[str, float], tuple[float, ...]] = {
    ("mrc", 0): (150, 224, 281, 335, 362, 387, 400, 378, 368, 363, 361, 362, 361, 361),
    ("roce1", 0): (149, 214, 264, 303, 317, 331, 330, 354, 336, 328, 328, 329, 329, 327),
    ("roce16", 0): (138, 212, 261, 304, 323, 336, 335, 324, 294, 299, 299, 293, 295, 295),
    ("mrc", 0.1): (51, 83, 124, 182, 229, 245, 269, 273, 281, 300, 315, 325, 330, 331),
    ("roce1", 0.1): (5, 12, 18, 25, 40, 66, 102, 150, 176, 240, 279, 312, 322, 323),
    ("roce16", 0.1): (6, 9, 18, 20, 35, 54, 83, 129, 154, 196, 256, 282, 295, 298),
    ("mrc", 1): (34, 57, 90, 140, 176, 176, 174, 179, 191, 213, 222, 227, 235, 235),
    ("roce1", 1): (1, 2, 3, 5, 8, 13, 23, 31, 44, 44, 73, 95, 127, 126),
    ("roce16", 1): (2, 2, 4, 5, 7, 11, 21, 32, 38, 53, 84, 97, 148, 125),
}

# Victim of the 7-to-1 incast: (mean, median, 5th percentile, minimum), of 389-395 unloaded.
FIG18_VICTIM: dict[str, tuple[float, float, float, float]] = {
    "mrc1": (388.9, 389.1, 388.1, 386),
    "mrc8": (388.7, 388.9, 388.1, 384),
    "dcqcn1": (320, 322, 299, 285),
    "dcqcn8": (363, 383, 213, 62),
    "pfc1": (96.7, 96.4, 88, 87),
    "pfc8": (24.6, 24.8, 16, 12),
}

# Permutation of eight flows, each sorted.
FIG20_FLOWS: dict[str, tuple[float, ...]] = {
    "pfc1": (390.5, 390.5, 390.5, 196.2, 196.2, 131, 131, 131),
    "pfc8": (392, 388, 353, 353, 314, 262, 262, 262),
    "mrc1": (390, 390, 390, 390, 390, 390, 390, 390),
}

# NIC-T0 links up to goodput, both directions summed.
FIG9A_GBPS: dict[int, float] = {8: 1531, 7: 1334, 6: 1145, 5: 952, 4: 765, 3: 568, 2: 383}

# One-way goodput between two racks with 4, 3, 2, 1 uplinks of 100 Gb/s.
FIG19B_GBPS: tuple[float, ...] = (384, 286, 191, 95)

# Send/recv on 42 K GPUs: MB to Gb/s.
FIG15_GBPS: dict[int, float] = {32: 675, 64: 694, 128: 701, 256: 732, 512: 746, 1024: 749, 2048: 750}

# Start of a 75 K GPU job: lost packets a second in successive 30 s samples; the third is the peak.
FIG4_LOSSES_PER_S: tuple[float, ...] = (124, 654, 927e3, 624e3, 14.6e3, 7.3e3, 5.6e3, 4.9e3, 3.2e3, 1.56e3)

# Job rate around the silent T1: before, the one bad minute, after.
FIG8_JOB_PBPS: tuple[float, ...] = (12.42, 10.11, 12.25)
