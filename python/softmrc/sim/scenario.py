"""Scenarios: everything a run is given, in one TOML file, or by name from those that come with the package.

Decides the form of the file and what overrides and the [quick] table mean; leaves each table to its own reader. A file
that says something unknown or out of range is refused with the path of the key and what is allowed.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any

from softmrc.errors import UsageError
from softmrc.sim.ablations import changes_of
from softmrc.sim.config import Clos, Fault, Graph, Mrc, Queues, Rocev2, Tcp, Topology, Transport
from softmrc.sim.fault_plan import plan_faults
from softmrc.sim.graph_file import load_toml, read_graph
from softmrc.sim.htsim_topo import read_topology
from softmrc.sim.policies import load_plugins
from softmrc.sim.scenario_collectives import Place
from softmrc.sim.scenario_workloads import KINDS, make_workload
from softmrc.sim.table import check_keys, mapping, read_table
from softmrc.sim.workload import GREEDY, MAX_TIME_NS, Workload

__all__ = ["Sample", "Scenario", "Stop"]

_TABLES = ("fabric", "queues", "transport", "workload", "sample", "cost", "stop")
_KEYS = ("about", "seed", "plugins", "fault", "quick", *_TABLES)
_TRANSPORTS: dict[str, type[Mrc] | type[Rocev2] | type[Tcp]] = {"mrc": Mrc, "rocev2": Rocev2, "tcp": Tcp}


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The [sample] table: what is recorded over time."""

    interval_ns: int | None = None
    """Time between two samples; None: no series."""
    flows: tuple[int, ...] = ()
    """Tasks whose goodput is recorded."""
    hosts: tuple[int, ...] = ()
    links: tuple[str, ...] = ()
    """`h3.p2`, `p2.t0-5.t1-7`; with `.up` or `.down` one direction."""
    pcap: tuple[str, ...] = ()
    """Links whose frames are kept for a capture file."""

    def __post_init__(self) -> None:
        if self.interval_ns is not None and not 1 <= self.interval_ns <= MAX_TIME_NS:
            raise UsageError(f"interval_ns = {self.interval_ns}: at least 1")
        for name in ("flows", "hosts"):
            wrong = [n for n in getattr(self, name) if not 0 <= n < 1 << 32]
            if wrong:
                raise UsageError(f"{name} = {wrong[0]}: numbers of {name} count from 0")


@dataclass(frozen=True, kw_only=True)
class Stop:
    """The [stop] table: when a run ends, if not with its last task."""

    until_ns: int | None = None
    """Simulated time."""
    wall_s: float | None = None
    max_rss_mib: int | None = None

    def __post_init__(self) -> None:
        if self.until_ns is not None and not 1 <= self.until_ns <= MAX_TIME_NS:
            raise UsageError(f"until_ns = {self.until_ns}: 1 to {MAX_TIME_NS}")
        if (self.wall_s is not None and self.wall_s <= 0) or (
            self.max_rss_mib is not None and self.max_rss_mib < 1
        ):
            raise UsageError("wall_s and max_rss_mib are more than 0")


