"""Runs the studies of the chosen targets and turns their measurements into a report."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from softmrc.errors import UsageError
from softmrc.paper.cell import Cell, CellError, Measured, run_cells
from softmrc.paper.params import FULL, QUICK, Effort
from softmrc.paper.report import Entry, Report
from softmrc.paper.study import Study
from softmrc.paper.targets import Target

__all__ = ["Progress", "run_paper", "studies"]

Progress = Callable[[int, int, float, float, str], None]
"""Cells done, cells in all, work done, work in all, the name of the last cell."""

_MAX_SEEDS = 1000


def studies() -> dict[str, Study]:
    """Return every study by the target it answers."""
    from softmrc.paper import (
        arithmetic,
        classify,
        collectives,
        ecn,
        gains,
        incast,
        job,
        links,
        lossy_path,
        permutation,
        planes,
        ports,
        ramp,
        reverse,
    )

    rooms = (arithmetic, classify, collectives, ecn, gains, incast, job, links, lossy_path, permutation, planes, ports,
             ramp, reverse)  # fmt: skip
    return {study.id: study for room in rooms for study in room.STUDIES}


def run_paper(
    targets: Sequence[Target],
    *,
    quick: bool = False,
    seeds: int | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Run the studies of some targets.

    Args:
        targets: What to reproduce.
        quick: The small sizes and few seeds that answer within ten minutes on two cores.
        seeds: Seeds of scenarios with hashing, 1 to 1000; None is the effort's own.
        jobs: Processes; None is one a core.
        progress: Told after each simulation.

    Returns:
        The report; `partial` when it was interrupted, with what was complete by then.

    Raises:
        UsageError: seeds or jobs out of range.
    """
    effort = QUICK if quick else FULL
    if seeds is not None:
        if not 1 <= seeds <= _MAX_SEEDS:
            raise UsageError(f"--seeds is 1 to {_MAX_SEEDS}, not {seeds}")
        effort = replace(effort, seeds=seeds, seeds_dear=max(1, min(seeds, effort.seeds_dear)))
    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs is at least 1, not {jobs}")
    began = time.monotonic()
    known = studies()
    wanted = [(target, known.get(target.id)) for target in targets]
    cells = {target.id: study.cells(effort) if study else [] for target, study in wanted}
    report = Report(effort.name, effort.seeds)
    every = [cell for group in cells.values() for cell in group]
    results, errors, seconds, report.partial = run_cells(
        every, jobs or len(os.sched_getaffinity(0)), progress
    )
    for target, study in wanted:
        report.entries.append(_entry(target, study, effort, cells[target.id], results, errors, seconds))
    report.seconds = time.monotonic() - began
    return report


def _entry(
    target: Target,
    study: Study | None,
    effort: Effort,
    cells: Sequence[Cell],
    results: Mapping[str, Measured],
    errors: Sequence[CellError],
    seconds: Mapping[str, float],
) -> Entry:
    if study is None:
        return Entry(target, None, target.skip or "no scenario of it is built")
    keys = {cell.key for cell in cells}
    failed = [error for error in errors if error.key in keys]
    if failed:
        words = "; ".join(f"{error.key} failed: {error.why}" for error in failed[:3])
        return Entry(target, None, words, failed=True)
    if not keys <= results.keys():
        return Entry(target, None, "interrupted before its simulations were done")
    own = {key: results[key] for key in keys}
    verdict = study.judge(effort, own)
    return Entry(target, verdict, seconds=sum(seconds[key] for key in keys))
