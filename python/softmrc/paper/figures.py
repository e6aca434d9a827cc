"""The paper's figures with its digitised points beside ours (matplotlib).

Each function draws one figure from the curves of a report; figures whose targets were not run are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from softmrc.paper import digitised
from softmrc.paper.params import PARAMS

__all__ = ["draw"]

# Okabe-Ito: told apart by people who see fewer colours.
BLUE, ORANGE, GREEN, RED, PURPLE, BLACK, SKY = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#222222", "#56B4E9",
)  # fmt: skip

Curves = Mapping[str, Mapping[str, Any]]


def draw(curves: Curves, folder: Path) -> list[Path]:
    """Draw every figure whose targets are there.

    Args:
        curves: Series by target, as `Report.curves` gives them.
        folder: Where the PNG files go; it exists.

    Returns:
        The files written.

    Raises:
        ImportError: matplotlib is not installed (extra "plot").
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    written = []
    for name, needs, paint, size in _FIGURES:
        if not any(curves.get(target) for target in needs):
            continue
        figure, axes = pyplot.subplots(
            *size, figsize=(6.2 * size[1], 3.9 * size[0]), layout="constrained", squeeze=False
        )
        paint(axes, curves)
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=110)
        pyplot.close(figure)
        written.append(path)
    return written


def _finish(axis: Any, title: str, x: str, y: str) -> None:
    axis.set_title(title, fontsize=10)
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.grid(alpha=0.25)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)


def _victim(axes: Any, curves: Curves) -> None:
    axis = axes[0][0]
    window_us = PARAMS.window_packets * PARAMS.mtu * 8 / 400 / 1e3
    colours = {"mrc1": BLUE, "mrc8": SKY, "dcqcn1": ORANGE, "dcqcn8": RED, "pfc1": GREEN, "pfc8": BLACK}
    names = {"mrc": "MRC", "dcqcn": "RoCE PFC + DCQCN", "pfc": "RoCE PFC"}
    for target in ("R2", "R4", "R3"):
        for key, series in curves.get(target, {}).items():
            times = [(n + 1) * window_us / 8 / 1e3 for n in range(len(series))]
            label = f"{names[key[:-1]]}, {key[-1]} QP: ours"
            axis.plot(times, series, color=colours[key], linewidth=1, label=label)
            mean = digitised.FIG18_VICTIM[key][0]
            axis.axhline(
                mean, color=colours[key], linestyle=":", linewidth=1.2, label=f"paper, mean {mean:g}"
            )
    axis.set_ylim(0, 420)
    _finish(axis, "Figs 18, 21: victim of a 7-to-1 incast", "simulated ms", "victim, Gb/s")


def _permutation(axes: Any, curves: Curves) -> None:
    found = curves["R5"]
    for column, (key, name) in enumerate(
        (("pfc1", "RoCE PFC, 1 QP"), ("pfc8", "RoCE PFC, 8 QPs"), ("mrc1", "MRC, 1 QP"))
    ):
        axis = axes[0][column]
        paper = sorted(digitised.FIG20_FLOWS[key])
        places = range(len(paper))
        axis.bar([p - 0.2 for p in places], [v / 392 for v in paper], 0.4, color=ORANGE, label="paper")
        axis.bar([p + 0.2 for p in places], found[key], 0.4, color=BLUE, label="ours, one seed")
        axis.set_ylim(0, 1.1)
        _finish(axis, f"Fig 20: {name}", "flow, slowest first", "of line")


def _collective(
    name: str, paper: Mapping[tuple[str, float], tuple[float, ...]]
) -> Callable[[Any, Curves], None]:
    labels = {"mrc": ("MRC, 1 QP", BLUE), "roce1": ("RoCE, 1 QP", ORANGE), "roce16": ("RoCE, 16 QPs", GREEN)}

    def paint(axes: Any, curves: Curves) -> None:
        targets = ("R9", "R10") if name == "allreduce" else ("R11",)
        merged = {key: value for target in targets for key, value in curves.get(target, {}).items()}
        for column, loss in enumerate((0, 0.1, 1)):
            axis = axes[0][column]
            for kind, (label, colour) in labels.items():
                axis.plot(digitised.SIZES_MB, paper[kind, loss], ":", color=colour, label=f"{label}: paper")
                points = merged.get(f"{name}/{kind}/{loss:g}", [])
                axis.plot(
                    [p[0] for p in points],
                    [p[1] for p in points],
                    "o-",
                    ms=4,
                    color=colour,
                    label=f"{label}: ours",
                )
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            _finish(axis, f"{name}, {loss:g} % loss", "MB", "bus bandwidth, Gb/s")

    return paint


def _ports(axes: Any, curves: Curves) -> None:
    found = curves["R8"]
    axis = axes[0][0]
    start = found["ports_plateaus"][0]
    up = list(range(8, 1, -1))
    axis.plot(
        up, [digitised.FIG9A_GBPS[n] / digitised.FIG9A_GBPS[8] for n in up], "s:", color=ORANGE, label="paper"
    )
    axis.plot(up, [found["ports_plateaus"][8 - n] / start for n in up], "o-", color=BLUE, label="ours")
    axis.invert_xaxis()
    _finish(axis, "Fig 9a: NIC ports up", "ports up", "of start")
    axis = axes[0][1]
    series = found["ports_steps"]
    axis.plot([n * 0.05 for n in range(len(series))], series, color=BLUE, linewidth=1)
    _finish(axis, "Ports down one by one, then restored", "simulated ms", "both ways, Gb/s")


