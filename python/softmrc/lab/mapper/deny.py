"""What may be denied of what was found: never the last plane of a host, nor the last that two hosts share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from softmrc.lab.mapper.locator import Finding
from softmrc.lab.mapper.routes import Line, Route
from softmrc.srv6 import Denylist

__all__ = ["deny"]


def deny(findings: Iterable[Finding], routes: Sequence[Route]) -> Denylist:
    """Return the denylist that follows from findings, the worst first.

    Both directions of a link are denied when one is bad: what is sent the other way is acknowledged over it.

    Args:
        findings: what is bad.
        routes: of the fabric, all loops among them.
    """
    denied: dict[str, float] = {}
    lines: set[Line] = set()
    for finding in sorted(findings, key=lambda f: (-f.loss, f.name)):
        more = lines | finding.candidate.element.lines
        if _connected(routes, more):
            lines = more
            denied[finding.name] = round(finding.loss, 6)
    return Denylist(denied)


def _connected(routes: Sequence[Route], denied: set[Line]) -> bool:
    """Whether any two hosts still have a plane in common that both can use."""
    usable: dict[str, set[int]] = {}
    for route in routes:
        if route.turn is not None:
            planes = usable.setdefault(route.src, set())
            if denied.isdisjoint(route.lines):
                planes.add(route.plane)
    kinds = {frozenset(planes) for planes in usable.values()}
    return all(a & b for a in kinds for b in kinds)
