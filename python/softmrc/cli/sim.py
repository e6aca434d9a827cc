"""`softmrc sim`: simulate a fabric with the engine that runs on the wire.

Which subcommands there are. Each lives in a module of its own and imports the simulator when it runs.
"""

from __future__ import annotations

import typer

from softmrc.cli.sim_htsim import htsim
from softmrc.cli.sim_run import list_scenarios, run
from softmrc.cli.sim_sweep import sweep
from softmrc.cli.sim_topo import topo

__all__ = ["sim"]

sim = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="""Simulate a fabric packet by packet, with the engine that runs on the wire.

    \b
    softmrc sim list                                  built-in scenarios
    softmrc sim run incast-victim --out result        then: softmrc plot result
    softmrc sim run incast-victim --transport rocev2
    softmrc sim topo --planes 8 --tiers 2             parts, power, what a failure takes
    softmrc sim sweep sweep.toml --out sweep          grids and seeds on all cores
    softmrc sim htsim perm.cm --topo leaf_spine.topo  a connection matrix of htsim

    Exit codes: 0 done, 1 tasks failed or stopped by a limit, 2 wrong use, 4 a sweep with runs that failed,
    130 interrupted (what was simulated until then is printed and written, marked as partial).
    """,
)
sim.command("run")(run)
sim.command("list")(list_scenarios)
sim.command("topo")(topo)
sim.command("sweep")(sweep)
sim.command("htsim")(htsim)
