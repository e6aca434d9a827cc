"""Which probe goes next: a steady turn over all ports, and more of those that tell suspects apart.

Decides how many probes there are; time is an argument. A lost probe asks for its neighbours: the shortest ways over
each of its links and switches that avoid the others, at once three times and then for a while at a slower pace. What
has been found is watched, so that its end is seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from softmrc.lab.mapper.routes import Route

__all__ = ["Schedule"]

_BURST_AT = (0.0, 0.002, 0.004)
_PACE, _PACE_PROBES = 0.025, 20
"""Of what is looked at more closely: seconds, or this many probes of the steady turn where those take less."""
_LASTS, _BEHIND = 2.5, 0.005
_AGAIN = 0.1
_SHARE = 1.0
"""Further probes, at most, for each one of the steady turn."""
_SAVED, _SAVED_S, _KEPT = 200, 0.02, 100
"""Probes that may be saved up, or seconds of them, and those of them that are for what has just been lost."""
_A_LINK, _A_SWITCH, _A_HOST = 4, 2, 2
_WATCHED, _WATCH_PACE = 6, 0.025


@dataclass(slots=True)
class _Focus:
    due: float
    burst: int
    until: float
    began: float


class Schedule:
    """The order of probes."""

    def __init__(self, routes: Sequence[Route], rate: float, now: float) -> None:
        """Begin.

        Args:
            routes: all there are.
            rate: probes a second of the steady turn.
            now: seconds.
        """
        self._routes = routes
        self._rate = rate
        self._ports = _ports(routes)
        self._pace = min(_PACE, _PACE_PROBES / rate)
        self._most_saved = max(_SAVED, rate * _SAVED_S)
        self._kept = min(_KEPT, self._most_saved / 2)
        self._next = now
        self._turn = 0
        self._focus: dict[int, _Focus] = {}
        self._watch: dict[str, list[int]] = {}
        self._watch_due = now
        self._saved, self._saved_at = self._most_saved, now
        self._near: dict[int, tuple[int, ...]] = {}
        self._by_link: dict[str, list[Route]] = {}
        self._by_switch: dict[str, list[Route]] = {}
        self._by_host: dict[str, list[Route]] = {}
        for route in sorted(routes, key=lambda r: len(r.lines)):
            for link in dict.fromkeys(line[0] for line in route.lines):
                self._by_link.setdefault(link, []).append(route)
            for switch in dict.fromkeys(route.via):
                self._by_switch.setdefault(f"p{route.plane}.{switch}", []).append(route)
            if route.loop:
                self._by_host.setdefault(route.src, []).append(route)

    @property
    def round_s(self) -> float:
        """Seconds in which each port has its turn once."""
        return len(self._ports) / self._rate

    def take(self, now: float) -> list[int]:
        """Return the routes whose time has come."""
        found = []
        while self._next <= now and self._ports:
            port = self._ports[self._turn % len(self._ports)]
            found.append(port[self._turn // len(self._ports) % len(port)])
            self._turn += 1
            self._next = max(self._next + 1 / self._rate, now - 0.02)
        self._saved = min(self._most_saved, self._saved + (now - self._saved_at) * self._rate * _SHARE)
        self._saved_at = now
        found += self._focused(now)
        if self._watch and self._watch_due <= now:
            self._watch_due = now + _WATCH_PACE * max(1.0, len(self._watch) / 2)
            found += dict.fromkeys(n for numbers in self._watch.values() for n in numbers)
        return found

    def _focused(self, now: float) -> list[int]:
        found = []
        for number, focus in list(self._focus.items()):
            if focus.until < now and focus.burst >= len(_BURST_AT):
                del self._focus[number]
                continue
            while focus.due <= now and self._saved >= (1 if focus.burst < len(_BURST_AT) else self._kept):
                self._saved -= 1
                found.append(number)
                focus.burst += 1
                if focus.burst < len(_BURST_AT):
                    focus.due = max(now, focus.began + _BURST_AT[focus.burst])
                    break
                focus.due = max(focus.due + self._pace, now - _BEHIND)
        return found

    def on_loss(self, number: int, now: float) -> None:
        """A probe was lost, and nothing that is known explains it."""
        for near in self.near(number):
            focus = self._focus.get(near)
            if focus is None:
                self._focus[near] = _Focus(now, 0, now + _LASTS, now)
                continue
            focus.until = now + _LASTS
            if now - focus.began > _AGAIN:
                focus.due, focus.burst, focus.began = now, 0, now

    def settle(self) -> None:
        """What was lost is explained: no more probes for it."""
        self._focus.clear()

    def watch(self, name: str, numbers: Iterable[int] | None) -> None:
        """Keep an eye on the shortest of some routes, those of an element, or no longer (None)."""
        if numbers is None:
            self._watch.pop(name, None)
            return
        chosen = sorted(numbers, key=lambda n: len(self._routes[n].lines))
        loops = [n for n in chosen if self._routes[n].loop]
        ways = [n for n in chosen if not self._routes[n].loop]
        half = _WATCHED // 2
        self._watch[name] = loops[: _WATCHED - min(half, len(ways))] + ways[:half]

    def near(self, number: int) -> tuple[int, ...]:
        """Return the routes that tell which part of a route is bad."""
        if number not in self._near:
            self._near[number] = tuple(dict.fromkeys(self._find_near(self._routes[number])))
        return self._near[number]

    def _find_near(self, route: Route) -> list[int]:
        found = [route.number]
        links = list(dict.fromkeys(line[0] for line in route.lines))
        for link in links:
            others = set(links) - {link}
            for up in ("up", "down", "both"):
                ways = [r for r in self._by_link[link] if _feels(r, link, up)]
                ways.sort(key=lambda r: (len(others & {k for k, _ in r.lines}), len(r.lines)))
                found += [r.number for r in ways[: _A_LINK // 2 if up == "both" else 1]]
        for switch in dict.fromkeys(route.via):
            ways = [r for r in self._by_switch[f"p{route.plane}.{switch}"] if r.loop]
            ways = [r for r in ways if not set(links) & {k for k, _ in r.lines}]
            found += [r.number for r in ways[:_A_SWITCH]]
        for host in dict.fromkeys((route.src, route.dst)):
            ways = [r for r in self._by_host[host] if r.plane != route.plane]
            found += [r.number for r in ways[:_A_HOST]]
        return found


def _feels(route: Route, link: str, how: str) -> bool:
    passed = {direction for name, direction in route.lines if name == link}
    return passed == ({"up", "down"} if how == "both" else {how})


def _ports(routes: Sequence[Route]) -> list[list[int]]:
    """Return the loops of each port, started at different places, so that a round covers all links.

    Ports follow each other so that planes and T0s take turns.
    """
    ports: dict[tuple[str, int], list[Route]] = {}
    for route in routes:
        if route.turn is not None:
            ports.setdefault((route.src, route.plane), []).append(route)
    place: dict[tuple[int, str], int] = {}
    found: list[tuple[int, str, int, list[int]]] = []
    for (_, plane), its in ports.items():
        t0 = its[0].via[0]
        at = place.get((plane, t0), 0)
        place[plane, t0] = at + 1
        numbers = [r.number for r in sorted(its, key=lambda r: r.turn or 0)]
        shift = at % len(numbers)
        found.append((at, t0, plane, numbers[shift:] + numbers[:shift]))
    found.sort(key=lambda p: (p[0], p[1], p[2]))
    return [numbers for _, _, _, numbers in found]
