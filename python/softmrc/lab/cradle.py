"""Many programs of ours for the price of one start: a process that has loaded everything and forks for each.

`python -m softmrc.lab.cradle MODULE:FUNCTION MODULE...` loads the modules, reads a line of JSON for each program,
forks, enters its namespace and calls the function there, as `python -m` would; it tells when one has ended. It has no
threads and opens nothing before it forks.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["main"]

_LOOK_S = 0.02
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Fork until standard input ends; then everything that was forked ends, too."""
    for name in sys.argv[1:]:
        importlib.import_module(name.partition(":")[0])
    module, _, function = sys.argv[1].partition(":")
    run: Callable[[], object] = getattr(importlib.import_module(module), function)
    children: set[int] = set()
    _say({"ready": os.getpid()})
    rest = b""
    while True:
        readable, _, _ = select.select([0], [], [], _LOOK_S)
        if readable:
            got = os.read(0, 65536)
            if not got:
                break
            *lines, rest = (rest + got).split(b"\n")
            for line in lines:
                pid = _fork(run, json.loads(line))
                children.add(pid)
                _say({"pid": pid})
        _reap(children)
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _reap(children, wait=True)


def _say(words: dict[str, Any]) -> None:
    os.write(1, json.dumps(words).encode() + b"\n")


def _reap(children: set[int], *, wait: bool = False) -> None:
    for pid in list(children):
        done, status = os.waitpid(pid, 0 if wait else os.WNOHANG)
        if done:
            children.discard(pid)
            _say({"ended": pid, "status": os.waitstatus_to_exitcode(status)})


def _fork(run: Callable[[], object], asked: dict[str, Any]) -> int:
    """Call a function in a child with a command line of its own; returns its number."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _take_place(asked)
        sys.argv = ["softmrc", *asked["args"]]
        try:
            run()
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(status)


def _take_place(asked: dict[str, Any]) -> None:
    """Become the program: its namespace, files and environment."""
    from softmrc.netns.enter import DIRECTORY

    if asked["namespace"]:
        libc = ctypes.CDLL(None, use_errno=True)
        place = os.open(Path(DIRECTORY) / asked["namespace"], os.O_RDONLY)
        if libc.setns(place, 0x40000000) != 0:
            raise OSError(ctypes.get_errno(), f"enter namespace {asked['namespace']}")
        os.close(place)
    os.environ.update(asked["env"])
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    for number, file in ((1, asked["out"]), (2, asked["err"])):
        target = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(target, number)
        os.close(target)


if __name__ == "__main__":
    main()
