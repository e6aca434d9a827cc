"""What a row gets to measure with: settings, cores, networks, and programs on both ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from softmrc.bench.pairs import Pairs, Sample, measure_pairs
from softmrc.bench.place import Place
from softmrc.bench.proc import Program
from softmrc.bench.settings import Settings
from softmrc.bench.site import Site, Sites

__all__ = ["Bench"]


@dataclass(frozen=True)
class Bench:
    """The means of measurement."""

    settings: Settings
    place: Place
    sites: Sites

    def start_a(self, site: Site, command: Sequence[str]) -> Program:
        """Start a program on host a and its core."""
        return Program(site.a, command, self.place.a if self.place.can_pin else None)

    def start_b(self, site: Site, command: Sequence[str]) -> Program:
        """Start a program on host b and its core."""
        return Program(site.b, command, self.place.b if self.place.can_pin else None)

    def pairs(
        self, ours: Callable[[], Sample], peer: Callable[[], Sample], *, repeat: int | None = None
    ) -> Pairs:
        """Measure both in turn; see `measure_pairs`."""
        return measure_pairs(self.settings, self.place, ours, peer, repeat=repeat)