def _uplinks(axes: Any, curves: Curves) -> None:
    texts = {"a": "20 uplinks one by one", "b": "8 at once, restored", "c": "one T1, restored"}
    paper = {"a": 0.991, "b": 0.96, "c": 0.983}
    for column, (case, text) in enumerate(texts.items()):
        axis = axes[0][column]
        bins = curves["R7"][f"uplinks_{case}"]
        base = sum(bins[1:3]) / 2
        axis.step(range(len(bins)), [b / base for b in bins], where="mid", color=BLUE, label="ours")
        axis.axhline(paper[case], linestyle=":", color=ORANGE, label=f"paper, worst {paper[case]}")
        axis.set_ylim(0.9, 1.02)
        _finish(axis, f"Figs 9, 11: {text}", "bin", "of before")


def _ramp(axes: Any, curves: Curves) -> None:
    found, axis = curves["R15"], axes[0][0]
    dead = found["ramp_dead"]
    axis.plot([n * 0.1 for n in range(len(dead))], [max(d, 0.5) for d in dead], color=BLUE, label="ours")
    axis.set_yscale("log")
    _finish(axis, "Ours: start with 3 % dead links", "simulated ms", "losses per 100 us")
    axis = axes[0][1]
    axis.plot(
        [n * 0.5 for n in range(len(digitised.FIG4_LOSSES_PER_S))],
        digitised.FIG4_LOSSES_PER_S,
        "s:",
        color=ORANGE,
    )
    axis.set_yscale("log")
    _finish(axis, "Fig 4: start of a 75 K GPU job", "minutes (30 s samples)", "losses a second")


def _job(axes: Any, curves: Curves) -> None:
    found, axis = curves["R16"], axes[0][0]
    axis.step(range(len(found["job_t1"])), found["job_t1"], where="mid", color=BLUE, label="ours")
    before, bad, after = digitised.FIG8_JOB_PBPS
    axis.plot([2, 3, 4], [1, bad / before, after / before], "s:", color=ORANGE, label="paper")
    axis.axvspan(2.5, 7.5, alpha=0.12, color=RED, label="T1 drops all")
    _finish(axis, "Fig 8: job rate while a T1 drops silently", "interval", "of the clean run")
    axis = axes[0][1]
    drops = found["job_drops"]
    axis.bar(range(len(drops)), drops, color=BLUE)
    _finish(axis, "Packets lost", "interval", "packets")


def _two_evs(axes: Any, curves: Curves) -> None:
    axis = axes[0][0]
    for key, colour in (("ecn_pair1", BLUE), ("ecn_pair2", ORANGE)):
        series = curves["R12"][key]
        axis.plot([n * 0.05 for n in range(len(series))], series, color=colour, label=f"pair {key[-1]}: ours")
    _finish(axis, "Fig 14: pair 2 joins on EV-A at 2 ms", "simulated ms", "Gb/s")


def _spines(axes: Any, curves: Curves) -> None:
    axis, series = axes[0][0], curves["R13"]["spines_b"]
    axis.plot([n * 0.1 for n in range(len(series))], series, color=BLUE, label="ours")
    for level in digitised.FIG19B_GBPS:
        axis.axhline(level, linestyle=":", color=ORANGE, linewidth=1)
    _finish(axis, "Fig 19b: uplinks of NIC/4 fail (dotted: paper)", "simulated ms", "Gb/s")


def _lossy(axes: Any, curves: Curves) -> None:
    axis, bins = axes[0][0], curves["R6"]["bins_20"]
    axis.step(range(len(bins)), [b / bins[2] for b in bins], where="mid", color=BLUE, label="ours")
    axis.axhline(1.0, linestyle=":", color=ORANGE, label="paper")
    axis.set_ylim(0.9, 1.02)
    _finish(axis, "Figs 12, 13: one EV loses 20 % from 3 ms on", "simulated ms", "of before")


_FIGURES: tuple[tuple[str, tuple[str, ...], Callable[[Any, Curves], None], tuple[int, int]], ...] = (
    ("fig18_21_victim", ("R2", "R3", "R4"), _victim, (1, 1)),
    ("fig20_permutation", ("R5",), _permutation, (1, 3)),
    ("fig16_allreduce", ("R9", "R10"), _collective("allreduce", digitised.FIG16_ALLREDUCE), (1, 3)),
    ("fig17_alltoall", ("R11",), _collective("alltoall", digitised.FIG17_ALLTOALL), (1, 3)),
    ("fig9_ports", ("R8",), _ports, (1, 2)),
    ("fig9_11_uplinks", ("R7",), _uplinks, (1, 3)),
    ("fig4_start", ("R15",), _ramp, (1, 2)),
    ("fig8_silent_t1", ("R16",), _job, (1, 2)),
    ("fig14_ecn", ("R12",), _two_evs, (1, 1)),
    ("fig19_spines", ("R13",), _spines, (1, 1)),
    ("fig12_13_lossy_ev", ("R6",), _lossy, (1, 1)),
)
