"""What an endpoint takes from its host: nothing while idle, and no locked memory."""

from __future__ import annotations

import resource
import subprocess
import sys
import textwrap
import time

import pytest
from tests.unit.endpoint.conftest import Opener

_IDLE_SECONDS = 1.0
_LOCKED = textwrap.dedent(
    """
    import resource
    from softmrc import Endpoint
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
    buffer = bytearray(256 << 20)
    with Endpoint("127.0.0.1") as ep:
        region = ep.register(buffer)
        assert region.length == len(buffer)
        region.release()
    print("registered")
    """
)


def test_an_idle_endpoint_takes_no_cpu(open_endpoint: Opener) -> None:
    """B58: bounded by what a timer or two cost, not by the speed of the host."""
    open_endpoint("127.0.0.1", "127.0.0.2")
    before = resource.getrusage(resource.RUSAGE_SELF)
    time.sleep(_IDLE_SECONDS)
    after = resource.getrusage(resource.RUSAGE_SELF)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert busy < 0.02 * _IDLE_SECONDS


def test_registering_needs_no_locked_memory() -> None:
    """B59: a limit of 64 KiB on locked memory does not stop a region of 256 MiB."""
    done = subprocess.run(
        [sys.executable, "-c", _LOCKED], capture_output=True, text=True, timeout=60, check=False
    )
    if "MemoryError" in done.stderr:
        pytest.fail("this host has no 256 MiB to spare")
    assert done.stdout.strip() == "registered", done.stderr
