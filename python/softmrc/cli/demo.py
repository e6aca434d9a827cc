"""`softmrc demo`: see multipath reliability work on one machine, without rights and without a second host."""

from __future__ import annotations

import os
import random
import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softmrc.cli.output import FAILED, USAGE, fail, guard, note, put_json

if TYPE_CHECKING:
    from softmrc.demo.run import Run

__all__ = ["demo"]

GENERATED_BYTES = 48 << 20


def demo(
    path: Annotated[
        Path | None, typer.Argument(help="File to move; none: one is made from the seed.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Of both runs together, 8 to 600.")] = 12.0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**62, help="Of the failures; none: a new one.")
    ] = None,
    planes: Annotated[int, typer.Option(min=3, max=16)] = 8,
    evs: Annotated[int, typer.Option(min=2, max=64, help="Paths of each plane.")] = 16,
    out: Annotated[Path, typer.Option("--out", help="Where the picture and the received file go.")] = Path(
        "demo-out"
    ),
) -> None:
    """Move a file between two processes over 8 planes x 16 paths while planes and paths fail.

    One plane is cut in both directions and healed later, one path loses 5 %, another goes black. Then the
    same transfer runs pinned to one path. The bytes are verified, the promises checked, and a picture is
    drawn.

    \b
    softmrc demo
    softmrc demo model.ckpt --seconds 20
    softmrc demo --json --seed 7

    Exit codes: 0 every promise holds, 1 one does not, 2 wrong use, 130 interrupted.
    """
    if not 8.0 <= seconds <= 600.0:  # also refuses what is no number at all
        fail("demo", f"--seconds is 8 to 600, not {seconds:g}", USAGE, json)
    with guard("demo", json):
        result = _demo(
            path, seconds, json, secrets.randbelow(1 << 31) if seed is None else seed, planes, evs, out
        )
    if json:
        put_json(result)
    else:
        _print_verdict(result)
    if not result["ok"]:
        raise typer.Exit(FAILED)


def _generate(directory: str, seed: int) -> str:
    path = os.path.join(directory, "generated.bin")
    with open(path, "wb") as file:
        file.write(random.Random(seed).randbytes(GENERATED_BYTES))
    return path


def _demo(
    path: Path | None, seconds: float, json: bool, seed: int, planes: int, evs: int, out: Path
) -> dict[str, Any]:
    from rich.console import Console

    from softmrc.demo.plan import ipv6_loopback_works, make_plan
    from softmrc.demo.run import Source, execute
    from softmrc.demo.verdict import judge, summary
    from softmrc.demo.view import View

    out.mkdir(parents=True, exist_ok=True)
    plan = make_plan(seed, planes, evs, seconds / 2, ipv6_loopback_works())
    console = Console(stderr=True, quiet=json)
    with tempfile.TemporaryDirectory(prefix="softmrc-demo-") as work:
        source = Source.of(os.fspath(path) if path else _generate(work, seed))
        received = os.path.join(out, "received.bin" if path is None else f"received-{path.name}")
        with View(console) as view:
            view.begin(f"MRC over {planes} planes x {evs} paths")
            multi = execute(plan, source, received, pinned=False, watch=view.update)
            view.begin(f"pinned to one path on plane {plan.harm.cut_plane}")
            single = execute(plan, source, os.path.join(work, "single.bin"), pinned=True, watch=view.update)
        result = summary(judge(multi, source), judge(single, source), seed)
    result["picture"] = _draw(multi, single, out / f"demo-{seed}.png")
    result["received"] = received
    return result


def _draw(multi: Run, single: Run, path: Path) -> str | None:
    from softmrc.demo.plot import draw

    try:
        draw(multi, single, os.fspath(path))
    except ImportError:
        note("no picture: matplotlib is missing; pip install 'softmrc[plot]'")
        return None
    return os.fspath(path)


def _print_verdict(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    single = result["single_path"]
    table = Table(title=f"seed {result['seed']}", title_justify="left")
    for name in ("", "MRC", "one path", "promise"):
        table.add_column(name)
    rows = [
        ("bytes moved and verified", "bytes", "{:,}", ""),
        ("hash equal", "bytes_ok", "{}", "True"),
        ("connection errors", "qp_errors", "{}", "0"),
        ("Mbit/s before the cut", "rate_before_mbps", "{:.0f}", ""),
        ("Mbit/s during the cut", "rate_outage_mbps", "{:.0f}", ""),
        ("lowest 100 ms of the outage, of its share", "min_bin_after_cut_ratio", "{:.2f}", ">= 0.80"),
        ("last data packet into the cut, ms after it", "last_packet_on_cut_path_ms", "{:.1f}", "<= 50"),
        ("healed plane, of its share", "recovered_share", "{:.2f}", ">= 0.90"),
        ("assumed bad = harmed paths", "assumed_bad_exact", "{}", "True"),
        ("packets sent again", "retransmissions", "{:,}", ""),
    ]
    for name, key, style, promise in rows:
        table.add_row(name, style.format(result[key]), style.format(single[key]), promise)
    console = Console()
    console.print(table)
    console.print(f"received file: {result['received']}", highlight=False)
    if result["picture"]:
        console.print(f"picture: {result['picture']}", highlight=False)
    if result["ok"]:
        console.print("[bold green]every promise holds[/]")
    for line in result["broken"]:
        console.print(f"[bold red]broken:[/] {line}", highlight=False)
