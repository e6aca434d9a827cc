"""Options that several `softmrc sim` commands share."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["Json", "MemoryLimit", "Out", "Seed", "Shown", "Timing", "WallLimit"]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Out = Annotated[str, typer.Option(help="Folder for result.json, Parquet tables, figures and captures.")]
Seed = Annotated[int | None, typer.Option(help="Everything random follows from it.")]
Shown = Annotated[bool, typer.Option("--progress/--no-progress", help="The line while it runs.")]
Timing = Annotated[
    bool, typer.Option("--timing/--no-timing", help="Wall times in the result; without: equal bytes.")
]
WallLimit = Annotated[float | None, typer.Option(help="Stop a run after so many seconds; partial result.")]
MemoryLimit = Annotated[int | None, typer.Option(help="Stop a run beyond so many MiB; partial result.")]
