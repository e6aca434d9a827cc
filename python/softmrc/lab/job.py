"""A synchronous job over a lab: a ring of hosts that all wait for the slowest in every step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from softmrc.errors import MrcError

if TYPE_CHECKING:
    from softmrc.lab.lab import Lab

__all__ = ["Job"]

_WAIT_S = 30.0


class Job:
    """The programs of a job; a context manager."""

    def __init__(self, lab: Lab, hosts: Sequence[str], queue_pairs: int = 1, **knobs: Any) -> None:
        """Start a program in each host and connect them to a ring.

        Args:
            lab: where.
            hosts: in the order of the ring.
            queue_pairs: from each host to the next.
            knobs: of their endpoints.

        Raises:
            MrcError: one did not come up.
        """
        self._lab, self.hosts = lab, list(hosts)
        command = [sys.executable, "-m", "softmrc.lab.job_end", str(queue_pairs), json.dumps(knobs)]
        pipes: dict[str, Any] = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.DEVNULL,
        }
        self._members = [lab.popen(host, *command, **pipes) for host in self.hosts]
        try:
            ports = [self._read(i)["port"] for i in range(len(self.hosts))]
            for i in range(len(self.hosts)):
                after = (i + 1) % len(self.hosts)
                self._tell(i, do="connect", addresses=lab.addresses(self.hosts[after]), port=ports[after])
            for i in range(len(self.hosts)):
                self._checked(i)
        except BaseException:
            self.close()
            raise

    def _tell(self, which: int, **words: Any) -> None:
        stdin = self._members[which].stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(words) + "\n")
            stdin.flush()
        except OSError:
            raise MrcError(f"the job's program in {self.hosts[which]} has ended") from None

    def _read(self, which: int) -> dict[str, Any]:
        stdout = self._members[which].stdout
        assert stdout is not None
        line = stdout.readline()
        if not line:
            raise MrcError(f"the job's program in {self.hosts[which]} has ended")
        found: dict[str, Any] = json.loads(line)
        return found

    def _checked(self, which: int) -> dict[str, Any]:
        found = self._read(which)
        if "error" in found:
            raise MrcError(f"{self.hosts[which]}: {found['error']}")
        return found

    def step(self, size: int, timeout: float = _WAIT_S) -> float:
        """Let every host send `size` bytes to the next; returns seconds until all were done.

        Raises:
            MrcError: a host failed, or took longer than `timeout` seconds.
        """
        if why := self.try_step(size, timeout):
            raise MrcError(why)
        return self._took

    def try_step(self, size: int, timeout: float) -> str | None:
        """Do a step; returns what went wrong, None: nothing."""
        began = time.monotonic()
        for i in range(len(self.hosts)):
            self._tell(i, do="step", size=size, timeout=timeout)
        answers = [self._read(i) for i in range(len(self.hosts))]
        self._took = time.monotonic() - began
        return next(
            (f"{h}: {a['error']}" for h, a in zip(self.hosts, answers, strict=True) if "error" in a), None
        )

    def look(self) -> list[dict[str, Any]]:
        """Return the counters of every queue pair, in order."""
        for i in range(len(self.hosts)):
            self._tell(i, do="look")
        return [qp for i in range(len(self.hosts)) for qp in self._checked(i)["queue_pairs"]]

    def close(self) -> None:
        """End the programs. Idempotent."""
        for member in self._members:
            if member.poll() is None:
                member.kill()
            member.wait()
            for pipe in (member.stdin, member.stdout):
                if pipe is not None:
                    try:
                        pipe.close()
                    except OSError:
                        os.close(pipe.fileno())

    def __enter__(self) -> Job:
        """Enter: nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """End them."""
        self.close()
