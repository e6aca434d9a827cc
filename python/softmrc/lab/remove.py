"""The end of a lab, whole or half-made, also one whose makers and users were killed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time

from softmrc.errors import MrcError, UsageError
from softmrc.lab.ledger import forget
from softmrc.lab.state import LabState, Process, file_of, known, locked
from softmrc.netns.enter import delete, end_processes, names

__all__ = ["end_lab", "leftovers", "remove_lab", "sweep"]

_NODE = re.compile(r"h\d+|p\d+t[012]-\d+")
_PATIENCE_S = 1.0


def leftovers(name: str) -> list[str]:
    """Return the namespaces of a lab, known or not."""
    return [n for n in names(f"{name}-") if _NODE.fullmatch(n.removeprefix(f"{name}-"))]


def end_lab(name: str) -> list[str]:
    """Remove the lab of that name, whatever is left of it, and say which namespaces there were. Idempotent.

    Raises:
        UsageError: another process is changing it, or it is another user's.
    """
    with locked(name):
        try:
            state = LabState.load(name)
        except MrcError:  # whoever wrote the file, the namespaces are found by their names
            for kind in ("json", "fabric.json", "fabric.denied.json"):
                file_of(name, kind).unlink(missing_ok=True)
            state = None
        there = remove_lab(name, state)
        if left := leftovers(name):
            raise UsageError(
                f"lab {name} is another user's: {len(left)} of its namespaces are still there; remove it as who made it"
            )
        return there


def sweep() -> list[str]:
    """Remove the labs whose makers died before they had finished or removed them; returns their names."""
    swept = []
    for name in known():
        with contextlib.suppress(MrcError), locked(name, 0.0):
            state = LabState.load(name)
            if state is not None and state.abandoned:
                remove_lab(name, state)
                swept.append(name)
    return swept


def remove_lab(name: str, state: LabState | None) -> list[str]:
    """Remove a lab: first helpers, then the programs in its namespaces, then these, last its files. Idempotent.

    Args:
        name: of the lab.
        state: what is known about it, if anything.

    Returns:
        The namespaces that were there.
    """
    forget(name)
    if state is not None:
        with contextlib.suppress(MrcError):  # without its anchor nothing is left to be found
            state.join()
        if state.mode == "soft":
            from softmrc.lab.soft_end import end_hosts

            end_hosts(name)
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
