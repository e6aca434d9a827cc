"""`softmrc bench sim`: the simulator's speed, memory and completion times, beside htsim's."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from softmrc.cli.output import FAILED, INTERRUPTED, note, put_json

if TYPE_CHECKING:
    from softmrc.bench.sim import CaseRuns
    from softmrc.bench.table import RowResult

__all__ = ["bench_sim"]


def bench_sim(
    *, only: str, repeat: int | None, quick: bool, rows: bool, htsim: str | None, json: bool
) -> None:
    """Measure, print rows and the figures of every case, and end with the exit code that fits.

    Raises:
        UsageError: a case or a program that does not exist.
        BenchError: a simulation failed.
        typer.Exit: a row misses its target (with `quick`: one that is not about speed), or the measurement was
            interrupted.
    """
    from softmrc.bench.sim import choose_cases, measure, rows_of

    cases = choose_cases([name.strip() for name in only.split(",") if name.strip()], quick)
    if rows:
        _list([case.name for case in cases], [case.target for case in cases], json)
        return
    measured: list[CaseRuns] = []
    interrupted = False
    try:
        measure(
            cases,
            repeat=repeat or (1 if quick else 3),
            htsim=htsim,
            say=_say,
            done=lambda runs: _done(runs, measured, json),
        )
    except KeyboardInterrupt:
        interrupted = True
    judged = rows_of(measured)
    if json:
        put_json(
            {
                "partial": interrupted,
                "quick": quick,
                "rows": [row.to_json() for row in judged],
                "runs": [runs.to_json() for runs in measured],
            }
        )
    else:
        typer.echo("\n".join(["", *(_line(row) for row in judged)]))
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    # One short run says nothing about speed.
    if any(row.ok is False for row in judged if not (quick and row.sense == ">=")):
        raise typer.Exit(FAILED)


def _say(text: str) -> None:
    if sys.stderr.isatty():
        note(f"  {text}")


def _done(runs: CaseRuns, measured: list[CaseRuns], json: bool) -> None:
    measured.append(runs)
    made = runs.to_json()
    faster = f"   {made['speedup_vs_htsim']:g} x htsim" if "speedup_vs_htsim" in made else ""
    line = (
        f"{made['name']:16} {made['data_packets_per_s']:>10,} data packets/s   {made['peak_rss_mib']:>7,.0f} MiB   "
        f"{_busy(made['cpu_share'])}{_times(made['completion_us'])}{faster}"
    )
    if "completion_alike_us" in made:
        line += f"\n{'':16} on switches like htsim's: {_times(made['completion_alike_us'])}"
    (note if json else typer.echo)(line)


def _times(us: dict[str, float]) -> str:
    return f"p50 {us['p50']:g}  p99 {us['p99']:g}  max {us['max']:g} us"


def _busy(share: float) -> str:
    return f"with {share:.0%} of a core   " if share < 0.9 else ""


def _line(row: RowResult) -> str:
    mark = "ok" if row.ok else "MISS"
    return f"{mark:4}  {row.name:26} {row.value:<10g} {row.sense} {row.target:g}   {row.about}"


def _list(names: list[str], targets: list[float | None], json: bool) -> None:
    if json:
        put_json(
            {"rows": [{"name": n, "target": t, "sense": ">="} for n, t in zip(names, targets, strict=True)]}
        )
        return
    for name, target in zip(names, targets, strict=True):
        typer.echo(
            f"{name:16}" + (f" >= {target:,.0f} data packets/s" if target else " for the growth of cost")
        )
