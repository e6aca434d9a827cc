"""Figures with time on the x axis: goodput, queues, EVs, links, steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from softmrc.plot import style
from softmrc.plot.source import Source

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ev", "goodput", "heat", "queues", "steps"]

_FLOWS_SHOWN = 32
_EVS_SHOWN = 40
_STATE_LOOK = {
    "GOOD": ("o", style.COLORS[2]),
    "ASSUMED_BAD": ("x", style.COLORS[1]),
    "SKIP": ("v", style.COLORS[4]),
    "DENIED": ("s", style.COLORS[6]),
}


def _stairs(axes: Any, source: Source, values: Any, scale: float, label: str, index: int) -> None:
    edges = np.concatenate(([0.0], source.times_ns)) * scale
    axes.stairs(values, edges, baseline=None, label=label, linewidth=1.3, **style.line_look(index))


def goodput(source: Source) -> Figure:
    """Draw goodput of the watched flows, or else of the groups, and below it of the planes."""
    flows = source.gbps("flow_bytes")
    upper = flows or source.gbps("group_bytes")
    planes = source.gbps("plane_bytes")
    made, axes = style.figure(2 if planes else 1)
    scale, unit = style.time_axis(float(source.times_ns[-1]))
    for axis, table, what in zip(
        axes, (upper, planes), ("flow" if flows else "group", "plane"), strict=False
    ):
        for i, (name, values) in enumerate(list(table.items())[:_FLOWS_SHOWN]):
            _stairs(axis, source, values, scale, name, i)
        style.shade(axis, source.incidents(scale))
        axis.set_ylabel(f"goodput by {what} (Gb/s)")
        axis.set_ylim(bottom=0)
        style.legend(axis)
    axes[-1].set_xlabel(f"simulated time ({unit})")
    made.suptitle(source.title)
    return made


def queues(source: Source) -> Figure:
    """Draw the depth of the watched links' queues: the deepest within each interval, and at its end."""
    deepest, sampled = source.series("link_max_queue"), source.series("link_queue_bytes")
    made, axes = style.figure()
    scale, unit = style.time_axis(float(source.times_ns[-1]))
    for i, name in enumerate(deepest or sampled):
        if deepest:
            _stairs(axes[0], source, deepest[name] / 1e3, scale, f"{name}, deepest", i)
        if name in sampled:
            look = {**style.line_look(i), "linestyle": ":" if deepest else "-"}
            axes[0].plot(
                source.times_ns * scale, sampled[name] / 1e3, linewidth=1, label=f"{name}, sampled", **look
            )
    style.shade(axes[0], source.incidents(scale))
    axes[0].set_ylabel("queue (kB)")
    axes[0].set_xlabel(f"simulated time ({unit})")
    axes[0].set_ylim(bottom=0)
    style.legend(axes[0])
    made.suptitle(source.title)
    return made


def _ev_rows(source: Source) -> list[dict[str, Any]]:
    table = source.table("ev_events")
    if not table:
        return list((source.document.get("paths") or {}).get("first", []))
    names = list(table)
    return [dict(zip(names, row, strict=True)) for row in zip(*table.values(), strict=True)]


def ev(source: Source) -> Figure:
    """Draw when EVs changed their state: a row for each EV, or, of very many, a count by plane."""
    rows = _ev_rows(source)
    made, axes = style.figure(height=4.2)
    end = float(source.document["sim_ns"])
    scale, unit = style.time_axis(end)
    keys = sorted({(r["host"], r["peer"], r["qp"], r["plane"], r["tag"]) for r in rows})
    if len(keys) <= _EVS_SHOWN:
        place = {key: i for i, key in enumerate(keys)}
        for state in sorted({str(r["state"]) for r in rows}):
            mine = [r for r in rows if str(r["state"]) == state]
            marker, color = _STATE_LOOK.get(state.upper(), ("d", style.COLORS[5]))
            at = [place[r["host"], r["peer"], r["qp"], r["plane"], r["tag"]] for r in mine]
            axes[0].scatter(
                [r["at_ns"] * scale for r in mine], at, marker=marker, color=color, s=26, label=state
            )
        axes[0].set_yticks(
            range(len(keys)), [f"h{h}-h{p} qp {q} plane {n} ev {t:x}" for h, p, q, n, t in keys]
        )
        axes[0].tick_params(axis="y", labelsize=7)
        axes[0].set_ylabel("EV")
    else:
        planes = sorted({r["plane"] for r in rows})
        bins = np.linspace(0, end * scale, 101)
        data = [[r["at_ns"] * scale for r in rows if r["plane"] == plane] for plane in planes]
        colors = [style.COLORS[i % len(style.COLORS)] for i in range(len(planes))]
        axes[0].hist(
            data, bins=bins, stacked=True, color=colors, label=[f"plane {plane}" for plane in planes]
        )
        axes[0].set_ylabel("EVs that changed state, in 1 % of the run")
    style.shade(axes[0], source.incidents(scale))
    axes[0].set_xlim(0, end * scale)
    axes[0].set_xlabel(f"simulated time ({unit})")
    style.legend(axes[0])
    made.suptitle(source.title)
    return made


def heat(source: Source) -> Figure:
    """Draw how busy the watched links were over time, each as a share of its own busiest interval."""
    rates = source.gbps("link_bytes")
    names = list(rates)
    table = np.array([rates[name] for name in names])
    made, axes = style.figure(height=max(2.4, 0.22 * len(names) + 1.0))
    scale, unit = style.time_axis(float(source.times_ns[-1]))
    edges = np.concatenate(([0.0], source.times_ns)) * scale
    image = axes[0].pcolormesh(
        edges, np.arange(len(names) + 1), table, cmap="cividis", vmin=0.0, rasterized=True
    )
    axes[0].set_yticks(np.arange(len(names)) + 0.5, names)
    axes[0].tick_params(axis="y", labelsize=7)
    axes[0].grid(visible=False)
    axes[0].set_xlabel(f"simulated time ({unit})")
    made.colorbar(image, ax=axes[0], label="sent (Gb/s)")
    made.suptitle(source.title)
    return made


def steps(source: Source) -> Figure:
    """Draw the rate of a synchronous job step by step, its incidents shaded."""
    made, axes = style.figure()
    section = source.document["steps"]
    edges = np.array([section["begin_ns"], *section["end_ns"]], np.float64)
    scale, unit = style.time_axis(float(edges[-1]))
    lengths = np.diff(edges)
    rates = np.divide(1e9, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    axes[0].stairs(rates, edges * scale, fill=True, alpha=0.25, color=style.COLORS[0])
    axes[0].stairs(rates, edges * scale, color=style.COLORS[0], linewidth=1.4, label="job")
    normal = (source.document.get("cost") or {}).get("baseline")
    if normal:
        axes[0].axhline(
            normal, color=style.COLORS[6], linewidth=0.9, linestyle="--", label="before the incidents"
        )
    style.shade(axes[0], source.incidents(scale))
    axes[0].set_ylim(bottom=0)
    axes[0].set_ylabel("job rate (steps/s)")
    axes[0].set_xlabel(f"simulated time ({unit})")
    style.legend(axes[0])
    made.suptitle(source.title)
    return made
