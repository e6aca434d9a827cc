"""`softmrc vectors`: check a vector file against the engine or the independent model."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

import typer

from softmrc.vectors import VectorFileError, check_file

__all__ = ["vectors"]


def vectors(
    file: Annotated[Path, typer.Argument(help="JSON file of the schema of vectors.json.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    impl: Annotated[str, typer.Option(help="Codec to check: core or oracle.")] = "core",
) -> None:
    """Check FILE: encode, decode, derived values and expected verdicts.

    Exit status: 0 every entry passed, 1 some entry differs, 2 the file or an option cannot be used.
    """
    try:
        report = check_file(file, impl)
    except (VectorFileError, ValueError, ImportError) as e:
        typer.echo(f"softmrc vectors: {e}", err=True)
        raise typer.Exit(2) from None
    typer.echo(json_module.dumps(report.as_dict()) if json else report.text())
    if not report.ok:
        raise typer.Exit(1)
