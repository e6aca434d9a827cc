"""The programs of a measurement: started inside a namespace and on a core, waited for, and ended in every case."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from softmrc.bench.settings import BenchError
from softmrc.netns import Namespace

__all__ = ["Program", "python_module"]

_LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp


def python_module(module: str, *args: str) -> list[str]:
    """Return the command that runs a module with this Python."""
    return [sys.executable, "-m", module, *args]


class Program:
    """A running program; a context manager that ends it."""

    def __init__(self, space: Namespace | None, command: Sequence[str], cpu: int | None = None) -> None:
        """Start it.

        Args:
            space: namespace it runs in; None: that of this process.
            command: program and arguments.
            cpu: the only CPU it may use; None: any.
        """
        self.name = _readable(command)
        pinned = ["taskset", "-c", str(cpu), *command] if cpu is not None else list(command)
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed in stop)
        if space is not None:
            whole = space.command(*pinned)
        else:
            mortal = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
            whole = [*mortal, *pinned]
        try:
            self._child = subprocess.Popen(
                whole, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._errors
            )
        except OSError as error:
            self._errors.close()
            raise BenchError(f"{self.name}: {error.strerror}") from None
        self._output = b""
        self._taken = 0  # bytes that next_json has handed out

    @property
    def pid(self) -> int:
        """Its process number."""
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._child.poll() is None

    def _fail(self, why: str) -> BenchError:
        self._errors.seek(0)
        text = (self._output + self._errors.read()).decode(errors="replace")
        said = [line for line in text.splitlines() if line.strip()]
        return BenchError(f"{self.name}: {why}{': ' + said[-1][:300] if said else ''}")

    def _read(self, until: float) -> bool:
        assert self._child.stdout is not None
        left = until - time.monotonic()
        if left <= 0 or not select.select([self._child.stdout], [], [], left)[0]:
            raise self._fail("no answer in time")
        got = os.read(self._child.stdout.fileno(), 65536)
        self._output += got
        return bool(got)

    def await_line(self, text: str, timeout: float = 15) -> None:
        """Wait until the program has printed a line."""
        until = time.monotonic() + timeout
        while f"{text}\n".encode() not in self._output:
            if not self._read(until):
                raise self._fail("ended before it was ready")

    def await_listening(self, port: int, timeout: float = 15) -> None:
        """Wait until something in the program's namespace listens on a TCP port."""
        until = time.monotonic() + timeout
        while not _listens(self.pid, port):
            if self._child.poll() is not None:
                raise self._fail(f"ended with status {self._child.returncode}")
            if time.monotonic() > until:
                raise self._fail(f"does not listen on port {port}")
            time.sleep(0.02)

    def output(self, timeout: float, accept: tuple[int, ...] = (0,)) -> str:
        """Wait for the end and return what it printed.

        Raises:
            BenchError: it took too long, or its exit status is not one to `accept`.
        """
        until = time.monotonic() + timeout
        while self._read(until):
            pass
        try:
            status = self._child.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise self._fail("does not end") from None
        if status not in accept:
            raise self._fail(f"exit status {status}")
        return self._output.decode(errors="replace")

    def json(self, timeout: float, *, last_line: bool = True, accept: tuple[int, ...] = (0,)) -> Any:
        """Wait for the end and return the JSON it printed, on its last line or as a whole."""
        text = self.output(timeout, accept).strip()
        try:
            return json.loads(text.splitlines()[-1] if last_line else text)
        except (IndexError, ValueError):
            raise self._fail("printed no JSON") from None

    def next_json(self, timeout: float) -> Any:
        """Wait for the next line of output that nobody has asked for yet, and return its JSON.

        Raises:
            BenchError: it ended or kept silent, or the line is no JSON.
        """
        until = time.monotonic() + timeout
        while b"\n" not in self._output[self._taken :]:
            if not self._read(until):
                raise self._fail("ended before it had said everything")
        end = self._output.index(b"\n", self._taken)
        line, self._taken = self._output[self._taken : end], end + 1
        try:
            return json.loads(line)
        except ValueError:
            raise self._fail("printed no JSON") from None

    def stop(self) -> None:
        """End it. Idempotent."""
        if self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(2)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        if self._child.stdout is not None:
            self._child.stdout.close()
        with contextlib.suppress(OSError):
            self._errors.close()

    def __enter__(self) -> Program:
        """Enter: nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """End it."""
        self.stop()


def _readable(command: Sequence[str]) -> str:
    words = [w for w in command if w != sys.executable][:3]
    return " ".join(words[1:] if words and words[0] == "-m" else words)


def _listens(pid: int, port: int) -> bool:
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rsplit(":", 1)[1], 16) == port:
                    return True
    return False
