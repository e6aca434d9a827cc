"""Where a testbed report goes: JSON, page, curves, and figures with the paper's values beside ours."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softmrc.errors import UsageError
from softmrc.lab.flows import BIN_MS
from softmrc.plot import style

if TYPE_CHECKING:
    from softmrc.paper.report import Report

__all__ = ["draw_bed", "store_bed"]

Curves = Mapping[str, Mapping[str, Any]]
_SMOOTH = 5  # bins of a curve that are drawn as one point
_PAPER_PORTS = (1.0, 0.871, 0.748, 0.622, 0.500, 0.371, 0.250)
_OURS, _THEIRS = {"color": style.COLORS[0]}, {"color": style.COLORS[1], "linestyle": ":"}


def store_bed(report: Report, folder: Path) -> tuple[list[Path], str]:
    """Write lab-paper.json, lab-paper.md, curves.json and the figures.

    Args:
        report: what to write.
        folder: it exists.

    Returns:
        The files, and why there are no figures ("" when there are).
    """
    files = [folder / name for name in ("lab-paper.json", "lab-paper.md", "curves.json")]
    files[0].write_text(json.dumps(report.as_dict(), indent=1) + os.linesep)
    files[1].write_text(report.markdown())
    files[2].write_text(json.dumps(report.curves()) + os.linesep)
    try:
        return [*files, *draw_bed(report.curves(), folder)], ""
    except UsageError as error:
        return files, f"no figures: {error}"


def draw_bed(curves: Curves, folder: Path, suffix: str = ".png") -> list[Path]:
    """Draw every figure whose curves are there, and return the files.

    Raises:
        UsageError: matplotlib is not installed.
    """
    written = []
    for target, name, paint in _FIGURES:
        if not curves.get(target):
            continue
        made, (axes,) = style.figure(width=8.0, height=3.6)
        paint(axes, curves[target])
        style.legend(axes)
        written.append(style.save(made, folder / f"{name}{suffix}"))
    return written


def _over_time(axes: Any, bins: Sequence[float], label: str, **look: Any) -> None:
    points = [sum(bins[i : i + _SMOOTH]) / _SMOOTH for i in range(0, len(bins) - _SMOOTH + 1, _SMOOTH)]
    times = [(i + 0.5) * _SMOOTH * BIN_MS / 1e3 for i in range(len(points))]
    axes.plot(times, points, label=label, linewidth=1.3, **look)
    axes.set_xlabel("seconds")
    axes.set_ylabel(f"goodput, of before ({_SMOOTH * BIN_MS} ms)")
    axes.set_ylim(bottom=0)


def _permutation(axes: Any, found: Mapping[str, Any]) -> None:
    places = range(len(found["sprayed"]))
    axes.bar([p - 0.2 for p in places], found["sprayed"], 0.4, label="all paths", color=style.COLORS[0])
    axes.bar([p + 0.2 for p in places], found["single"], 0.4, label="one path each", color=style.COLORS[4])
    axes.axhline(0.62, label="paper: ECMP mean", **_THEIRS)
    axes.set_title("R5: permutation across four spines, one draw")
    axes.set_xlabel("flow, slowest first")
    axes.set_ylabel("of line")


def _lossy(axes: Any, found: Mapping[str, Any]) -> None:
    for number, (name, bins) in enumerate(found.items()):
        _over_time(axes, bins, f"{name.removeprefix('bins_')} % lost", **style.line_look(number))
    axes.axhline(1.0, label="paper", **_THEIRS)
    axes.set_title("R6: one of 16 EVs loses packets from 1.5 s on")


def _links(axes: Any, found: Mapping[str, Any]) -> None:
    _over_time(axes, found["bins"], "ours", **_OURS)
    axes.axhline(0.983, label="paper: worst with a dead T1", **_THEIRS)
    axes.set_title("R7: uplinks one by one, several at once, a T1")


def _ports(axes: Any, found: Mapping[str, Any]) -> None:
    axes.plot(range(8, 0, -1), found["plateaus"], "o-", label="ours", **_OURS)
    axes.plot(range(8, 1, -1), _PAPER_PORTS, "s", label="paper", **_THEIRS)
    axes.invert_xaxis()
    axes.set_title("R8: ports of a NIC that are up")
    axes.set_xlabel("ports up")
    axes.set_ylabel("of start")


def _spines(axes: Any, found: Mapping[str, Any]) -> None:
    _over_time(axes, found["bins"], "ours", **_OURS)
    for level in (0.745, 0.497, 0.247):
        axes.axhline(level, label="paper" if level == 0.745 else None, **_THEIRS)
    axes.set_title("R13: uplinks of a quarter of the NIC fail one by one")


def _job(axes: Any, found: Mapping[str, Any]) -> None:
    rates = found["rates"]
    axes.step(range(len(rates)), rates, where="mid", label="ours", **_OURS)
    axes.plot([2, 3], [0.81, 0.986], "s", label="paper", **_THEIRS)
    style.shade(axes, [(1.5, len(rates) - 1.5, "T1 drops everything")])
    axes.set_title("R16: a job while a T1 drops everything silently")
    axes.set_xlabel("interval")
    axes.set_ylabel("job rate, of before")
    axes.set_ylim(bottom=0)


_FIGURES: tuple[tuple[str, str, Callable[[Any, Mapping[str, Any]], None]], ...] = (
    ("R5", "lab_permutation", _permutation),
    ("R6", "lab_lossy_ev", _lossy),
    ("R7", "lab_uplinks", _links),
    ("R8", "lab_ports", _ports),
    ("R13", "lab_spines", _spines),
    ("R16", "lab_silent_t1", _job),
)
