"""One simulation of a study, and how many of them are spread over processes.

A cell is a function of this package with plain arguments that returns plain numbers. Equal cells are run once,
whichever studies ask for them, and the number of processes changes nothing but the time it takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Cell", "CellError", "Measured", "run_cells"]

Measured = Mapping[str, Any]
"""What a cell returns: numbers, and lists of numbers."""


@dataclass(frozen=True)
class Cell:
    """One simulation.

    Attributes:
        key: Name, unique over all studies; equal keys must mean equal runs.
        run: A module-level function that runs it.
        args: Keyword arguments of the function, plain values.
        cost: Packets it moves, in millions, roughly: the dearest are started first.
    """

    key: str
    run: Callable[..., Measured]
    args: tuple[tuple[str, Any], ...]
    cost: float = 0.1

    @classmethod
    def of(cls, key: str, run: Callable[..., Measured], cost: float = 0.1, **args: Any) -> Cell:
        """Build a cell from keyword arguments."""
        return cls(key, run, tuple(sorted(args.items())), cost)


@dataclass(frozen=True)
class CellError:
    """A cell that raised.

    Attributes:
        key: Which.
        why: Type and text of the error.
    """

    key: str
    why: str


def run_cells(
    cells: Iterable[Cell],
    jobs: int,
    progress: Callable[[int, int, float, float, str], None] | None = None,
) -> tuple[dict[str, Measured], list[CellError], dict[str, float], bool]:
    """Run every distinct cell; an interrupt (Ctrl-C) ends it with what was done by then.

    Args:
        cells: What to run; repeated keys are run once.
        jobs: Processes, at least 1.
        progress: Told after each cell: cells done, cells in all, cost done, cost in all, the cell's key.

    Returns:
        Measurements by key, the cells that failed, the computing seconds of each, and whether it was interrupted.
    """
    distinct = {cell.key: cell for cell in cells}
    order = sorted(distinct.values(), key=lambda cell: (-cell.cost, cell.key))
    total = sum(cell.cost for cell in order)
    results: dict[str, Measured] = {}
    errors: list[CellError] = []
    seconds: dict[str, float] = {}
    spent, interrupted = 0.0, False
    try:
        for done, (cell, found, took) in enumerate(_each(order, jobs), start=1):
            seconds[cell.key] = took
            spent += cell.cost
            if isinstance(found, CellError):
                errors.append(found)
            else:
                results[cell.key] = found
            if progress is not None:
                progress(done, len(order), spent, total, cell.key)
    except KeyboardInterrupt:
        interrupted = True
    return results, sorted(errors, key=lambda error: error.key), seconds, interrupted


def _each(order: Sequence[Cell], jobs: int) -> Iterable[tuple[Cell, Measured | CellError, float]]:
    if jobs == 1 or len(order) < 2:
        for cell in order:
            yield _one(cell)
        return
    from joblib import Parallel, delayed

    pool = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch=jobs + 1)
    yield from pool(delayed(_one)(cell) for cell in order)


def _one(cell: Cell) -> tuple[Cell, Measured | CellError, float]:
    began = time.process_time()
    try:
        found: Measured | CellError = cell.run(**dict(cell.args))
    except Exception as error:
        found = CellError(cell.key, f"{type(error).__name__}: {error}")
    return cell, found, time.process_time() - began
