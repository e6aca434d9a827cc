"""What can be bad in a fabric, and which probes would feel it.

An element is a link, a switch, a host (all its ports) or a plane: a set of lines, each one direction of a link. Plain
Python over a plan's links.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from softmrc.lab.mapper.routes import Line, Route
from softmrc.lab.names import Link

__all__ = ["KINDS", "Candidate", "Element", "candidates", "elements"]

KINDS = ("link", "switch", "host", "plane")
"""From the narrowest on: of elements that no probe can tell apart, the first is named."""


@dataclass(frozen=True)
class Element:
    """One of them.

    Attributes:
        name: as targets of `softmrc lab fail`: `h3.p2`, `p2.t0-5.t1-7`, `p2.t1-7`, `h3`, `p2`.
        kind: one of `KINDS`.
        lines: its lines.
    """

    name: str
    kind: str
    lines: frozenset[Line]


@dataclass(frozen=True)
class Candidate:
    """An element as a cause of lost probes.

    Attributes:
        element: the narrowest of those that no probe can tell apart.
        also: names of the others.
        felt: how often each route passes it: number of the route, times up, times down.
    """

    element: Element
    also: tuple[str, ...]
    felt: tuple[tuple[int, int, int], ...]


def elements(links: Sequence[Link]) -> list[Element]:
    """Return all elements of a fabric, the narrowest first."""
    found = [Element(link.name, "link", _lines([link])) for link in links]
    at: dict[str, list[Link]] = {}
    for link in links:
        at.setdefault(link.b_node, []).append(link)
        at.setdefault(link.a_node, []).append(link)
    hosts = {link.a_node for link in links if link.kind == "host"}
    found += [Element(name, "switch", _lines(its)) for name, its in at.items() if name not in hosts]
    found += [Element(name, "host", _lines(its)) for name, its in at.items() if name in hosts]
    planes = sorted({link.plane for link in links})
    found += [
        Element(f"p{plane}", "plane", _lines([k for k in links if k.plane == plane])) for plane in planes
    ]
    return found


def candidates(links: Sequence[Link], routes: Sequence[Route]) -> list[Candidate]:
    """Return the possible causes of what happens to probes on some routes.

    Elements that no route feels are left out.
    """
    by_felt: dict[tuple[tuple[int, int, int], ...], list[Element]] = {}
    of_line: dict[Line, list[Element]] = {}
    for element in elements(links):
        for line in element.lines:
            of_line.setdefault(line, []).append(element)
    felt: dict[Element, dict[int, list[int]]] = {}
    for route in routes:
        for line in route.lines:
            for element in of_line[line]:
                felt.setdefault(element, {}).setdefault(route.number, [0, 0])[line[1] == "down"] += 1
    for element in elements(links):
        if its := felt.get(element):
            key = tuple((number, up, down) for number, (up, down) in its.items())
            by_felt.setdefault(key, []).append(element)
    return [Candidate(same[0], tuple(e.name for e in same[1:]), key) for key, same in by_felt.items()]


def _lines(links: Iterable[Link]) -> frozenset[Line]:
    return frozenset((link.name, direction) for link in links for direction in ("up", "down"))
