"""A fabric in virtual time whose lines lose packets: what the prober's parts make of it, without sockets and clocks."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from softmrc.lab import LabSpec
from softmrc.lab.mapper.elements import Element, elements
from softmrc.lab.mapper.locator import Change, Locator, window
from softmrc.lab.mapper.routes import Line, Route, make_routes
from softmrc.lab.mapper.schedule import Schedule
from softmrc.lab.plan import make_plan

TICK, PATIENCE = 0.004, 0.0085


class World:
    """Some shape, its routes and elements, and what is wrong with it."""

    def __init__(self, seed: int = 1, **spec: int) -> None:
        plan = make_plan(LabSpec(name="w", **{"planes": 4, "t0": 2, "t1": 4, "hosts": 8, **spec}))  # type: ignore[arg-type]
        self.links = plan.links
        self.routes: list[Route] = make_routes(plan.spec.shape, plan.links)
        self.elements: dict[str, Element] = {}
        for element in elements(plan.links):
            self.elements.setdefault(element.name, element)
        self.rng = Random(seed)
        self.losses: dict[Line, float] = {}

    def break_(self, name: str, loss: float, direction: str = "both") -> None:
        for line in self.elements[name].lines:
            if direction in ("both", line[1]):
                self.losses[line] = 1 - (1 - self.losses.get(line, 0.0)) * (1 - loss)

    def heal(self) -> None:
        self.losses.clear()

    def lost(self, route: int) -> bool:
        passes = 1.0
        for line in self.routes[route].lines:
            passes *= 1 - self.losses.get(line, 0.0)
        return self.rng.random() >= passes

    def tallies(self, each: int, routes: Iterable[Route] | None = None) -> dict[int, tuple[int, int]]:
        """Send so many on each route."""
        chosen = self.routes if routes is None else routes
        return {r.number: (each, sum(self.lost(r.number) for _ in range(each))) for r in chosen}


class Watch:
    """Probes a world as the prober does."""

    def __init__(self, world: World, rate: float = 800.0, tick: float = TICK) -> None:
        self.world, self.now, self.tick = world, 100.0, tick
        self.locator = Locator(world.links, world.routes, window(rate))
        self.schedule = Schedule(world.routes, rate, self.now)
        self.sent = 0
        self._gone: list[tuple[float, int]] = []

    def run(self, seconds: float, until: str = "") -> list[Change]:
        """Go on for so long, or until something of that kind changes."""
        changes: list[Change] = []
        end = self.now + seconds
        while self.now < end and not any(c.what == until for c in changes):
            for route in self.schedule.take(self.now):
                self.sent += 1
                if self.world.lost(route):
                    self._gone.append((self.now, route))
                else:
                    self.locator.add(route, self.now, False)
            self.now += self.tick
            for sent, route in [g for g in self._gone if g[0] + PATIENCE <= self.now]:
                self._gone.remove((sent, route))
                if not self.locator.explained(route):
                    self.schedule.on_loss(route, self.now)
                self.locator.add(route, sent, True)
            for change in self.locator.look(self.now):
                if change.what == "found":
                    self.schedule.settle()
                if change.what != "changed":
                    numbers = [n for n, _, _ in change.finding.candidate.felt]
                    self.schedule.watch(change.finding.name, numbers if change.what == "found" else None)
                changes.append(change)
        return changes
