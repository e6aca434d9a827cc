"""Opens the endpoint of a mesh: planes as chosen, hold time and other knobs, and says once what was chosen."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from softmrc.collectives.choose import Choice
from softmrc.endpoint import Endpoint
from softmrc.errors import UsageError

__all__ = ["hold_time_of", "open_endpoint", "say_once"]

_HOLD_TIME = "SOFTMRC_HOLD_TIME"
_MAX_HOLD = 86400.0
_LINGER = 2.0
"""Seconds; what was sent is waited for by the mesh before its connections are closed."""
_shown: set[str] = set()


def hold_time_of(given: float | None, timeout: float, environ: Mapping[str, str] | None = None) -> float:
    """Return how long a total loss of the network is waited out, seconds.

    Args:
        given: by the program; None: SOFTMRC_HOLD_TIME, else `timeout`.
        timeout: of the mesh.
        environ: variables; None: of this process.

    Raises:
        UsageError: not a positive number.
    """
    text = (os.environ if environ is None else environ).get(_HOLD_TIME, "")
    try:
        hold = float(text) if given is None and text else (timeout if given is None else given)
    except ValueError:
        raise UsageError(f"{_HOLD_TIME} is a number of seconds, not {text!r}") from None
    if not hold > 0:
        raise UsageError(f"the hold time is a positive number of seconds, not {hold:g}")
    return min(hold, _MAX_HOLD)


def open_endpoint(
    choice: Choice, rank: int, size: int, hold_time: float, knobs: Mapping[str, Any]
) -> Endpoint:
    """Open it.

    Args:
        choice: planes and why.
        rank: of this process; rank 0 prints the choice, once a process.
        size: number of ranks.
        hold_time: seconds.
        knobs: further ones; they go first.

    Raises:
        VerbsError: a socket could not be opened.
    """
    given: dict[str, Any] = {
        "name": f"rank {rank} of {size} (process {os.getpid()})",
        "hold_time": hold_time,
        "keepalive": 1.0 + 0.05 * size,
        "linger": _LINGER,
        **knobs,
    }
    endpoint = Endpoint(*choice.planes, **given)
    text = f"rank 0 of {size}: planes {', '.join(p.address for p in endpoint.planes)} ({choice.why})"
    if rank == 0:
        say_once(text)
    return endpoint


def say_once(text: str) -> None:
    """Print a line to stderr, once a process."""
    if text not in _shown:
        _shown.add(text)
        print(f"softmrc: {text}", file=sys.stderr, flush=True)
