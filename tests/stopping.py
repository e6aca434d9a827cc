"""Stopping a process of several threads, for good."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def stop(pid: int, seconds: float = 20.0) -> None:
    """Send SIGSTOP, and wait until every thread stands.

    One thread takes the signal and stops the others; until a busy machine lets it run, they go on working.

    Args:
        pid: the process; it does not end meanwhile.
        seconds: to wait at most.

    Raises:
        TimeoutError: a thread still runs.
        ProcessLookupError: there is no such process.
    """
    os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + seconds
    while any(_state(task) != "T" for task in Path(f"/proc/{pid}/task").iterdir()):
        if time.monotonic() > end:
            raise TimeoutError(f"process {pid} has not stopped within {seconds:g} s")
        time.sleep(0.001)


def _state(task: Path) -> str:
    return (task / "stat").read_text().rpartition(")")[2].split()[0]
