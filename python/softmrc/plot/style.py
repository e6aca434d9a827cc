"""How all figures look, and how they are saved.

Colours are Okabe and Ito's, told apart with every common kind of colour blindness, and lines differ in their dashes,
too. Legends stand beside the data. Saved twice, a figure has the same bytes: no dates, no random ids.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softmrc.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLORS", "FORMATS", "INCIDENT", "figure", "legend", "line_look", "save", "shade", "time_axis"]

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
INCIDENT = "#B22222"
FORMATS = (".svg", ".png", ".pdf")
_LEGEND_ROWS = 24

_LOOK: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.fonttype": "none",
    "svg.hashsalt": "softmrc",
    "savefig.dpi": 150,
}


def figure(
    rows: int = 1, columns: int = 1, *, width: float = 9.0, height: float = 3.6
) -> tuple[Figure, list[Any]]:
    """Return a new figure and its axes, row by row.

    Args:
        rows: of axes, above one another, sharing their x axis where there is one column.
        columns: of axes.
        width: of the figure, inches.
        height: of each row, inches.

    Raises:
        UsageError: matplotlib is not installed.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure as NewFigure
    except ImportError:
        raise UsageError("figures need matplotlib: pip install 'softmrc[plot]'") from None
    with matplotlib.rc_context(_LOOK):
        made = NewFigure(figsize=(width, height * rows + 0.4), layout="constrained")
        axes = made.subplots(rows, columns, squeeze=False, sharex=columns == 1)
    return made, list(axes.flat)


def line_look(index: int) -> dict[str, Any]:
    """Return colour and dashes of the line with this number; 32 of them differ."""
    return {"color": COLORS[index % len(COLORS)], "linestyle": DASHES[index // len(COLORS) % len(DASHES)]}


def legend(axes: Axes, title: str = "") -> None:
    """Put the legend to the right of the data; of very many lines the first ones."""
    handles, labels = axes.get_legend_handles_labels()
    if not handles:
        return
    if len(handles) > _LEGEND_ROWS:
        more = len(handles) - _LEGEND_ROWS
        handles, labels = handles[:_LEGEND_ROWS], labels[:_LEGEND_ROWS]
        title = f"{title} (and {more} more)".strip()
    axes.legend(
        handles,
        labels,
        title=title or None,
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0.0,
        frameon=False,
        fontsize=8,
    )


def time_axis(end_ns: float) -> tuple[float, str]:
    """Return the factor from ns and the unit that make times up to `end_ns` easy to read."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if end_ns >= 2 * size:
            return 1.0 / size, unit
    return 1.0, "ns"


def shade(axes: Axes, windows: Sequence[tuple[float, float, str]]) -> None:
    """Shade times during which something was broken; each window has a start, an end and a name."""
    for start, end, name in windows:
        axes.axvspan(start, end, color=INCIDENT, alpha=0.12, linewidth=0, label=name or None)
        axes.axvline(start, color=INCIDENT, linewidth=0.8)


def save(made: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure; the ending of the name decides the format.

    Raises:
        UsageError: an ending other than .svg, .png or .pdf, or a place that cannot be written.
    """
    import matplotlib

    file = Path(path)
    if file.suffix not in FORMATS:
        raise UsageError(f"{file}: figures are {', '.join(FORMATS)}; end the name with one of them")
    dateless = {".svg": {"Date": None}, ".png": {"Software": None}, ".pdf": {"CreationDate": None}}[
        file.suffix
    ]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context(_LOOK):
            made.savefig(file, metadata=dateless)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}; name another place") from None
    return file
