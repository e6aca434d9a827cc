"""What a running simulation shows: one line, once a second on a terminal, every ten seconds elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from softmrc.cli.output import note

if TYPE_CHECKING:
    from softmrc.sim.result.execute import Plan
    from softmrc.sim.run import Progress

__all__ = ["eta_s", "line_of", "phase", "showing", "summary_lines"]

_QUIET_S = 10.0


def eta_s(progress: Progress, until_ns: int | None, frames: int | None) -> float | None:
    """Return how many seconds are left, judged by the simulated time or the work to go; none if neither is known.

    The work is frames until as many have been sent as the payload needs; what comes then (packets sent again, the
    last ones on their way) is judged by the tasks that are open.
    """
    left = []
    if until_ns and progress.sim_ns:
        left.append(progress.wall_s * (until_ns - progress.sim_ns) / progress.sim_ns)
    if frames and 0 < progress.packets < frames:
        left.append(progress.wall_s * (frames - progress.packets) / progress.packets)
    elif frames and progress.packets and 0 < progress.tasks_done < progress.tasks_total:
        left.append(progress.wall_s * (progress.tasks_total - progress.tasks_done) / progress.tasks_done)
    return max(0.0, min(left)) if left else None


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _time(ns: float) -> str:
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if ns >= size:
            return f"{ns / size:.3f} {unit}"
    return f"{ns:.0f} ns"


def _left(seconds: float | None) -> str:
    if seconds is None:
        return "no end known"
    return f"{_clock(seconds)} left" if seconds >= 1 else "about to end"


def line_of(name: str, progress: Progress, until_ns: int | None, frames: int | None) -> str:
    """Return the line; what matters most comes first, as a narrow terminal cuts it."""
    wall = max(progress.wall_s, 1e-9)
    left = eta_s(progress, until_ns, frames)
    parts = [
        f"{name}: {_time(progress.sim_ns)} simulated",
        _left(left),
        f"{_clock(progress.wall_s)} gone",
        f"{_time(progress.sim_ns / wall)}/s",
        f"{progress.packets / wall / 1e3:,.0f} k frames/s",
        f"tasks {progress.tasks_done:,}/{progress.tasks_total:,}",
    ]
    return "  ".join(parts)


@contextmanager
def showing(plan: Plan, wanted: bool) -> Iterator[Callable[[Progress], None] | None]:
    """Give a function that shows progress on standard error; none if it is not wanted."""
    if not wanted:
        yield None
        return
    frames = plan.frames
    if not sys.stderr.isatty():
        last = [0.0]

        def plainly(progress: Progress) -> None:
            if progress.wall_s - last[0] >= _QUIET_S:
                last[0] = progress.wall_s
                note(line_of(plan.name, progress, plan.until_ns, frames))

        yield plainly
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:

        def lively(progress: Progress) -> None:
            live.update(Text(line_of(plan.name, progress, plan.until_ns, frames), no_wrap=True), refresh=True)

        yield lively


@contextmanager
def phase(text: str, wanted: bool) -> Iterator[None]:
    """Say on a terminal what is being done before or after the simulation itself."""
    if not wanted or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


def summary_lines(document: dict[str, Any]) -> list[str]:
    """Return the main figures of a result, a line each, for people."""
    tasks, times = document["tasks"], document["completion_us"]["all"]
    mark = f"  PARTIAL: stopped by {document['stopped']}" if document["partial"] else ""
    lines = [
        f"{document['name']}  {document['transport']}  seed {document['seed']}  {document['hosts']} hosts x "
        f"{document['planes']} planes{mark}",
        f"  simulated   {_time(document['end_ns'])}   tasks done {tasks['done']:,} of {tasks['total']:,}, "
        f"failed {tasks['failed']:,}",
    ]
    if times["count"]:
        lines.append(
            f"  completion  p50 {times['p50']:g}  p90 {times['p90']:g}  p99 {times['p99']:g}  "
            f"p99.9 {times['p99_9']:g}  max {times['max']:g} us   ({times['count']:,} flows)"
        )
    lines.append(f"  goodput     {document['goodput']['total_gbps']:,.1f} Gb/s")
    for group, rates in document["goodput"]["flows_gbps"].items():
        lines.append(
            f"    {group:<10} mean {rates['mean']:g}  min {rates['min']:g}  max {rates['max']:g} Gb/s a flow"
        )
    lines += _more_lines(document)
    return lines


def _more_lines(document: dict[str, Any]) -> list[str]:
    packets = document["packets"]
    shown = (
        "data_packets",
        "data_packets_rtx",
        "ecn_marks",
        "trims",
        "trims_last_hop",
        "drops_queue",
        "timeouts",
        "pfc_pauses",
    )
    lines = [
        "  packets     " + "  ".join(f"{k.replace('_', ' ')} {packets[k]:,}" for k in shown if k in packets)
    ]
    for kind, rates in ((document.get("collectives") or {}).get("busbw_gbps") or {}).items():
        lines.append(
            f"  {kind:<11} busbw p50 {rates['p50']:g}  min {rates['min']:g} Gb/s  ({rates['count']} operations)"
        )
    steps, cost = document.get("steps"), document.get("cost")
    if steps and steps["complete"]:
        lines.append(
            f"  steps       {steps['complete']} of {steps['total']}, p50 {steps['length_us']['p50']:g} us"
        )
    for row in (cost or {}).get("incidents", []):
        if "lost_s" not in row:
            continue
        what = ", ".join(f"{f['count']} x {f['kind']}" for f in row["faults"])
        lines.append(
            f"  incident    {_time(row['start_ns'])}: {what}: lost {row['lost_s']:g} s of the job = "
            f"{row['gpu_hours']:g} GPU-hours, {row['energy_kwh']:g} kWh, {row['usd']:g} USD"
        )
    clean = (cost or {}).get("versus_clean")
    if clean:
        lines.append(
            f"  all of them took {clean['lost_s']:g} s more than without = {clean['gpu_hours']:g} GPU-hours, "
            f"{clean['energy_kwh']:g} kWh, {clean['usd']:g} USD"
        )
    if cost and cost.get("note"):
        lines.append(f"  cost        {cost['note']}")
    timing = document.get("timing")
    if timing:
        lines.append(f"  took        {timing['wall_s']:g} s, {timing['data_packets_per_s']:,} data packets/s")
    return lines
