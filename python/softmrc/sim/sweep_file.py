"""Which runs a sweep consists of, from its TOML file.

    [sweep]
    scenario = "incast-victim"        # a name, or a file beside this one
    seeds = 10                        # 1 to 10; or a list
    quick = false
    [sweep.grid]                      # every combination
    "transport.name" = ["mrc", "rocev2"]
    "transport.qps" = [1, 8]
    [[sweep.case]]                    # or exactly these, each with a name
    name = "no trimming"
    set = { "transport.trimming" = false }

Grid and cases together mean each case with every combination. Decides the cells and their order; leaves running them
to `sweep`.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softmrc.errors import UsageError

__all__ = ["Cell", "Sweep"]

_MAX_CELLS = 100_000
_KEYS = {"scenario", "seeds", "quick", "grid", "case"}
_SEED_LIMIT = 1 << 63


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    case: str
    """What distinguishes it from other cells of the same seed."""
    seed: int
    overrides: Mapping[str, Any]
    """Dotted key of the scenario to value."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """All runs of a sweep, cases in the order of the file, seeds within each."""

    scenario: str
    """A built-in name, or the path of a file."""
    cells: tuple[Cell, ...]
    quick: bool = False

    @classmethod
    def load(cls, path: str | Path) -> Sweep:
        """Read a sweep.

        Raises:
            UsageError: names the file, and the line or key that is wrong.
        """
        file = Path(path)
        try:
            table = tomllib.loads(file.read_text())
        except OSError as error:
            raise UsageError(f"cannot read {file}: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{file}: {error}") from None
        try:
            return cls.from_table(table, file.parent)
        except UsageError as error:
            raise UsageError(f"{file}: {error}") from None

    @classmethod
    def from_table(cls, table: Mapping[str, Any], beside: Path = Path()) -> Sweep:
        """Return the sweep of a parsed file; scenario files are looked for in the folder `beside`.

        Raises:
            UsageError: a key is unknown or its value of no use.
        """
        extra = set(table) - {"sweep"}
        body = table.get("sweep")
        if extra or not isinstance(body, dict):
            raise UsageError(
                f"a sweep has one table, [sweep]{f'; unknown: {sorted(extra)[0]}' if extra else ''}"
            )
        for key in body:
            if key not in _KEYS:
                raise UsageError(f"sweep.{key} is unknown; there is {', '.join(sorted(_KEYS))}")
        name = body.get("scenario")
        if not isinstance(name, str) or not name:
            raise UsageError("sweep.scenario is the name or the file of a scenario")
        if name.endswith(".toml"):
            name = str(beside / name)
        if not isinstance(body.get("quick", False), bool):
            raise UsageError("sweep.quick is true or false")
        cells = _cells(_cases(body), _seeds(body.get("seeds", 1)))
        return cls(scenario=name, cells=cells, quick=body.get("quick", False))


def _seeds(asked: Any) -> tuple[int, ...]:
    seeds = range(1, asked + 1) if isinstance(asked, int) and not isinstance(asked, bool) else asked
    if not isinstance(seeds, range | list) or len(seeds) == 0 or len(seeds) > _MAX_CELLS:
        raise UsageError(f"sweep.seeds is a number from 1 to {_MAX_CELLS}, or a list of seeds")
    for seed in seeds:
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < _SEED_LIMIT:
            raise UsageError(f"sweep.seeds: a seed is a whole number from 0 to 2^63-1, not {seed!r}")
    if len(set(seeds)) != len(seeds):
        raise UsageError("sweep.seeds names a seed twice")
    return tuple(seeds)


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a nested table by dotted keys."""
    made: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            made |= _flat(value, f"{prefix}{key}.")
        else:
            made[f"{prefix}{key}"] = value
    return made


def _label(overrides: Mapping[str, Any]) -> str:
    return ", ".join(f"{key.rpartition('.')[2]}={value}" for key, value in overrides.items())


def _cases(body: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return name and overrides of every case, those of the grid within each named one."""
    grid = body.get("grid", {})
    if not isinstance(grid, dict):
        raise UsageError("sweep.grid is a table: keys of the scenario, each with a list of values")
    axes = _flat(grid)
    for key, values in axes.items():
        if not isinstance(values, list) or not values:
            raise UsageError(f"sweep.grid.{key} is a list of at least one value, not {values!r}")
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    made: list[tuple[str, dict[str, Any]]] = []
    for name, changes in _named(body.get("case", [])):
        for point in points:
            both = {**changes, **point}
            made.append((", ".join(part for part in (name, _label(point)) if part) or "as is", both))
    if len({name for name, _ in made}) != len(made):
        raise UsageError("sweep: two cases have the same name")
    return made


def _named(cases: Any) -> list[tuple[str, dict[str, Any]]]:
    if not isinstance(cases, list):
        raise UsageError("sweep.case is written [[sweep.case]], once for each case")
    if not cases:
        return [("", {})]
    made = []
    for i, case in enumerate(cases):
        if (
            not isinstance(case, dict)
            or set(case) - {"name", "set"}
            or not isinstance(case.get("set", {}), dict)
        ):
            raise UsageError(f"sweep.case {i + 1} has a name and a table `set`, nothing else")
        changes = _flat(case.get("set", {}))
        name = case.get("name") or _label(changes) or "as is"
        if not isinstance(name, str):
            raise UsageError(f"sweep.case {i + 1}: the name is text, not {name!r}")
        made.append((name, changes))
    return made


def _cells(cases: Sequence[tuple[str, dict[str, Any]]], seeds: Sequence[int]) -> tuple[Cell, ...]:
    if len(cases) * len(seeds) > _MAX_CELLS:
        raise UsageError(
            f"{len(cases)} cases x {len(seeds)} seeds are more than {_MAX_CELLS} runs; split the sweep"
        )
    return tuple(Cell(name, seed, changes) for name, changes in cases for seed in seeds)
