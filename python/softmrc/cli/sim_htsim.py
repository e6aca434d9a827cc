"""`softmrc sim htsim`: a connection matrix of htsim on our fabric and transports."""

from __future__ import annotations

from typing import Annotated

import typer

from softmrc.cli.output import guard, note
from softmrc.cli.sim_options import Json, MemoryLimit, Out, Seed, Shown, Timing, WallLimit
from softmrc.errors import UsageError

__all__ = ["htsim"]

Linkspeed = Annotated[int | None, typer.Option(help="Rate of every link, Mb/s, as htsim takes it.")]
Hashed = Annotated[bool, typer.Option("--hashed", help="Switches hash EVs onto paths, as htsim's do (mrc).")]


def htsim(
    matrix: Annotated[str, typer.Argument(help="Connection matrix of csg-htsim or uet-htsim (.cm, .tm).")],
    topo: Annotated[str, typer.Option(help="Topology file (.topo); a full two-tier fabric by default.")] = "",
    linkspeed: Linkspeed = None,
    planes: Annotated[
        int, typer.Option(help="So many such fabrics side by side, each at 1/planes of the rate.")
    ] = 1,
    transport: Annotated[str, typer.Option(help="As mrc, mrc:no-trimming, rocev2:16qp, tcp:dctcp.")] = "mrc",
    paths: Annotated[int, typer.Option(help="EVs a flow sprays over (mrc).")] = 64,
    qps: Annotated[int, typer.Option(help="QPs for each pair of hosts.")] = 1,
    hashed: Hashed = False,
    end_us: Annotated[float | None, typer.Option("--end", help="Stop at this simulated time, us.")] = None,
    sample_us: Annotated[
        float | None, typer.Option("--sample", help="Sample goodput every so many us.")
    ] = None,
    seed: Seed = None,
    json: Json = False,
    out: Out = "",
    wall_limit: WallLimit = None,
    memory_limit: MemoryLimit = None,
    progress: Shown = True,
    timing: Timing = True,
) -> None:
    """Run a connection matrix that was written for htsim.

    Triggers, sizes, starts and failed links mean what they mean there; what has no meaning here is said. Without --topo
    the fabric is a full two-tier Clos with links of 1 us, the smallest whose radix is a power of two.

    \b
    softmrc sim htsim perm_1024n_1024c_0u_2000000b.cm --topo leaf_spine_1024.topo --linkspeed 400000
    softmrc sim htsim incast.cm --transport rocev2 --json

    Exit codes: 0 done, 1 flows failed or stopped by a limit, 2 wrong use or a bad file (with its line),
    130 interrupted.
    """
    with guard("sim htsim", json):
        from softmrc.cli.sim_run import carry_out
        from softmrc.sim.matrix_run import MatrixRun
        from softmrc.sim.result import prepare
        from softmrc.sim.result.execute import Limits

        if out:
            prepare(out)
        made = MatrixRun(
            matrix=matrix,
            topology=topo or None,
            link_mbps=linkspeed,
            planes=planes,
            transport=transport,
            paths=paths,
            qps=qps,
            hashed=hashed,
            seed=1 if seed is None else seed,
            until_ns=_ns("--end", end_us),
            sample_ns=_ns("--sample", sample_us),
            limits=Limits(wall_s=wall_limit, max_rss_mib=memory_limit),
        ).plan()
        for text in made.workload.notes:
            note(f"softmrc sim htsim: {text}")
        carry_out(made, out=out, json=json, progress=progress, timing=timing, plot=bool(out))


def _ns(option: str, us: float | None) -> int | None:
    """Return microseconds of an option as ns.

    Raises:
        UsageError: less than 1 ns, more than 2^52 ns, or no number.
    """
    if us is None:
        return None
    if not 1e-3 <= us <= (1 << 52) / 1e3:
        raise UsageError(f"{option} is a time from 0.001 us (1 ns) to {(1 << 52) / 1e3:.0f} us, not {us:g}")
    return round(us * 1e3)
