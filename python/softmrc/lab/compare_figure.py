"""One figure of a comparison: goodput over time of every kind of transfer, the failure shaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from softmrc.plot import style

if TYPE_CHECKING:
    from softmrc.lab.compare import Result

__all__ = ["draw_comparison"]

_BIN_S = 0.1
_NAMES = {
    "softmrc": "softmrc, trimming",
    "softmrc-notrim": "softmrc, no trimming",
    "tcp": "TCP, one connection",
    "mptcp": "MPTCP, a subflow a plane",
}


def draw_comparison(result: Result, file: Path) -> Path:
    """Draw it and return the file.

    Args:
        result: with at least one run.
        file: its ending decides the format (.svg, .png, .pdf).

    Raises:
        UsageError: matplotlib is missing, or the file cannot be written.
    """
    made, (axes,) = style.figure(width=9.6, height=4.2)
    shaded = False
    for number, run in enumerate(result.runs):
        course = run.course
        if course is None:
            continue
        bins = course.goodput.wider(_BIN_S)
        counts = bins.counts[:-1]  # in the last one the transfer ended
        times = [(i + 0.5) * bins.width for i in range(len(counts))]
        rates = [n * 8 / bins.width / 1e6 for n in counts]
        stall = f"{course.stall() * 1e3:.0f} ms"
        label = f"{_NAMES[run.kind]}\n{course.mean() / 1e6:.0f} Mbit/s, stall {stall}"
        axes.plot(times, rates, label=label, linewidth=1.6, **style.line_look(number))
        if not shaded and course.outages:
            shaded = True
            zero = course.goodput.start
            style.shade(axes, [(o.begin - zero, o.end - zero, o.what) for o in course.outages])
    axes.axhline(
        result.capacity / 1e6, color="#888888", linewidth=0.8, linestyle=(0, (2, 2)), label="sum of planes"
    )
    planes, rate = result.lab["planes"], result.lab["rate_bps"] / 1e6
    axes.set_title(f"{planes} planes of {rate:g} Mbit/s: goodput while {result.cut.target} fails and returns")
    axes.set_xlabel("seconds since the transfer began")
    axes.set_ylabel(f"goodput, Mbit/s ({_BIN_S * 1e3:.0f} ms bins)")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    style.legend(axes)
    return style.save(made, file)
