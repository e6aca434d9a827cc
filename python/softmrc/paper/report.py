"""What `softmrc paper` prints: one entry a target, the same for people, programs and the stored report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from softmrc.paper.check import Verdict
from softmrc.paper.targets import Target
from softmrc.paper.why import WHY

__all__ = ["Entry", "Report"]


@dataclass
class Entry:
    """One target and what came of it.

    Attributes:
        target: What was to be reproduced.
        verdict: What the study found; None when it was not run.
        why_not: Why it was not run, or what went wrong.
        failed: A simulation of it raised an error.
        seconds: Computing time of its simulations, over all processes.
    """

    target: Target
    verdict: Verdict | None
    why_not: str = ""
    failed: bool = False
    seconds: float = 0.0

    @property
    def met(self) -> bool | None:
        """Whether the criterion holds; None where nothing was run, False where a simulation failed."""
        if self.verdict is None:
            return False if self.failed else None
        return self.verdict.met

    @property
    def note(self) -> str:
        """The study's remark, with what is missed, by how much and probably why."""
        if self.verdict is None:
            return self.why_not
        missed = [
            f"missed: {check.name} is {check.ours:.4g}, not {check.range}" for check in self.verdict.missed()
        ]
        why = f"suspected: {WHY[self.target.id]}" if missed and self.target.id in WHY else ""
        return "; ".join(part for part in (*missed, self.verdict.note, why) if part)

    def as_dict(self) -> dict[str, Any]:
        """JSON form, without the curves."""
        return {
            "id": self.target.id,
            "title": self.target.title,
            "source": self.target.source,
            "paper": self.target.paper,
            "ours": self.verdict.ours if self.verdict else None,
            "criterion": self.target.criterion,
            "met": self.met,
            "must": self.target.must,
            "note": self.note,
            "checks": [check.as_dict() for check in self.verdict.checks] if self.verdict else [],
        }


@dataclass
class Report:
    """A whole run.

    Attributes:
        effort: "quick" or "full".
        seeds: Seeds of scenarios with hashing.
        entries: In the order of the targets.
        seconds: Wall time.
        partial: True when it was interrupted.
    """

    effort: str
    seeds: int
    entries: list[Entry] = field(default_factory=list)
    seconds: float = 0.0
    partial: bool = False

    @property
    def ok(self) -> bool:
        """Whether every target that is expected to hold holds."""
        return all(entry.met is True for entry in self.entries if entry.target.must)

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "effort": self.effort,
            "seeds": self.seeds,
            "partial": self.partial,
            "ok": self.ok,
            "seconds": round(self.seconds, 1),
            "results": [entry.as_dict() for entry in self.entries],
        }

    def curves(self) -> dict[str, Any]:
        """Return the series of every study, by target."""
        return {entry.target.id: entry.verdict.series for entry in self.entries if entry.verdict}

    def text(self) -> str:
        """Return the table for people."""
        lines = []
        for entry in self.entries:
            lines += [*entry_lines(entry), ""]
        counts = [sum(1 for entry in self.entries if entry.met is value) for value in (True, False, None)]
        tail = "; interrupted" if self.partial else ""
        lines.append(f"{counts[0]} met, {counts[1]} not met, {counts[2]} not run, {self.seconds:.0f} s{tail}")
        return "\n".join(lines)

    def markdown(self) -> str:
        """Return the report as a page: a table of targets, then every number behind it."""
        rows = ["| id | what | paper | ours | criterion | met |", "|---|---|---|---|---|---|"]
        for entry in self.entries:
            title = f"{entry.target.title} ({entry.target.source})"
            ours = entry.verdict.ours if entry.verdict else "not run"
            cells = (
                entry.target.id,
                title,
                entry.target.paper,
                ours,
                entry.target.criterion,
                _word(entry.met),
            )
            rows.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
        parts = [f"# Beside the paper ({self.effort}, {self.seeds} seeds)", "\n".join(rows)]
        for entry in self.entries:
            parts.append(f"## {entry.target.id} {entry.target.title}")
            if entry.note:
                parts.append(entry.note)
            if entry.verdict:
                parts.append(_checks(entry))
        return "\n\n".join(parts) + "\n"


def entry_lines(entry: Entry) -> list[str]:
    """Return the lines of one target for people."""
    head = f"{_word(entry.met):8} {entry.target.id:4} {entry.target.title} ({entry.target.source})"
    lines = [head, f"         paper      {entry.target.paper}"]
    if entry.verdict:
        lines.append(f"         ours       {entry.verdict.ours}")
    lines.append(f"         criterion  {entry.target.criterion}")
    if entry.note:
        lines.append(f"         note       {entry.note}")
    return lines


def _checks(entry: Entry) -> str:
    assert entry.verdict is not None
    rows: Sequence[str] = [
        f"| {c.name} | {c.paper} | {c.ours:.4g} | {c.range} | {_word(c.met) if c.decides else ''} |"
        for c in entry.verdict.checks
    ]
    return "\n".join(["| number | paper | ours | criterion | met |", "|---|---|---|---|---|", *rows])


def _word(met: bool | None) -> str:
    return {True: "met", False: "NOT MET", None: "not run"}[met]
