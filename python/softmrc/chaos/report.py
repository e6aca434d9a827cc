"""What a chaos run did and found: the sum of its episodes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from softmrc.chaos.episode import Episode

__all__ = ["ChaosResult", "Failure"]

# Sums over episodes. The rest of an episode's report is kept as a maximum or is only shown on a failure.
_SUMS = (
    "drain_packets", "writes", "immediates", "bytes", "rtx", "duplicates", "spurious", "nacks",
    "ev_demotions", "drops", "delayed", "reordered", "duplicated", "corrupted", "trimmed", "marked",
    "overflowed", "rules", "cuts", "flaps", "mpr_changes", "pressures", "restarts", "virtual_ns",
)  # fmt: skip
_MAXIMA = ("max_qp_bytes", "max_frames")


@dataclass(frozen=True)
class Failure:
    """An episode in which something that must always hold did not.

    Attributes:
        episode: What to run to see it again.
        setup: The drawn parameters, one line.
        violations: What went wrong, each with its virtual time.
        actions: (index, virtual time in ns, text) of what was done to the engines, in order.
    """

    episode: Episode
    setup: str
    violations: tuple[str, ...]
    actions: tuple[tuple[int, int, str], ...]

    @classmethod
    def of(cls, episode: Episode, report: Mapping[str, Any]) -> Failure:
        """Take what matters out of the engine's report."""
        return cls(episode, report["setup"], tuple(report["violations"]), tuple(report["actions"]))

    def text(self) -> str:
        """Several lines for a person."""
        lines = [f"seed {self.episode.seed}, episode {self.episode.number}: {self.setup}"]
        lines += [f"  violation: {v}" for v in self.violations]
        lines += [f"  needs {len(self.actions)} action(s):" if self.actions else "  needs no action"]
        lines += [f"    #{index} at {at / 1e9:.6f} s: {text}" for index, at, text in self.actions]
        return "\n".join([*lines, f"  replay: {self.episode.command}"])

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "episode": self.episode.number,
            "setup": self.setup,
            "violations": list(self.violations),
            "actions": [{"index": i, "at_ns": at, "text": text} for i, at, text in self.actions],
            "replay": self.episode.command,
        }


@dataclass
class ChaosResult:
    """The merged report of a run.

    Attributes:
        seed: Seed of the run.
        packets: Packets handed to the network; as asked unless an episode stopped at a violation.
        episodes: Independent runs it consisted of.
        violations: Number of violations found.
        digest: 16 hex digits over everything the engines did; equal seeds give equal digests.
        counts: Sums and maxima over the episodes.
        rejected: Packets the engines refused, by reason.
        failures: Failing episodes.
    """

    seed: int
    packets: int = 0
    episodes: int = 0
    violations: int = 0
    digest: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    @classmethod
    def merge(cls, seed: int, reports: Sequence[Mapping[str, Any]]) -> ChaosResult:
        """Sum the reports of episodes, given in their order."""
        result = cls(seed=seed, episodes=len(reports))
        result.packets = sum(r["packets"] for r in reports)
        result.violations = sum(len(r["violations"]) for r in reports)
        result.counts = {key: sum(r[key] for r in reports) for key in _SUMS}
        result.counts |= {key: max((r[key] for r in reports), default=0) for key in _MAXIMA}
        for report in reports:
            for reason, count in report["rejected"].items():
                result.rejected[reason] = result.rejected.get(reason, 0) + count
        digest = hashlib.blake2b(digest_size=8)
        for report in reports:
            digest.update(report["digest"].to_bytes(8, "big"))
        result.digest = digest.hexdigest()
        return result

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "seed": self.seed,
            "packets": self.packets,
            "violations": self.violations,
            "digest": self.digest,
            "episodes": self.episodes,
            **self.counts,
            "rejected": dict(sorted(self.rejected.items())),
            "failures": [f.as_dict() for f in self.failures],
        }

    def text(self) -> str:
        """A few lines for a person."""
        c = self.counts
        lines = [
            f"seed {self.seed}: {self.packets:,} packets in {self.episodes} episode(s), "
            f"{c['virtual_ns'] / 1e9:.1f} s of virtual time",
            f"  {c['writes']:,} writes, {c['immediates']:,} immediates, {c['bytes'] / 1e6:,.0f} MB; "
            f"{c['rtx']:,} sent again, {c['duplicates']:,} duplicates received",
            f"  network: {c['drops']:,} dropped, {c['reordered']:,} reordered, "
            f"{c['duplicated']:,} duplicated, {c['corrupted']:,} corrupted, {c['trimmed']:,} trimmed, "
            f"{c['delayed']:,} delayed",
            f"  harm: {c['rules']:,} rules, {c['cuts']:,} cuts, {c['flaps']:,} port flaps, "
            f"{c['mpr_changes']:,} MPR changes, {c['restarts']:,} restarts",
            f"  largest QP {c['max_qp_bytes']:,} B, most frames in flight {c['max_frames']:,}",
            f"  digest {self.digest}",
            f"  violations: {self.violations}",
        ]
        return "\n".join(lines)
