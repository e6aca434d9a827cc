"""Ends the programs in the hosts of a user-space lab: ordinary processes, known by the fabric file they were given."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from softmrc.lab.soft_switch import control_file
from softmrc.lab.state import Process, file_of
from softmrc.srv6 import FABRIC_ENV

__all__ = ["end_hosts", "programs"]

_PATIENCE_S = 2.0


def programs(name: str) -> list[Process]:
    """Return the processes of this user that run in a host of a lab, but for this one and those it descends from."""
    mark = f"{FABRIC_ENV}={file_of(name, 'fabric.json')}".encode()
    own = _ancestors()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in own:
            continue
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                process = Process.of(int(entry.name))
                if process is not None:
                    found.append(process)
    return found


def end_hosts(name: str) -> int:
    """End them, at once; returns how many there were. Idempotent."""
    deadline = time.monotonic() + _PATIENCE_S
    ended: set[int] = set()
    while (living := programs(name)) and time.monotonic() < deadline:
        for process in living:
            ended.add(process.pid)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)
        time.sleep(0.02)
    control_file(name).unlink(missing_ok=True)
    return len(ended)


def _ancestors() -> set[int]:
    found = {os.getpid()}
    pid = os.getppid()
    while pid > 1 and pid not in found:
        found.add(pid)
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
    return found
