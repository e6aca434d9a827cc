"""Programs of softmrc in the hosts of a lab, started by a cradle within milliseconds of each other."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from softmrc.errors import MrcError

if TYPE_CHECKING:
    from softmrc.lab.lab import Lab

__all__ = ["Child", "Nursery"]

_START_S = 30.0
_LOADED = ("softmrc.cli.app:main", "softmrc.cli.perf", "softmrc.perf", "softmrc.endpoint")
_LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp


class Nursery:
    """A cradle and its children; a context manager that ends them all."""

    def __init__(self) -> None:
        """Start the cradle; it loads everything once."""
        self._folder = tempfile.TemporaryDirectory(prefix="softmrc-")
        self._cradle = subprocess.Popen(
            [sys.executable, "-m", "softmrc.lab.cradle", *_LOADED],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._rest = b""
        self._count = 0
        self._pids: list[int] = []
        self.ended: dict[int, int] = {}
        """Exit status by process number."""

    def start(self, lab: Lab, host: str, *args: str, **env: str) -> Child:
        """Start `softmrc ARGS` in a host.

        Raises:
            MrcError: the cradle is gone.
        """
        self._count += 1
        base = Path(self._folder.name) / str(self._count)
        out, err = base.with_suffix(".out"), base.with_suffix(".err")
        asked = {
            "namespace": lab.namespace(host) if lab.has_namespaces else "",
            "args": list(args),
            "env": lab.environment(host) | env,
            "out": str(out),
            "err": str(err),
        }
        stdin = self._cradle.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(asked).encode() + b"\n")
            stdin.flush()
        except OSError:
            raise MrcError("the process that starts programs has ended") from None
        deadline = time.monotonic() + _START_S
        while len(self._pids) < self._count:
            if not self.look(0.1) and time.monotonic() > deadline:
                raise MrcError(f"softmrc {args[0]} in {host}: not started in time")
        return Child(self, self._pids[self._count - 1], f"softmrc {args[0]} in {host}", out, err)

    def look(self, wait: float = 0.0) -> bool:
        """Take what the cradle says; returns whether it said something."""
        stdout = self._cradle.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], wait)[0]:
            return False
        got = os.read(stdout.fileno(), 65536)
        if not got:
            raise MrcError("the process that starts programs has ended")
        *lines, self._rest = (self._rest + got).split(b"\n")
        for line in lines:
            said: dict[str, Any] = json.loads(line)
            if "pid" in said:
                self._pids.append(said["pid"])
            elif "ended" in said:
                self.ended[said["ended"]] = said["status"]
        return True

    def close(self) -> None:
        """End every child and the cradle. Idempotent."""
        if self._cradle.stdin is not None:
            self._cradle.stdin.close()
        try:
            self._cradle.wait(5)
        except subprocess.TimeoutExpired:
            self._cradle.kill()
            self._cradle.wait()
        if self._cradle.stdout is not None:
            self._cradle.stdout.close()
        self._folder.cleanup()

    def __enter__(self) -> Nursery:
        """Enter: nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """End everything."""
        self.close()


class Child:
    """A program."""

    def __init__(self, nursery: Nursery, pid: int, name: str, out: Path, err: Path) -> None:
        """Made by `Nursery.start`."""
        self._nursery, self.pid, self.name = nursery, pid, name
        self._out, self._err = out, err

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        while self._nursery.look():
            pass
        return self.pid not in self._nursery.ended

    def _fail(self, why: str) -> MrcError:
        text = "".join(f.read_text(errors="replace") for f in (self._out, self._err) if f.exists())
        said = [line for line in text.splitlines() if line.strip()]
        return MrcError(f"{self.name}: {why}{': ' + said[-1][:300] if said else ''}")

    def await_listening(self, port: int, timeout: float = 20.0) -> None:
        """Wait until something in its namespace listens on a TCP port.

        Raises:
            MrcError: it ended, or does not in time.
        """
        deadline = time.monotonic() + timeout
        while not _listens(self.pid, port):
            if not self.running:
                raise self._fail(f"ended with status {self._nursery.ended[self.pid]}")
            if time.monotonic() > deadline:
                raise self._fail(f"does not listen on port {port}")
            time.sleep(0.01)

    def json(self, timeout: float, accept: tuple[int, ...] = (0,)) -> Any:
        """Wait for the end and return the JSON on its last line.

        Raises:
            MrcError: it took too long, failed, or printed none.
        """
        deadline = time.monotonic() + timeout
        while self.running:
            if time.monotonic() > deadline:
                raise self._fail("does not end")
            self._nursery.look(0.05)
        if (status := self._nursery.ended[self.pid]) not in accept:
            raise self._fail(f"exit status {status}")
        try:
            return json.loads(self._out.read_text(encoding="utf-8").strip().splitlines()[-1])
        except (OSError, IndexError, ValueError):
            raise self._fail("printed no JSON") from None

    def stop(self) -> None:
        """End it. Idempotent."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def _listens(pid: int, port: int) -> bool:
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rsplit(":", 1)[1], 16) == port:
                    return True
    return False
