"""Ranks as processes of their own, for tests: each runs a piece of code with `mesh`, `rank` and `size`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from softmrc.collectives.store import TcpStore

_HEAD = """
import json, os, signal, sys, time, threading
from softmrc.collectives import Group, Mesh, TcpStore
from softmrc.errors import *
rank, size = int(sys.argv[1]), int(sys.argv[2])
store = TcpStore("127.0.0.1", int(sys.argv[3]))
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
        **args: Any,
    ) -> None:
        """Start them.

        Args:
            size: number of ranks.
            code: what each runs; `args` is a dict of the keyword arguments here.
            env: further environment.
            only: start these ranks alone.
            args: for the code.
        """
        self.store = TcpStore("127.0.0.1", 0, serve=True)
        self.procs: dict[int, subprocess.Popen[str]] = {}
        for rank in range(size) if only is None else only:
            self.procs[rank] = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    _HEAD + code,
                    str(rank),
                    str(size),
                    str(self.store.port),
                    json.dumps(args),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, **(env or {})},
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
        """Send a signal."""
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
