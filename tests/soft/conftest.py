"""Labs of user-space switches, and endpoints in their hosts. Needs neither root nor namespaces."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from softmrc.lab import Lab, LabSpec
from softmrc.lab.soft import SoftLab

AGENT = Path(__file__).parent.parent / "netns" / "agent.py"
_numbers = itertools.count()


def fresh_name() -> str:
    """Return a name that no other lab of this host has."""
    return f"u{os.getpid()}x{next(_numbers)}"


class Host:
    """An endpoint in a process of its own inside a host; see tests/netns/agent.py for what it can do."""

    def __init__(self, lab: SoftLab, name: str) -> None:
        self.lab, self.name = lab, name
        self.process = lab.popen(
            name, sys.executable, str(AGENT), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )  # fmt: skip

    def ask(self, name: str, *args: Any, **options: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"do": name, "args": args, "options": options}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the agent has ended"
        found = json.loads(line)
        assert "error" not in found, found
        return found["value"]

    def open(self, **knobs: Any) -> list[dict[str, Any]]:
        """Open an endpoint on all planes of the host."""
        found: list[dict[str, Any]] = self.ask("open", *self.lab.addresses(self.name), **knobs)
        return found


class Joined:
    """A connection from one host to another, over all planes."""

    def __init__(self, lab: SoftLab, a: str, b: str, **knobs: Any) -> None:
        self.a, self.b = Host(lab, a), Host(lab, b)
        self.b.open(**knobs)
        self.a.open(**knobs)
        self.port = self.b.ask("listen", 4 << 20)
        self.conn = self.a.ask("connect", lab.addresses(b), self.port)

    def sent(self) -> dict[str, int]:
        """Packets sent so far, by the path in words."""
        found: dict[str, int] = {}
        for path in self.a.ask("paths", self.conn):
            found[path["path"]] = found.get(path["path"], 0) + path["sent"]
        return found


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Poll until a condition holds, or the time is over."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture(scope="module")
def make_lab() -> Iterator[Callable[..., SoftLab]]:
    """Make labs with the fields of `LabSpec`; they end with the module."""
    with ExitStack() as stack:

        def make(**fields: Any) -> SoftLab:
            made = Lab.up(LabSpec(**{"name": fresh_name(), "switch": "soft", **fields}))
            assert isinstance(made, SoftLab)
            stack.enter_context(made)
            return made

        yield make


@pytest.fixture(scope="module")
def lab(make_lab: Callable[..., SoftLab]) -> SoftLab:
    """Two planes of two T0s and two T1s, four hosts, links of 200 Mbit/s."""
    return make_lab(planes=2, t0=2, t1=2, hosts=4, rate_bps=200_000_000)
