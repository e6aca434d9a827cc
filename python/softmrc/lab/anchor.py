"""Keeps a mount namespace, in which alone a lab's namespaces have names, while anybody is left who could use it.

In `unshare -Urn` each command makes the lab's directory of namespaces visible for itself only; this process holds it
for the next command. It ends with the lab, or when its user namespace has no other process any more.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

__all__ = ["alone"]

_LOOK_S = 1.0


def alone() -> bool:
    """Whether no other process is in this one's user namespace."""
    own = Path("/proc/self/ns/user").stat().st_ino
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if (entry / "ns/user").stat().st_ino == own:
                    return False
    return True


def _main() -> None:
    number = os.fork()
    if number:
        print(number, flush=True)
        os._exit(0)
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.chdir("/")
    while not alone():
        time.sleep(_LOOK_S)


if __name__ == "__main__":
    _main()
