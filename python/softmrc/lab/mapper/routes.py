"""Which ways probes take: source-routed loops from a host back to itself, and one-way paths between neighbours.

Loops find what is bad: host, T0, host; host, T0, T1, T0, host; through a peer's T0 and back. One-way paths tell the
direction. Plain Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from softmrc.lab.names import Link
from softmrc.srv6 import Shape, path, usid

__all__ = ["Line", "Route", "make_routes"]

Line = tuple[str, str]
"""A link's name and a direction, "up" (away from the hosts) or "down"."""


@dataclass(frozen=True)
class Route:
    """One way of probes.

    Attributes:
        number: its place in the list.
        src, dst: hosts; the same for a loop.
        plane: 1-based.
        via: switches in order, named like `t0-1`.
        address: the uSID list.
        lines: in the order they are passed.
        turn: of loops that are always probed, their place in the turn of their port; None: only sent where something
            is to be found out.
    """

    number: int
    src: str
    dst: str
    plane: int
    via: tuple[str, ...]
    address: str
    lines: tuple[Line, ...]
    turn: int | None = None

    @property
    def loop(self) -> bool:
        """Whether it returns to its host."""
        return self.src == self.dst


class _Maker:
    def __init__(self, shape: Shape, links: Sequence[Link]) -> None:
        self._shape = shape
        self._link = {(k.a_node, k.b_node): k.name for k in links}
        self._below: dict[str, list[str]] = {}
        for link in links:
            self._below.setdefault(link.b_node, []).append(link.a_node)
        self._ports = [(k.a_node, k.plane) for k in links if k.kind == "host"]
        self.routes: list[Route] = []
        self._seen: set[tuple[str, str, int, tuple[str, ...]]] = set()

    def run(self) -> None:
        for host, plane in self._ports:
            chains = list(self._chains(host, plane))
            most = max((len(c) for c in chains), default=0)
            turns = [c for c in chains if len(c) == most]
            for chain in chains:
                turn = turns.index(chain) if len(chain) == most else None
                self._add(host, host, plane, (*chain, *reversed(chain[:-1])), turn)
            for chain in chains:
                self._across(host, plane, chain)

    def _chains(self, host: str, plane: int) -> Iterator[tuple[str, ...]]:
        """Yield the ways up from a host: (t0), (t0, t1), (t0, t1, t2)."""
        level: list[tuple[str, ...]] = [(t0,) for t0 in self._shape.above(plane, host)]
        while level:
            yield from level
            level = [(*c, up) for c in level for up in self._shape.above(plane, c[-1]) if len(c) < 3]

    def _across(self, host: str, plane: int, chain: tuple[str, ...]) -> None:
        """Add what turns at the top of a chain towards others: one way to a host, and there and back."""
        top = f"p{plane}.{chain[-1]}"
        if len(chain) == 1:
            self._add(host, _next(self._below[top], host), plane, chain, None)
            return
        other = _next(self._below[top], f"p{plane}.{chain[-2]}")
        down: list[str] = []
        at = other
        while not at.startswith("h"):
            down.append(at.partition(".")[2])
            if not self._below.get(at):
                return
            at = self._below[at][self._place(host, plane, chain[0]) % len(self._below[at])]
        if down[0] == chain[-2]:
            return
        self._add(host, at, plane, (*chain, *down), None)
        if len(chain) == 2:
            self._add(host, host, plane, (*chain, down[0], chain[1], chain[0]), None)

    def _place(self, host: str, plane: int, t0: str) -> int:
        return self._below[f"p{plane}.{t0}"].index(host)

    def _add(self, src: str, dst: str, plane: int, via: tuple[str, ...], turn: int | None) -> None:
        key = (src, dst, plane, via)
        if key in self._seen:
            return
        self._seen.add(key)
        usids = [usid(kind, int(index)) for kind, _, index in (v.partition("-") for v in via)]
        nodes = [src, *(f"p{plane}.{v}" for v in via), dst]
        lines = tuple(self._line(a, b) for a, b in pairwise(nodes))
        address = path(plane, usids, int(dst[1:]))
        self.routes.append(Route(len(self.routes), src, dst, plane, via, address, lines, turn))

    def _line(self, a: str, b: str) -> Line:
        if (a, b) in self._link:
            return self._link[a, b], "up"
        return self._link[b, a], "down"


def _next(ring: list[str], one: str) -> str:
    return ring[(ring.index(one) + 1) % len(ring)]


def make_routes(shape: Shape, links: Sequence[Link]) -> list[Route]:
    """Return all routes that probes may take in a fabric.

    Args:
        shape: its wiring.
        links: of its plan; links between hosts and switches that the shape does not have are not probed.
    """
    maker = _Maker(shape, links)
    maker.run()
    return maker.routes
