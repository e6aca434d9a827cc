"""Findings for people and for programs."""

from __future__ import annotations

import time
from typing import Any

from softmrc.lab.mapper.locator import Change, Finding

__all__ = ["change_json", "finding_json", "headline", "row"]

_WAYS = {"up": "up only", "down": "down only", "both": "both ways", None: "each way"}


def _clock(at: float) -> float:
    """Return the time of day, seconds of the epoch, of a monotonic time."""
    return time.time() - time.monotonic() + at


def finding_json(finding: Finding) -> dict[str, Any]:
    """Return a finding's fields; times are seconds of the epoch, loss and confidence 0 to 1."""
    return {
        "element": finding.name,
        "kind": finding.candidate.element.kind,
        "or": list(finding.candidate.also),
        "direction": finding.direction,
        "loss": round(finding.loss, 4),
        "since": round(_clock(finding.since), 3),
        "found_after_ms": round((finding.found - finding.since) * 1e3, 1),
        "confidence": round(finding.confidence, 4),
        "probes_sent": finding.sent,
        "probes_lost": finding.lost,
    }


def change_json(change: Change) -> dict[str, Any]:
    """Return a change, one line of `--watch --json`."""
    return {"event": change.what, "at": round(_clock(change.at), 3), **finding_json(change.finding)}


def row(finding: Finding) -> tuple[str, ...]:
    """Return the columns of a finding: element, kind, loss, direction, since, confidence."""
    since = _clock(finding.since)
    return (
        " or ".join((finding.name, *finding.candidate.also)),
        finding.candidate.element.kind,
        "dead" if finding.loss > 0.99 else f"{finding.loss:.1%}",
        _WAYS[finding.direction],
        f"{time.strftime('%H:%M:%S', time.localtime(since))}.{int(since % 1 * 1e3):03}",
        f"{min(finding.confidence, 0.9999):.2%}",
    )


def headline(change: Change) -> str:
    """Return a change in one line."""
    element, kind, loss, ways, since, sure = row(change.finding)
    at = _clock(change.at)
    now = f"{time.strftime('%H:%M:%S', time.localtime(at))}.{int(at % 1 * 1e3):03}"
    if change.what == "cleared":
        return f"{now}  cleared  {element} ({kind}), was bad since {since}"
    return f"{now}  {change.what}  {element} ({kind}) loses {loss} {ways}, since {since}, confidence {sure}"
