"""How the processes of this host's other ranks are, as the kernel tells: run, are stopped, or end, and by what.

A rank that does not answer may be stopped, or dying: a process that is killed gives its memory back first and closes
its sockets last, which takes a while when there is much of it. Decides nothing; who is to blame is `cause.py`'s. A
process is held by a descriptor (pidfd), so that a reused number is never taken for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

__all__ = ["ENDS", "RUNS", "STOPPED", "State", "Vitals", "how_it_ended", "state_of_stat"]

RUNS, STOPPED, ENDS = "runs", "stopped", "ends"
_EXITING = 0x4  # PF_EXITING
_STATE, _FLAGS, _EXIT_CODE = 0, 6, 49  # fields of /proc/PID/stat behind the name
_INFO = struct.Struct("QQ12I")  # struct pidfd_info: mask, cgroup, eleven ids, exit code
_GET_INFO = 0xC040FF0B  # PIDFD_GET_INFO
_INFO_EXIT, _INFO_EXIT_AT = 1 << 3, 13


class State(NamedTuple):
    """Of one process."""

    kind: str
    """RUNS, STOPPED or ENDS."""
    how: str = ""
    """How it ends, in words: "was killed (SIGKILL)"; empty when the kernel does not say."""


class Vitals:
    """Processes that are looked at."""

    def __init__(self, pids: Mapping[int, int]) -> None:
        """Hold the processes.

        Args:
            pids: their numbers, by rank; of living processes.
        """
        self._held: dict[int, tuple[int, int]] = {}
        for rank, pid in pids.items():
            with contextlib.suppress(OSError):  # gone by now, or a kernel without pidfds
                self._held[rank] = (pid, os.pidfd_open(pid))

    def look(self, rank: int) -> State | None:
        """Return how the process of a rank is now; None when it is none of this host's, or nothing is known."""
        held = self._held.get(rank)
        if held is None:
            return None
        pid, fd = held
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            stat = ""
        try:
            signal.pidfd_send_signal(fd, 0)  # what was read is of this process, if it is still there
        except ProcessLookupError:
            return State(ENDS, _left_behind(fd))
        except OSError:
            return None
        return state_of_stat(stat)

    def all(self) -> dict[int, State]:
        """Return how all are of which something is known."""
        return {rank: state for rank in list(self._held) if (state := self.look(rank)) is not None}

    def close(self) -> None:
        """Let go of the processes. Idempotent."""
        held, self._held = self._held, {}
        for _, fd in held.values():
            with contextlib.suppress(OSError):
                os.close(fd)


def state_of_stat(stat: str) -> State | None:
    """Read a line of /proc/PID/stat; None when it is none."""
    fields = stat.rpartition(")")[2].split()
    try:
        state, flags = fields[_STATE], int(fields[_FLAGS])
        code = int(fields[_EXIT_CODE]) if len(fields) > _EXIT_CODE else -1
    except (IndexError, ValueError):
        return None
    if state in "ZX" or flags & _EXITING:
        return State(ENDS, how_it_ended(code))
    return State(STOPPED) if state in "Tt" else State(RUNS)


def how_it_ended(code: int) -> str:
    """Return an exit code as `wait` gives it in words; empty when it is none."""
    if code < 0:
        return ""
    number = code & 0x7F
    if not number:
        return f"exited (status {code >> 8 & 0xFF})"
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return f"was killed ({name})"


def _left_behind(fd: int) -> str:
    """Return how a process ended that nobody knows any more; kernels before 6.15 do not tell."""
    data = bytearray(_INFO.size)
    _INFO.pack_into(data, 0, _INFO_EXIT, *(0,) * 13)
    try:
        fcntl.ioctl(fd, _GET_INFO, data)
    except OSError:
        return ""
    found = _INFO.unpack(data)
    return how_it_ended(found[_INFO_EXIT_AT]) if found[0] & _INFO_EXIT else ""
