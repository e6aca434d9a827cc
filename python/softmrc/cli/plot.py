"""`softmrc plot`: the standard figures of a result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from softmrc.cli.output import guard, put, put_json
from softmrc.errors import UsageError

__all__ = ["plot"]


def plot(
    result: Annotated[
        str, typer.Argument(help="result.json, the folder of --out, or a sweep's Parquet file.")
    ],
    kind: Annotated[
        str, typer.Option(help="goodput, fct, queue, ev, heat, steps; all there is data for.")
    ] = "",
    out: Annotated[str, typer.Option(help="File (.svg, .png, .pdf), or a folder for several.")] = "",
    metric: Annotated[str, typer.Option(help="Of a sweep: the column to compare.")] = "fct_p99_us",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Draw the figures of a simulation: goodput, completion times, queues, EVs, links, steps of a job.

    The same result gives the same bytes. Incidents are shaded.

    \b
    softmrc plot result
    softmrc plot result --kind goodput --out goodput.svg
    softmrc plot sweep-out/sweep.parquet --metric goodput_gbps --out sweep.png

    Exit codes: 0 done, 2 wrong use, or no data for that figure.
    """
    with guard("plot", json):
        files = _sweep(result, metric, out) if result.endswith(".parquet") else _result(result, kind, out)
        if json:
            put_json({"files": [str(file) for file in files]})
        else:
            put("\n".join(str(file) for file in files))


def _sweep(file: str, metric: str, out: str) -> list[Path]:
    from softmrc.plot.draw import draw_sweep
    from softmrc.plot.style import save

    return [save(draw_sweep(file, metric), out or Path(file).with_suffix(".svg"))]


def _result(where: str, kind: str, out: str) -> list[Path]:
    from softmrc.plot.draw import draw, draw_all, kinds
    from softmrc.plot.source import Source
    from softmrc.plot.style import FORMATS, save

    source = Source(where)
    if kind:
        return [save(draw(source, kind), out or source.folder / f"{kind}.svg")]
    found = kinds(source)
    if Path(out).suffix in FORMATS:
        if len(found) != 1:
            raise UsageError(
                f"this result has {len(found)} figures ({', '.join(found)}): add --kind, or name a folder"
            )
        return [save(draw(source, found[0]), out)]
    if not found:
        raise UsageError(f"{where} has data for no figure; give the scenario a [sample] table")
    return draw_all(source, out or source.folder)
