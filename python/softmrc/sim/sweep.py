"""Many independent runs: on all cores of this machine, or on a cluster; interrupted, they go on where they stopped.

Every finished run leaves its document in `cells/`, under a hash of all that decides it, so that a run that is done is
found again whatever else changed in the sweep. The table `sweep.parquet` is made from those documents in the order of
the sweep's file: its bytes do not depend on how many workers there were.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softmrc.errors import MrcError
from softmrc.sim.overrides import expanded, label_of
from softmrc.sim.result.execute import Limits, execute, plan_of
from softmrc.sim.result.files import parquet_bytes, to_json
from softmrc.sim.result.model import FORMAT
from softmrc.sim.result.outdir import prepare, write_file
from softmrc.sim.sweep_engine import check_workers, workers
from softmrc.sim.sweep_file import Cell, Sweep

__all__ = ["TABLE", "Done", "key_of", "row_of", "run_sweep"]

TABLE = "sweep.parquet"


@dataclass(frozen=True, kw_only=True)
class Done:
    """What came of one cell."""

    index: int
    key: str
    text: str
    """The document as JSON, empty if the run failed."""
    error: str = ""


def key_of(settings: Mapping[str, Any], seed: int) -> str:
    """Return the hash under which a run is found again: of its settings, its seed and this version."""
    from softmrc import __version__

    whole = {"format": FORMAT, "version": __version__, "settings": settings, "seed": seed}
    return hashlib.sha256(json.dumps(whole, sort_keys=True, default=str).encode()).hexdigest()[:32]


def _run_cell(scenario: str, cell: Cell, quick: bool, limits: Limits, index: int, key: str) -> Done:
    """Carry out one run; called in a worker process, perhaps on another machine."""
    from softmrc.sim.scenario import Scenario

    try:
        loaded = Scenario.load(scenario, overrides=expanded(cell.overrides), quick=quick)
        plan = plan_of(loaded, seed=cell.seed, quick=quick, label=label_of(cell.overrides))
        result = execute(plan.within(limits))
    except MrcError as error:
        return Done(index=index, key=key, text="", error=str(error))
    except Exception as error:  # whatever a run raises, the others go on
        return Done(index=index, key=key, text="", error=f"{type(error).__name__}: {error}")
    return Done(index=index, key=key, text=to_json(result.document(timing=False)))


def run_sweep(
    sweep: Sweep,
    folder: str | os.PathLike[str],
    *,
    jobs: int | None = None,
    engine: str = "local",
    address: str | None = None,
    limits: Limits | None = None,
    progress: Callable[[int, int, Done | None], None] | None = None,
) -> list[dict[str, Any]]:
    """Carry out a sweep and write its table.

    Args:
        sweep: its runs.
        folder: where cells and table go; a sweep that was interrupted there is continued.
        jobs: runs at once; all cores of this machine without it, 1 to 4,096.
        engine: "local", "dask" or "ray".
        address: of the cluster's scheduler, for dask and ray.
        limits: of each run; a run that reaches one is partial and done again next time.
        progress: told how many of how many are done, and the last one (none at the start).

    Returns:
        One row a cell, in order; `error` says why a run failed.

    Raises:
        UsageError: an engine that is not installed, a folder that cannot be written to, a scenario that does not exist.
        KeyboardInterrupt: finished runs are kept, and the table has them.
    """
    path = prepare(folder)
    cells = prepare(path / "cells")
    bounds = limits or Limits()
    check_workers(engine, jobs, address)
    keys = _keys(sweep)
    texts: dict[int, str] = {}
    errors: dict[int, str] = {}
    for index, key in enumerate(keys):
        text = _kept(cells / f"{key}.json")
        if text is not None:
            texts[index] = text
    tell = progress or (lambda done, total, last: None)
    tell(len(texts), len(keys), None)
    missing = [i for i in range(len(keys)) if i not in texts]
    # Worker processes may have been started elsewhere.
    is_file = sweep.scenario.endswith(".toml")
    scenario = os.path.abspath(sweep.scenario) if is_file else sweep.scenario
    calls = [(scenario, sweep.cells[i], sweep.quick, bounds, i, keys[i]) for i in missing]
    try:
        for done in _carry_out(calls, jobs, engine, address):
            if done.error:
                errors[done.index] = done.error
            else:
                texts[done.index] = done.text
                if not json.loads(done.text)["partial"]:
                    write_file(cells / f"{done.key}.json", done.text.encode())
            tell(len(texts) + len(errors), len(keys), done)
    finally:
        rows = [row_of(cell, texts.get(i), errors.get(i)) for i, cell in enumerate(sweep.cells)]
        write_file(path / TABLE, parquet_bytes(_table(rows)))
    return rows


def _kept(file: Path) -> str | None:
    """Return the document of an earlier run; none if there is no such file, or a damaged one."""
    try:
        text = file.read_text()
        return text if json.loads(text)["format"] == FORMAT else None
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _keys(sweep: Sweep) -> list[str]:
    """Return the hash of every cell; its scenario is loaded once for each case."""
    from softmrc.sim.scenario import Scenario

    of_case: dict[str, Mapping[str, Any]] = {}
    made = []
    for cell in sweep.cells:
        if cell.case not in of_case:
            loaded = Scenario.load(sweep.scenario, overrides=expanded(cell.overrides), quick=sweep.quick)
            of_case[cell.case] = loaded.settings()
        made.append(key_of({"quick": sweep.quick, **of_case[cell.case]}, cell.seed))
    return made


def _carry_out(
    calls: Sequence[tuple[Any, ...]], jobs: int | None, engine: str, address: str | None
) -> Iterator[Done]:
    if not calls:
        return
    with workers(engine, jobs, address) as run:
        yield from run(_run_cell, calls)


def row_of(cell: Cell, text: str | None, error: str | None) -> dict[str, Any]:
    """Return the row of one cell: what distinguishes it, and its main figures."""
    row: dict[str, Any] = {"case": cell.case, "seed": cell.seed, "error": error}
    row |= {f"set.{key}": _cell_value(value) for key, value in cell.overrides.items()}
    if text is None:
        return row
    document = json.loads(text)
    for key in ("name", "transport", "partial", "stopped", "sim_ns", "end_ns"):
        row[key] = document[key]
    times = document["completion_us"]["all"]
    row |= {
        f"fct_{key}_us": float(times[key])
        for key in ("mean", "p50", "p90", "p99", "p99_9", "max")
        if key in times
    }
    row["goodput_gbps"] = float(document["goodput"]["total_gbps"])
    for group, rates in document["goodput"]["flows_gbps"].items():
        row[f"goodput_{group}_mean_gbps"] = float(rates["mean"])
        row[f"goodput_{group}_min_gbps"] = float(rates["min"])
        row[f"jain_{group}"] = rates["jain"]
    row |= {f"tasks_{key}": document["tasks"][key] for key in ("done", "failed", "unfinished")}
    row |= {f"packets_{key}": count for key, count in document["packets"].items()}
    if document.get("steps"):
        row["steps"] = document["steps"]["complete"]
        row["step_mean_us"] = document["steps"]["length_us"].get("mean")
    total = (document.get("cost") or {}).get("total", {})
    row |= {
        f"cost_{key}": float(total[key])
        for key in ("lost_s", "gpu_hours", "energy_kwh", "usd")
        if key in total
    }
    return row


def _cell_value(value: Any) -> Any:
    return value if isinstance(value, int | float | bool | str) else json.dumps(value)


def _table(rows: Iterable[Mapping[str, Any]]) -> Any:
    """Return rows as a table; columns in the order they first appear, a column of mixed types as text."""
    import pyarrow as pa

    listed = list(rows)
    names = list(dict.fromkeys(name for row in listed for name in row))
    columns = {}
    for name in names:
        values = [row.get(name) for row in listed]
        kinds = {type(v) for v in values if v is not None}
        if kinds == {int, float}:
            values = [None if v is None else float(v) for v in values]
        elif len(kinds) > 1:
            values = [None if v is None else str(v) for v in values]
        columns[name] = pa.array(values) if kinds else pa.array(values, pa.string())
    return pa.table(columns)
