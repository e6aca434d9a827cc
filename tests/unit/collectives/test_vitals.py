"""What the kernel says of the processes of this host."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from softmrc.collectives.vitals import ENDS, RUNS, STOPPED, State, Vitals, how_it_ended, state_of_stat


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """One that waits for its end: `cat`."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as proc:
        yield proc
        proc.kill()


def wait(pid: int, what: int) -> None:
    """Until it has stopped, or ended; it stays to be reaped."""
    os.waitid(os.P_PID, pid, what | os.WNOWAIT)


def test_a_process_runs_is_stopped_and_is_killed(child: subprocess.Popen[bytes]) -> None:
    vitals = Vitals({3: child.pid})
    assert vitals.all() == {3: State(RUNS)}
    child.send_signal(signal.SIGSTOP)
    wait(child.pid, os.WSTOPPED)
    assert vitals.look(3) == State(STOPPED)
    child.send_signal(signal.SIGKILL)
    wait(child.pid, os.WEXITED)
    assert vitals.look(3) == State(ENDS, "was killed (SIGKILL)")
    child.wait()
    after = vitals.look(3)  # kernels before 6.15 do not tell how
    assert after in (State(ENDS, "was killed (SIGKILL)"), State(ENDS))
    vitals.close()
    vitals.close()
    assert vitals.look(3) is None


def test_a_process_that_exits_tells_its_status() -> None:
    with subprocess.Popen(["sh", "-c", "read word; exit 3"], stdin=subprocess.PIPE) as proc:
        vitals = Vitals({0: proc.pid})
        assert vitals.look(0) == State(RUNS)
        assert proc.stdin is not None
        proc.stdin.close()
        wait(proc.pid, os.WEXITED)
        assert vitals.look(0) == State(ENDS, "exited (status 3)")
        vitals.close()


def test_of_others_nothing_is_known() -> None:
    vitals = Vitals({1: 0x3FFFFFFF})
    assert vitals.look(1) is None
    assert vitals.look(2) is None
    assert vitals.all() == {}


STAT = "77 (a ) T b) {} 1 1 1 0 -1 {} " + "0 " * 42 + "{}"


@pytest.mark.parametrize(
    ("state", "flags", "code", "expected"),
    [
        ("R", 0x400000, 0, State(RUNS)),
        ("D", 0, 0, State(RUNS)),
        ("T", 0, 19, State(STOPPED)),
        ("t", 0, 5, State(STOPPED)),
        ("R", 0x400004, 9, State(ENDS, "was killed (SIGKILL)")),
        ("Z", 0x400004, 0x300, State(ENDS, "exited (status 3)")),
        ("X", 4, 139, State(ENDS, "was killed (SIGSEGV)")),
    ],
)
def test_a_line_of_the_kernel(state: str, flags: int, code: int, expected: State) -> None:
    assert state_of_stat(STAT.format(state, flags, code)) == expected


def test_lines_that_are_none() -> None:
    assert state_of_stat("") is None
    assert state_of_stat("77 (x) R") is None
    assert how_it_ended(-1) == ""
    assert how_it_ended(65) == "was killed (signal 65)"
