"""Programs that a command is to run: there, and one that can be run, or an end as a shell would end."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from softmrc.cli.output import fail

__all__ = ["CANNOT_RUN", "NOT_FOUND", "must_run"]

CANNOT_RUN = 126
NOT_FOUND = 127


def must_run(command: str, program: str) -> None:
    """End the command when a program is not there (exit code 127) or cannot be run (126).

    Args:
        command: of ours, for the text.
        program: a name that is looked for in PATH, or a path.
    """
    if shutil.which(program) is not None:
        return
    where = os.environ.get("PATH", os.defpath)
    places = [Path(program)] if "/" in program else [Path(d) / program for d in where.split(os.pathsep)]
    found = next((p for p in places if p.exists()), None)
    if found is None:
        looked = "there is no such file" if "/" in program else f"looked in {where}"
        fail(command, f"{program}: not found; {looked}", NOT_FOUND)
    what = "a directory" if found.is_dir() else f"not executable; chmod +x {found}"
    fail(command, f"{program}: cannot be run: {what}", CANNOT_RUN)
