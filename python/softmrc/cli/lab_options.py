"""Options that several subcommands of `softmrc lab` share."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from softmrc.cli.output import note
from softmrc.errors import UsageError

__all__ = ["Json", "Name", "bits_per_second", "progress"]

Name = Annotated[str, typer.Option("--name", "-n", help="Which lab, when there are several.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:bit(?:/s)?|bps)?", re.IGNORECASE)
_PREFIX = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_QUIET_S = 2.0


def bits_per_second(text: str, option: str) -> int | None:
    """Return a rate like "200M", "1.5 Gbit/s" or "200000000"; None for "none".

    Raises:
        UsageError: no rate; names the option.
    """
    if text.strip().lower() == "none":
        return None
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{option} is a rate like 200M, 1.5Gbit/s or none, not {text!r}")
    return round(float(match[1]) * _PREFIX[match[2].lower()])


@contextlib.contextmanager
def progress(what: str) -> Iterator[Callable[[str], None]]:
    """Say what is being done once it takes longer than two seconds, on a terminal."""
    began = time.monotonic()

    def step(text: str) -> None:
        if sys.stderr.isatty() and time.monotonic() - began > _QUIET_S:
            note(f"{what}: {text}")

    yield step
