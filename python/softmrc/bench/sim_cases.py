"""What `softmrc bench sim` simulates: permutations of 2 MB flows at 400 Gb/s, links of 1 us, switches without delay.

The fabrics are those that uet-htsim ships and was measured on: full fat trees of two and three tiers. Each case is
written as a connection matrix and a topology file, so that both simulators read the same two files.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["CASES", "FLOW_BYTES", "LINK_MBPS", "Case", "Recorded"]

FLOW_BYTES = 2_000_000
LINK_MBPS = 400_000
_LINK_NS = 1_000
_HEADERS = 138
"""What a full packet of MRC adds on the wire with its longest headers, bytes."""


@dataclass(frozen=True)
class Recorded:
    """uet-htsim on this matrix's like, one core of the reference machine (revision 40ccb05, NSCC, 64 paths)."""

    packets_per_s: float
    p50_us: float
    p99_us: float
    max_us: float


@dataclass(frozen=True, kw_only=True)
class Case:
    """One permutation."""

    name: str
    hosts: int
    radix_down: int
    """Hosts below a T0, and uplinks of a T0 and of a T1 where there is a tier above."""
    tiers: int = 2
    pod: int = 0
    """Hosts of a pod, three tiers."""
    target: float | None = None
    """Data packets a second that it must reach."""
    quick: bool = False
    """Part of --quick."""
    recorded: Recorded | None = None

    @property
    def ideal_us(self) -> float:
        """Completion of a flow that never waits: its packets at line rate, one path there, the way back."""
        hops = 2 * self.tiers
        packet_us = (4_096 + _HEADERS) * 8 / (LINK_MBPS / 1_000) / 1_000
        packets = -(-FLOW_BYTES // 4_096)
        return packets * packet_us + (hops - 1) * packet_us + 2 * hops * _LINK_NS / 1_000

    def write(self, folder: Path, seed: int) -> tuple[Path, Path]:
        """Write matrix and topology and return their paths."""
        from softmrc.sim.htsim import permutation_matrix

        matrix, topology = folder / f"{self.name}.cm", folder / f"{self.name}.topo"
        matrix.write_text(permutation_matrix(self.hosts, FLOW_BYTES, seed=seed))
        topology.write_text(self._topology())
        return matrix, topology

    def _topology(self) -> str:
        lines = [f"Nodes {self.hosts}", f"Tiers {self.tiers}", f"Podsize {self.pod or self.hosts}"]
        down = [self.radix_down] * self.tiers
        # The top tier reaches every T0, or every pod.
        down[-1] = self.hosts // (self.pod or self.radix_down)
        for tier in range(self.tiers):
            lines += [
                "",
                f"Tier {tier}",
                f"Downlink_speed_Gbps {LINK_MBPS // 1000}",
                f"Radix_Down {down[tier]}",
            ]
            if tier < self.tiers - 1:
                lines.append(f"Radix_Up {self.radix_down}")
            lines += [f"Downlink_Latency_ns {_LINK_NS}", "Switch_Latency_ns 0"]
            if tier:
                lines.append("Bundle 1")
        return "\n".join(lines) + "\n"


CASES = (
    Case(name="two_tier_128", hosts=128, radix_down=8, quick=True),
    Case(
        name="two_tier_1024",
        hosts=1_024,
        radix_down=32,
        target=1.0e6,
        quick=True,
        recorded=Recorded(77e3, 53.4, 55.0, 55.8),
    ),
    Case(
        name="three_tier_1024",
        hosts=1_024,
        radix_down=8,
        tiers=3,
        pod=64,
        target=0.8e6,
        recorded=Recorded(39e3, 60.6, 64.4, 66.3),
    ),
    Case(
        name="two_tier_8192",
        hosts=8_192,
        radix_down=64,
        target=0.6e6,
        recorded=Recorded(40e3, 54.1, 55.8, 56.9),
    ),
)
