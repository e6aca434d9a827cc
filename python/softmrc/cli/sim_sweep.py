"""`softmrc sim sweep`: grids and seeds, on all cores or a cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softmrc.cli.output import INCOMPLETE, INTERRUPTED, fail, guard, need, note, put, put_json
from softmrc.cli.sim_options import Json, MemoryLimit, Shown, WallLimit

if TYPE_CHECKING:
    from softmrc.sim.sweep import Done

__all__ = ["sweep"]


def sweep(
    file: Annotated[str, typer.Argument(help="TOML file: a scenario, seeds, a grid or cases.")],
    out: Annotated[str, typer.Option(help="Folder of the table and of finished runs.")] = "sweep-out",
    jobs: Annotated[int | None, typer.Option(help="Runs at once; all cores by default.")] = None,
    engine: Annotated[str, typer.Option(help="local, dask or ray.")] = "local",
    address: Annotated[str, typer.Option(help="Scheduler of the cluster, for dask and ray.")] = "",
    wall_limit: WallLimit = None,
    memory_limit: MemoryLimit = None,
    metric: Annotated[str, typer.Option(help="Column that the figure compares.")] = "fct_p99_us",
    json: Json = False,
    progress: Shown = True,
) -> None:
    """Carry out many runs and write one Parquet table, the same bytes for any number of workers.

    Interrupted, it keeps what is done: the same command goes on from there. A run is known again by a hash of all that
    decides it. `docs/sim.md` describes the file.

    \b
    softmrc sim sweep sweep.toml --out sweep
    softmrc sim sweep sweep.toml --jobs 2
    softmrc sim sweep sweep.toml --engine dask --address tcp://10.0.0.1:8786
    softmrc plot sweep/sweep.parquet --metric goodput_victim_min_gbps

    Exit codes: 0 done, 1 failed, 2 wrong use, 4 some runs failed (named), 130 interrupted.
    """
    with guard("sim sweep", json):
        from softmrc.sim.result.execute import Limits
        from softmrc.sim.sweep import TABLE, run_sweep
        from softmrc.sim.sweep_file import Sweep

        need("joblib", "pyarrow")
        loaded = Sweep.load(file)
        limits = Limits(wall_s=wall_limit, max_rss_mib=memory_limit)
        interrupted, rows = False, list[dict[str, Any]]()
        with _bar(progress) as show:
            try:
                rows = run_sweep(
                    loaded,
                    out,
                    jobs=jobs,
                    engine=engine,
                    address=address or None,
                    limits=limits,
                    progress=show,
                )
            except KeyboardInterrupt:
                interrupted = True
        if interrupted:
            why = f"interrupted; the same command goes on with what {out} lacks"
            fail("sim sweep", why, INTERRUPTED, json)
        failed = [row for row in rows if row["error"]]
        if json:
            put_json({"runs": len(rows), "failed": len(failed), "table": f"{out}/{TABLE}", "rows": rows})
        else:
            put("\n".join(_lines(rows, metric)))
            put(f"\n{len(rows)} runs, {len(failed)} failed; table: {out}/{TABLE}")
        for row in failed:
            note(f"softmrc sim sweep: {row['case']}, seed {row['seed']}: {row['error']}")
        if failed:
            raise typer.Exit(INCOMPLETE)


def _lines(rows: list[dict[str, Any]], metric: str) -> list[str]:
    cases: dict[str, list[float]] = {}
    for row in rows:
        cases.setdefault(row["case"], [])
        if isinstance(row.get(metric), int | float):
            cases[row["case"]].append(float(row[metric]))
    width = max(len(case) for case in cases)
    lines = [f"{'case':<{width}}  {metric}: mean (least to most, seeds)"]
    for case, values in cases.items():
        shown = (
            f"{sum(values) / len(values):g} ({min(values):g} to {max(values):g}, {len(values)})"
            if values
            else "none"
        )
        lines.append(f"{case:<{width}}  {shown}")
    return lines


@contextmanager
def _bar(wanted: bool) -> Iterator[Callable[[int, int, Done | None], None] | None]:
    if not wanted:
        yield None
        return
    if not sys.stderr.isatty():

        def plainly(done: int, total: int, last: Done | None) -> None:
            if last is None or done == total or done % max(1, total // 20) == 0:
                note(f"softmrc sim sweep: {done} of {total} runs")

        yield plainly
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("sweep"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("sweep", total=None)
        yield lambda done, total, last: bar.update(task, completed=done, total=total)
