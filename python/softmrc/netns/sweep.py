"""Names that say who owns a namespace, and the end of what dead owners left behind."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import subprocess
import time
from pathlib import Path

__all__ = ["PREFIX", "new_name", "processes_in", "remove", "sweep"]

PREFIX = "smrc"
_NAME = re.compile(rf"{PREFIX}(\d+)-\w+")
_DIRECTORY = Path("/run/netns")
_numbers = itertools.count()


def new_name(role: str) -> str:
    """Return a name nobody else has: the owner's process number, a counter and what it is for."""
    return f"{PREFIX}{os.getpid()}-{next(_numbers)}{role}"


def processes_in(name: str) -> list[int]:
    """Return the processes whose network namespace this is."""
    try:
        wanted = (_DIRECTORY / name).stat()
    except OSError:
        return []
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            seen = (entry / "ns/net").stat()
            if (seen.st_dev, seen.st_ino) == (wanted.st_dev, wanted.st_ino):
                found.append(int(entry.name))
    return found


def remove(name: str) -> None:
    """Remove a namespace and end the processes in it; one that is gone already is no error."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        inside = [pid for pid in processes_in(name) if pid != os.getpid()]
        for pid in inside:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + 1
        while inside and processes_in(name) and time.monotonic() < deadline:
            time.sleep(0.01)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def sweep() -> list[str]:
    """Remove the namespaces of owners that no longer live, and return their names."""
    if not _DIRECTORY.is_dir():
        return []
    removed = []
    for entry in sorted(_DIRECTORY.iterdir()):
        match = _NAME.fullmatch(entry.name)
        if match is not None and not Path(f"/proc/{match.group(1)}").exists():
            remove(entry.name)
            removed.append(entry.name)
    return removed