@dataclass(frozen=True)
class Scenario:
    """A scenario, checked; `workload(seed)` makes the workload."""

    name: str
    about: str
    seed: int
    topology: Topology
    transport: Transport
    queues: Queues
    faults: tuple[Fault, ...]
    sample: Sample
    stop: Stop
    cost: dict[str, Any]
    document: dict[str, Any] = field(repr=False)
    """The tables as they were read, overrides and [quick] put in."""
    folder: Path = field(repr=False)
    """Where files named in the tables are looked for."""

    @classmethod
    def load(
        cls, name: str | Path, *, overrides: Mapping[str, Any] | None = None, quick: bool = False
    ) -> Scenario:
        """Load a scenario.

        Args:
            name: of a built-in one, or a path that ends in .toml.
            overrides: dotted key to value, for instance {"transport.qps": 8}; of a list of tables the number counts:
                "fault.0.at_ns".
            quick: put the [quick] table in: the scenario's small variant.

        Raises:
            UsageError: there is none of that name, or it is wrong; names the key and what is allowed.
        """
        path = Path(name)
        if path.suffix == ".toml":
            data, title, folder = load_toml(path), path.stem, path.parent
        else:
            known = dict(_built_in())
            if str(name) not in known:
                raise UsageError(
                    f"no scenario {str(name)!r}; there are {', '.join(known)}, or give a file that ends in .toml"
                )
            data, title, folder = load_toml(known[str(name)]), str(name), known[str(name)].parent
        try:
            return cls.from_tables(data, name=title, folder=folder, overrides=overrides, quick=quick)
        except UsageError as e:
            raise UsageError(f"scenario {title}: {e}") from None

    @classmethod
    def from_tables(
        cls,
        data: Mapping[str, Any],
        *,
        name: str = "scenario",
        folder: Path = Path(),
        overrides: Mapping[str, Any] | None = None,
        quick: bool = False,
    ) -> Scenario:
        """Make a scenario of tables; the rest as `load`."""
        doc = copy.deepcopy(dict(data))
        check_keys(doc, _KEYS, "")
        small = mapping(doc.pop("quick", {}), "quick")
        if quick:
            _merge(doc, small)
        for key, value in (overrides or {}).items():
            _put(doc, key, value)
        check_keys(doc, _KEYS, "")
        tables = {t: mapping(doc.get(t, {}), t) for t in _TABLES}
        load_plugins(_plugins(doc, folder))
        topology = _topology(tables["fabric"], folder)
        seed = doc.get("seed", 1)
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 1 << 63:
            raise UsageError(f"seed is a whole number of at least 0, not {seed!r}")
        if tables["workload"].get("kind") not in KINDS:
            raise UsageError(f"workload.kind = {tables['workload'].get('kind')!r}: {', '.join(KINDS)}")
        faults = doc.get("fault", [])
        if not isinstance(faults, list):
            raise UsageError("fault is a list of tables, each written as [[fault]]")
        return cls(
            name=name,
            about=str(doc.get("about", "")),
            seed=seed,
            topology=topology,
            transport=_transport(tables["transport"]),
            queues=read_table(Queues, tables["queues"], "queues"),
            faults=plan_faults(faults, topology),
            sample=read_table(Sample, tables["sample"], "sample"),
            stop=read_table(Stop, tables["stop"], "stop"),
            cost=_cost(tables["cost"]),
            document=doc,
            folder=folder,
        )

    def workload(self, seed: int | None = None) -> Workload:
        """Make the workload.

        Args:
            seed: of everything drawn; None: the scenario's own.

        Raises:
            UsageError: the table or a file it names is wrong, or a flow never ends and [stop] names no time.
        """
        place = Place(self.topology, self.seed if seed is None else seed, self.folder)
        work = make_workload(self.document["workload"], place)
        if self.stop.until_ns is None and bool((work.size == GREEDY).any()):
            raise UsageError("[workload] has flows without end; say when to stop: [stop] until_ns")
        return work

    def settings(self) -> dict[str, Any]:
        """Return everything but the seed as JSON takes it: what was written, and the values that follow from it."""
        topology = asdict(self.topology)
        if isinstance(self.topology, Graph):
            topology = {"hosts": self.topology.hosts, "planes": self.topology.planes}
        return {
            "fabric": topology,
            "queues": asdict(self.queues),
            "transport": {"name": self.transport.name, **asdict(self.transport)},
            "workload": self.document["workload"],
            "fault": self.document.get("fault", []),
            "sample": {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self.sample).items()},
            "stop": asdict(self.stop),
            "cost": self.cost,
            "files": self.files(),
        }

    def files(self) -> dict[str, str]:
        """Return the files that the scenario reads besides its own, with the SHA-256 of each.

        Raises:
            UsageError: one cannot be read.
        """
        names = [self.document["fabric"].get("file")]
        work = self.document["workload"]
        parts = [work, *(p for p in work.get("part", []) if isinstance(p, Mapping))]
        names += [p.get("file") for p in parts] + [p.get("groups") for p in parts]
        names += [p.get("sizes") for p in parts if str(p.get("sizes", "")).endswith(".csv")]
        found = [self.folder / str(n) for n in names if n] + _plugins(self.document, self.folder)
        if work.get("kind") == "chakra":
            from softmrc.sim.chakra import trace_files

            found += trace_files(self.folder / str(work.get("prefix")))
        out = {}
        for path in found:
            try:
                out[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
            except OSError as e:
                raise UsageError(f"cannot read {path}: {e}") from e
        return out

    @staticmethod
    def list() -> Sequence[tuple[str, str]]:
        """Return name and one-line description of the built-in scenarios."""
        return [(name, str(load_toml(path).get("about", ""))) for name, path in _built_in()]


def _plugins(doc: Mapping[str, Any], folder: Path) -> list[Path]:
    names = doc.get("plugins", [])
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise UsageError(f'plugins is a list of Python files, as ["my_policy.py"], not {names!r}')
    return [folder / n for n in names]


def _built_in() -> Sequence[tuple[str, Path]]:
    folder = Path(str(resources.files("softmrc.sim"))) / "scenarios"
    return [(p.stem, p) for p in sorted(folder.glob("*.toml"))]


def _merge(doc: dict[str, Any], small: Mapping[str, Any]) -> None:
    """Put tables into tables; everything else is replaced."""
    for key, value in small.items():
        if isinstance(value, Mapping) and isinstance(doc.get(key), dict):
            _merge(doc[key], value)
        else:
            doc[key] = copy.deepcopy(value)


def _put(doc: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key.

    Raises:
        UsageError: it leads through something that is no table, or to a list that has no such entry.
    """
    here: Any = doc
    *path, last = key.split(".")
    for depth, word in enumerate([*path, last]):
        if isinstance(here, list):
            if not word.isdigit() or int(word) >= len(here):
                raise UsageError(
                    f"{key}: {'.'.join(path[:depth])} has entries 0..{len(here) - 1}, not {word!r}"
                )
        elif not isinstance(here, dict):
            raise UsageError(f"{key}: {'.'.join(path[:depth])} is no table")
        index: Any = int(word) if isinstance(here, list) else word
        if depth == len(path):
            here[index] = copy.deepcopy(value)
        elif isinstance(here, list):
            here = here[index]
        else:
            here = here.setdefault(word, {})


def _topology(table: dict[str, Any], folder: Path) -> Topology:
    if "file" not in table:
        return read_table(Clos, table, "fabric")
    path = folder / str(table["file"])
    if path.suffix == ".topo":
        check_keys(table, ("file", "planes"), "fabric")
        planes = table.get("planes", 1)
        if not isinstance(planes, int) or isinstance(planes, bool):
            raise UsageError(f"fabric.planes is a whole number, not {planes!r}")
        return read_topology(path, planes).fabric
    check_keys(table, ("file",), "fabric")
    return read_graph(path)


def _transport(table: dict[str, Any]) -> Transport:
    """Read [transport]: name and keys of that transport, else its keys in [transport.NAME].

    So that another transport can be chosen by name alone, what only one of them knows stands in its own table. A name
    may carry options ("mrc:no-trimming", "rocev2:16qp"), which win over both.
    """
    name = table.pop("name", "mrc")
    if not isinstance(name, str):
        raise UsageError(f"transport.name is a text, for instance mrc, not {name!r}")
    kind, options = changes_of(name)
    own = {t: mapping(table.pop(t, {}), f"transport.{t}") for t in _TRANSPORTS}
    for other, values in own.items():
        read_table(_TRANSPORTS[other], values, f"transport.{other}")
    known = {f.name for f in fields(_TRANSPORTS[kind])}
    for key in table:
        owners = [t for t, cls in _TRANSPORTS.items() if key in {f.name for f in fields(cls)}]
        if key not in known and owners:
            where = f"write it under [transport.{owners[0]}]"
            raise UsageError(f"transport.{key} is for {' and '.join(owners)}, not for {kind}; {where}")
    return read_table(_TRANSPORTS[kind], {**own[kind], **table, **options}, "transport")


def _cost(table: dict[str, Any]) -> dict[str, Any]:
    from softmrc.sim.result.cost import Rates

    Rates.from_table(table)
    return table
