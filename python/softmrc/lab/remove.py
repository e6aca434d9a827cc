"""The end of a lab, whole or half-made, also one whose makers and users were killed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time

from softmrc.errors import MrcError
from softmrc.lab.state import LabState, Process, directory, locked
from softmrc.netns.enter import delete, end_processes, names

__all__ = ["end_lab", "leftovers", "remove_lab"]

_NODE = re.compile(r"h\d+|p\d+t[012]-\d+")
_PATIENCE_S = 1.0


def leftovers(name: str) -> list[str]:
    """Return the namespaces of a lab, known or not."""
    return [n for n in names(f"{name}-") if _NODE.fullmatch(n.removeprefix(f"{name}-"))]


def end_lab(name: str) -> list[str]:
    """Remove the lab of that name, whatever is left of it, and say which namespaces there were. Idempotent.

    Raises:
        UsageError: another process is changing it.
    """
    with locked(name):
        try:
            state = LabState.load(name)
        except MrcError:  # whoever wrote the file, the namespaces are found by their names
            (directory() / f"{name}.json").unlink(missing_ok=True)
            state = None
        return remove_lab(name, state)


def remove_lab(name: str, state: LabState | None) -> list[str]:
    """Remove a lab: first helpers, then the programs in its namespaces, then these, last its files. Idempotent.

    Args:
        name: of the lab.
        state: what is known about it, if anything.

    Returns:
        The namespaces that were there.
    """
    if state is not None:
        if state.phase != "stopping":
            state.phase = "stopping"
            with contextlib.suppress(OSError):
                state.save()
        _end_helpers(state.helpers)
    there = leftovers(name)
    end_processes(there)
    delete(there)
    if state is not None:
        state.remove()
    return there


def _end_helpers(helpers: list[Process]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        living = [p for p in helpers if p.alive and p.pid != os.getpid()]
        for process in living:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, number)
        deadline = time.monotonic() + _PATIENCE_S
        while any(p.alive for p in living) and time.monotonic() < deadline:
            time.sleep(0.01)
