"""`softmrc sim run` and `softmrc sim list`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softmrc.cli.output import FAILED, INTERRUPTED, guard, need, note, put, put_json
from softmrc.cli.sim_options import Json, MemoryLimit, Out, Seed, Shown, Timing, WallLimit
from softmrc.cli.sim_progress import phase, showing, summary_lines
from softmrc.errors import UsageError

if TYPE_CHECKING:
    from softmrc.sim.result import Result
    from softmrc.sim.result.execute import Plan

__all__ = ["carry_out", "list_scenarios", "overrides_of", "run"]


def run(
    scenario: Annotated[str, typer.Argument(help="A built-in scenario's name, or a TOML file.")],
    transport: Annotated[
        str, typer.Option(help="As mrc, mrc:no-trimming, rocev2:16qp-nopfc, tcp:dctcp; docs/sim.md has all.")
    ] = "",
    seed: Seed = None,
    json: Json = False,
    out: Out = "",
    quick: Annotated[bool, typer.Option("--quick", help="The scenario's small variant.")] = False,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", help="Another value of the scenario: transport.qps=8; repeatable."),
    ] = None,
    wall_limit: WallLimit = None,
    memory_limit: MemoryLimit = None,
    clean: Annotated[
        bool, typer.Option("--clean", help="Run it without its incidents, too: their exact cost.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Watch the fabric's invariants all along.")] = False,
    progress: Shown = True,
    timing: Timing = True,
    plot: Annotated[
        bool, typer.Option("--plot/--no-plot", help="With --out: draw the standard figures.")
    ] = True,
) -> None:
    """Simulate a scenario on one core.

    One seed gives the same bytes every time (with --no-timing): of result.json, of the tables and of the figures.
    Interrupted or stopped by a limit, it prints and writes what it has, marked "partial".

    \b
    softmrc sim run two-hosts
    softmrc sim run incast-victim --transport rocev2:8qp-nodcqcn --seed 7 --out result
    softmrc sim run my.toml --set transport.qps=8 --set queues.trim_bytes=0 --json
    softmrc sim run full-131072 --quick --wall-limit 600

    Exit codes: 0 done, 1 tasks failed or stopped by a limit, 2 wrong use, 130 interrupted.
    """
    with guard("sim run", json):
        from softmrc.sim.result import prepare
        from softmrc.sim.result.execute import Limits, plan_of

        if out:
            prepare(out)
        from softmrc.sim.overrides import expanded, label_of
        from softmrc.sim.scenario import Scenario

        overrides = overrides_of(change or [], transport)
        with phase(f"{scenario}: making fabric and workload", progress):
            loaded = Scenario.load(scenario, overrides=expanded(overrides), quick=quick)
            plan = plan_of(loaded, seed=seed, quick=quick, label=label_of(overrides))
        plan = plan.within(Limits(wall_s=wall_limit, max_rss_mib=memory_limit))
        carry_out(
            plan, out=out, json=json, progress=progress, timing=timing, plot=plot, check=check, clean=clean
        )


def overrides_of(changes: list[str], transport: str) -> dict[str, Any]:
    """Return the values of `--set` by dotted key, and that of `--transport`.

    A value is read as TOML; what is no TOML is text, so that quotes are not needed.

    Raises:
        UsageError: a change is not KEY=VALUE.
    """
    made: dict[str, Any] = {}
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals or not key.strip() or key.startswith(".") or key.endswith("."):
            raise UsageError(f"--set takes KEY=VALUE, for instance transport.qps=8, not {change!r}")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text.strip()
        made[key.strip()] = value
    if transport:
        made["transport.name"] = transport
    return made


def carry_out(
    plan: Plan,
    *,
    out: str,
    json: bool,
    progress: bool,
    timing: bool,
    plot: bool,
    check: bool = False,
    clean: bool = False,
) -> None:
    """Run a plan, print and write its result, and end with the exit code that fits.

    Raises:
        UsageError: the simulator cannot build the plan, or a file cannot be written.
        ModuleNotFoundError: a library that the files need is not installed.
        KeyboardInterrupt: the run without incidents was interrupted; there is nothing to write yet.
        typer.Exit: the run is partial.
    """
    from softmrc.sim.result.execute import execute
    from softmrc.sim.result.files import plain

    if out:
        need("pyarrow", *(["matplotlib"] if plot else []))
    clean_end_ns = _clean_end_ns(plan, progress) if clean else None
    with showing(plan, progress) as show:
        result = execute(plan, progress=show, check=check, clean_end_ns=clean_end_ns)
    document = plain(result.document(timing=timing))
    if out:
        with phase(f"{plan.name}: writing {out}", progress):
            _write(plan, result, Path(out), timing=timing, plot=plot)
    if json:
        put_json(document)
    else:
        put("\n".join(summary_lines(document)))
        if out:
            put(f"  written     {out}")
    if result.outcome.stopped == "interrupted":
        raise typer.Exit(INTERRUPTED)
    if result.partial:
        note(f"softmrc sim: stopped by the {result.outcome.stopped} limit; the result is partial")
        raise typer.Exit(FAILED)
    if result.outcome.stopped == "stuck":
        note("softmrc sim: tasks are left that nothing will ever finish; see tasks and packets of the result")
        raise typer.Exit(FAILED)
    failed = document["tasks"]["failed"]
    if failed:
        note(f"softmrc sim: {failed:,} tasks failed: their QPs gave up; see tasks and packets of the result")
        raise typer.Exit(FAILED)


def _clean_end_ns(plan: Plan, progress: bool) -> int | None:
    """Return when the run is done without its incidents; none if it has none, or is not done then either."""
    from softmrc.sim.result.execute import execute

    without = plan.clean
    if len(without.faults) == len(plan.faults):
        return None
    with showing(without, progress) as show:
        result = execute(without, progress=show)
    if result.outcome.stopped == "interrupted":
        raise KeyboardInterrupt
    return result.end_ns if result.outcome.stopped == "done" else None


def _write(plan: Plan, result: Result, folder: Path, *, timing: bool, plot: bool) -> None:
    from softmrc.sim.result import save

    save(result, folder, timing=timing)
    if plan.pcap_links:
        from softmrc.sim.result.captures import write_captures

        write_captures(result, folder)
    from softmrc.plot.draw import KINDS, draw_all

    for kind in KINDS:  # what an earlier run left there
        (folder / f"{kind}.svg").unlink(missing_ok=True)
    if plot:
        from softmrc.plot.source import Source

        draw_all(Source(folder), folder)


def list_scenarios(
    json: Json = False,
) -> None:
    """List the built-in scenarios.

    \b
    softmrc sim list
    softmrc sim list --json

    Exit codes: 0 done, 2 wrong use.
    """
    with guard("sim list", json):
        from softmrc.sim.scenario import Scenario

        found = Scenario.list()
        if json:
            put_json({"scenarios": [{"name": name, "about": about} for name, about in found]})
            return
        width = max((len(name) for name, _ in found), default=0)
        for name, about in found:
            put(f"{name:<{width}}  {about}")
