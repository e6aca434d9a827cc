"""The [workload] table of a scenario: which keys each kind has, and the workload it makes.

Decides names, defaults and units of the table's keys; leaves the patterns to `softmrc.sim.workloads`, collectives to
`scenario_collectives` and foreign files to `htsim` and `chakra`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from softmrc.errors import UsageError
from softmrc.sim.builder import Builder
from softmrc.sim.chakra import read_chakra
from softmrc.sim.config import Clos
from softmrc.sim.htsim import read_matrix
from softmrc.sim.htsim_workload import matrix_workload
from softmrc.sim.scenario_collectives import COLLECTIVES, Place, read_collective
from softmrc.sim.sizes import SizeDistribution, named_sizes, read_sizes
from softmrc.sim.split import split_over_qps
from softmrc.sim.table import mapping, read_table
from softmrc.sim.workload import Workload
from softmrc.sim.workloads import incast, permutation, poisson_flows, training_job

__all__ = ["KINDS", "make_workload"]


class Kind(Protocol):
    """The table of one kind of workload."""

    def add(self, b: Builder, place: Place) -> None:
        """Add its tasks."""


@dataclass(frozen=True, kw_only=True)
class Permutation:
    """Every host sends to one other, drawn by the seed."""

    size: int
    across_t0: bool = False
    """No flow stays below its T0."""
    start_ns: int = 0

    def add(self, b: Builder, place: Place) -> None:
        """Add one send a host."""
        if self.across_t0 and not isinstance(place.topology, Clos):
            raise UsageError("across_t0 needs a Clos fabric")
        apart = place.topology.hosts_per_t0 if self.across_t0 and isinstance(place.topology, Clos) else 1
        permutation(b, place.hosts, self.size, seed=place.seed, apart=apart, start=self.start_ns)


@dataclass(frozen=True, kw_only=True)
class Incast:
    """Many hosts send to one; a bystander's flow shares the way."""

    size: int
    senders: tuple[int, ...] | int
    """Hosts, or how many: those that follow the receiver's T0."""
    receiver: int = 0
    victim: tuple[int, ...] | None = None
    """Source and destination of the bystander."""
    victim_size: int | None = None
    start_ns: int = 0

    def add(self, b: Builder, place: Place) -> None:
        """Add the sends."""
        if self.victim is not None and len(self.victim) != 2:
            raise UsageError(f"victim = {list(self.victim)}: source and destination")
        victim = None if self.victim is None else (self.victim[0], self.victim[1])
        senders = self.senders if isinstance(self.senders, tuple) else self._far(self.senders, place)
        incast(
            b,
            senders,
            self.receiver,
            self.size,
            victim=victim,
            victim_size=self.victim_size,
            start=self.start_ns,
        )

    def _far(self, count: int, place: Place) -> tuple[int, ...]:
        below = place.topology.hosts_per_t0 if isinstance(place.topology, Clos) else 1
        first = (self.receiver // below + 1) * below
        taken = self.victim or ()
        found = [
            h % place.hosts for h in range(first, first + place.hosts - below) if h % place.hosts not in taken
        ]
        if not 1 <= count <= len(found):
            raise UsageError(f"senders = {count}: there are 1..{len(found)} hosts outside the receiver's T0")
        return tuple(found[:count])


@dataclass(frozen=True, kw_only=True)
class Training:
    """A synchronous job: compute, collective, barrier in every step."""

    collective: Mapping[str, Any]
    steps: int
    compute_ns: int
    jitter: float = 0.0
    buckets: int = 1

    def add(self, b: Builder, place: Place) -> None:
        """Add the job; its hosts are those of the collective."""
        table = read_collective(self.collective, "collective")
        if table.rounds != 1:
            raise UsageError("collective.rounds: a training job has `buckets`")
        training_job(
            b,
            table.ranks(place),
            lambda builder, ready: table.once(builder, place, ready),
            steps=self.steps,
            compute_ns=self.compute_ns,
            jitter=self.jitter,
            buckets=self.buckets,
            seed=place.seed,
        )


@dataclass(frozen=True, kw_only=True)
class Arrivals:
    """Flows that arrive by themselves."""

    load: float
    duration_ns: int
    sizes: str | int = "websearch"
    """A published distribution, a CSV file, or bytes: all equal."""

    def add(self, b: Builder, place: Place) -> None:
        """Add one send a flow."""
        if isinstance(self.sizes, int):
            sizes = SizeDistribution((self.sizes,), (1.0,))
        elif self.sizes.endswith(".csv"):
            sizes = read_sizes(place.folder / self.sizes)
        else:
            sizes = named_sizes(self.sizes)
        poisson_flows(
            b,
            place.hosts,
            sizes,
            load=self.load,
            host_gbps=place.host_gbps,
            duration_ns=self.duration_ns,
            seed=place.seed,
        )


@dataclass(frozen=True, kw_only=True)
class Flow:
    """One flow of a list."""

    source: int
    destination: int
    size: int
    id: str = ""
    after: tuple[str, ...] = ()
    """Ids of earlier flows that must have ended."""
    start_ns: int = 0
    delay_ns: int = 0
    qp: int = -1
    group: str = "flows"


@dataclass(frozen=True, kw_only=True)
class Flows:
    """Flows one by one."""

    flow: tuple[Any, ...]

    def add(self, b: Builder, place: Place) -> None:
        """Add them in their order."""
        ids: dict[str, int] = {}
        for i, given in enumerate(self.flow):
            f = read_table(Flow, mapping(given, f"flow.{i}"), f"flow.{i}")
            if f.id in ids:
                raise UsageError(f"flow.{i}: the id {f.id!r} is taken by an earlier flow")
            unknown = [name for name in f.after if name not in ids]
            if unknown:
                raise UsageError(f"flow.{i}: after names {unknown[0]!r}, which is no earlier flow")
            after = np.array([[ids[name] for name in f.after]], dtype=np.int64)
            made = b.sends(
                f.source, f.destination, f.size, after=after, start=f.start_ns, delay=f.delay_ns, qp=f.qp,
                group=f.group,
            )  # fmt: skip
            if f.id:
                ids[f.id] = int(made[0])


@dataclass(frozen=True, kw_only=True)
class Mix:
    """Several workloads at once."""

    part: tuple[Any, ...]

    def add(self, b: Builder, place: Place) -> None:
        """Add each part; parts do not wait for one another."""
        for i, given in enumerate(self.part):
            table = mapping(given, f"part.{i}")
            try:
                _read(table, ("mix", "htsim", "chakra")).add(b, place)
            except UsageError as e:
                raise UsageError(f"part.{i}: {e}") from None


@dataclass(frozen=True, kw_only=True)
class Htsim:
    """A connection matrix of htsim."""

    file: str

    def workload(self, place: Place) -> Workload:
        """Read it."""
        return matrix_workload(read_matrix(place.folder / self.file))


@dataclass(frozen=True, kw_only=True)
class Chakra:
    """Chakra traces, one file a rank."""

    prefix: str
    groups: str | None = None
    placement: tuple[int, ...] | None = None
    all_reduce: str = "ring"
    pieces: int = 1
    tflops: float | None = None

    def workload(self, place: Place) -> Workload:
        """Read them."""
        return read_chakra(
            place.folder / self.prefix,
            groups=None if self.groups is None else place.folder / self.groups,
            placement=self.placement,
            all_reduce=self.all_reduce,
            pieces=self.pieces,
            tflops=self.tflops,
        )


_PLAIN: dict[str, type[Kind]] = {
    "permutation": Permutation,
    "incast": Incast,
    "training": Training,
    "arrivals": Arrivals,
    "flows": Flows,
    "mix": Mix,
}
_FILES: dict[str, type[Htsim] | type[Chakra]] = {"htsim": Htsim, "chakra": Chakra}
KINDS = (*_PLAIN, *COLLECTIVES, *_FILES)
"""Values of workload.kind."""


def make_workload(table: Mapping[str, Any], place: Place) -> Workload:
    """Return the workload that a [workload] table describes, validated.

    Raises:
        UsageError: an unknown kind or key, a value out of range, or a file that is wrong.
    """
    rest = {k: v for k, v in table.items() if k != "split_qps"}
    parts = table.get("split_qps", 1)
    try:
        if not isinstance(parts, int) or isinstance(parts, bool):
            raise UsageError(f"split_qps is a whole number, not {parts!r}")
        work = split_over_qps(_make(rest, place), parts)
        work.validate(place.hosts)
        return work
    except UsageError as e:
        raise UsageError(f"[workload] {e}") from None


def _make(table: Mapping[str, Any], place: Place) -> Workload:
    kind = table.get("kind")
    if isinstance(kind, str) and kind in _FILES:
        rest = {k: v for k, v in table.items() if k != "kind"}
        return read_table(_FILES[kind], rest, kind).workload(place)
    b = Builder()
    _read(table).add(b, place)
    return b.build()


def _read(table: Mapping[str, Any], barred: tuple[str, ...] = ()) -> Kind:
    kind = table.get("kind")
    known = [k for k in KINDS if k not in barred]
    if not isinstance(kind, str) or kind not in known:
        raise UsageError(f"kind = {kind!r}: {', '.join(known)}")
    if kind in COLLECTIVES:
        return read_collective(table, kind)
    return read_table(_PLAIN[kind], {k: v for k, v in table.items() if k != "kind"}, kind)
