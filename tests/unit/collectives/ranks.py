"""Ranks as processes of their own, for tests: each runs a piece of code with `mesh`, `rank` and `size`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from tests.stopping import stop

from softmrc.collectives.store import TcpStore

_HEAD = """
import json, os, signal, sys, time, threading
from softmrc.collectives import Group, Mesh, TcpStore
from softmrc.errors import *
rank, size = int(sys.argv[1]), int(sys.argv[2])
class Files:
    def __init__(self, where): self.where = where
    def path(self, key): return os.path.join(self.where, key.replace("/", "+"))
    def set(self, key, value):
        with open(self.path(key) + f".{rank}", "wb") as f: f.write(value)
        os.rename(self.path(key) + f".{rank}", self.path(key))
    def get(self, key, timeout):
        end = time.monotonic() + timeout
        while not os.path.exists(self.path(key)):
            if time.monotonic() > end: raise TimeoutError(key)
            time.sleep(0.01)
        with open(self.path(key), "rb") as f: return f.read()
store = TcpStore("127.0.0.1", int(sys.argv[3])) if sys.argv[3].isdecimal() else Files(sys.argv[3])
args = json.loads(sys.argv[4])
def group(timeout=20.0, key="g", ranks=None):
    return Group(mesh, ranks or list(range(size)), key=key, timeout=timeout)
def say(**what): print(json.dumps(what), flush=True)
def expect(word): assert sys.stdin.readline().strip() == word
"""


class Ranks:
    """Processes, ended when the block is left."""

    def __init__(
        self,
        size: int,
        code: str,
        *,
        env: Mapping[str, str] | None = None,
        only: list[int] | None = None,
        run: Callable[..., subprocess.Popen[str]] | None = None,
        **args: Any,
    ) -> None:
        """Start them.

        Args:
            size: number of ranks.
            code: what each runs; `args` is a dict of the keyword arguments here.
            env: further environment.
            only: start these ranks alone.
            run: starts the command of a rank (`run(rank, *command, **options)`), in another namespace for instance:
                ranks then meet in a directory.
            args: for the code.
        """
        self.store = TcpStore("127.0.0.1", 0, serve=True)
        self._meeting = tempfile.TemporaryDirectory()
        self.procs: dict[int, subprocess.Popen[str]] = {}
        where = self._meeting.name if run is not None else str(self.store.port)
        for rank in range(size) if only is None else only:
            command = [sys.executable, "-c", _HEAD + code, str(rank), str(size), where, json.dumps(args)]
            options: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
            if run is not None:
                self.procs[rank] = run(rank, *command, **options)
            else:
                self.procs[rank] = subprocess.Popen(
                    command, text=True, env={**os.environ, **(env or {})}, **options
                )

    def hear(self, rank: int) -> dict[str, Any]:
        """Return the next thing a rank says."""
        proc = self.procs[rank]
        assert proc.stdout is not None
        line = proc.stdout.readline()
        if not line:
            _, errors = proc.communicate(timeout=20)
            raise AssertionError(f"rank {rank} ended with {proc.returncode}: {errors}")
        found = json.loads(line)
        assert isinstance(found, dict)
        return found

    def tell(self, rank: int, word: str) -> None:
        """Say something to a rank that `expect`s it."""
        stdin = self.procs[rank].stdin
        assert stdin is not None
        stdin.write(word + "\n")
        stdin.flush()

    def signal(self, rank: int, number: int) -> None:
        """Send a signal; after SIGSTOP the rank stands when this returns."""
        if number == signal.SIGSTOP:
            stop(self.procs[rank].pid)
        else:
            self.procs[rank].send_signal(number)

    def finish(self, rank: int, timeout: float = 20.0) -> tuple[int, str]:
        """Wait for the end of a rank; return its exit status and what it wrote to stderr."""
        _, errors = self.procs[rank].communicate(timeout=timeout)
        return self.procs[rank].returncode, errors

    def __enter__(self) -> Ranks:
        """Enter: nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """End what still runs."""
        for proc in self.procs.values():
            if proc.poll() is None:
                proc.send_signal(signal.SIGCONT)
                proc.kill()
            proc.communicate()
        self.store.close()
        self._meeting.cleanup()
