"""Networks of their own for tests, and endpoints in them. Skips name what the host lacks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from softmrc.lab import Lab
from softmrc.lab.pytest import lab_maker
from softmrc.netns import Fabric, Namespace, missing

__all__ = ["lab_maker"]

AGENT = Path(__file__).with_name("agent.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.netns)


class AgentError(Exception):
    """What the agent's endpoint raised; `kind` is the class."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind, self.text = kind, text


class Host:
    """An endpoint in a process of its own inside a namespace; see `agent.Agent` for what it can do."""

    def __init__(self, space: Namespace) -> None:
        self.space = space
        self.process = space.popen(
            sys.executable,
            str(AGENT),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def ask(self, name: str, *args: Any, **options: Any) -> Any:
        self.post(name, *args, **options)
        return self.answer()

    def post(self, name: str, *args: Any, **options: Any) -> None:
        """Ask without waiting; `answer` fetches what comes."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": name, "args": args, "options": options}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the agent has ended"
        found = json.loads(line)
        if "error" in found:
            raise AgentError(found["kind"], found["error"])
        return found["value"]


@pytest.fixture(scope="session", autouse=True)
def _namespaces() -> None:
    if lacks := missing():
        pytest.skip(", ".join(lacks))


@pytest.fixture(scope="module")
def lab(lab_maker: Callable[..., Lab]) -> Lab:
    """A small lab in the kernel, one for the tests of a module."""
    return lab_maker(planes=2, t0=2, t1=2, hosts=4, switch="kernel")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


@pytest.fixture
def planes(stack: ExitStack) -> Callable[..., Fabric]:
    """Two hosts joined by links; see `Fabric.planes`."""

    def make(*args: Any, **options: Any) -> Fabric:
        return stack.enter_context(Fabric.planes(*args, **options))

    return make


class Joined:
    """A connection from host a to host b over all planes of a fabric."""

    def __init__(
        self,
        fabric: Fabric,
        a_planes: list[str],
        b_planes: list[str],
        dial: list[str] | None = None,
        listen: list[str] | None = None,
        **knobs: Any,
    ) -> None:
        self.fabric = fabric
        self.a, self.b = Host(fabric.a), Host(fabric.b)
        self.b.ask("open", *b_planes, **knobs)
        self.a.ask("open", *a_planes, **knobs)
        self.port = self.b.ask("listen", 4 << 20, listen)
        self.conn = self.a.ask("connect", dial or b_planes, self.port)


@pytest.fixture
def join() -> Callable[..., Joined]:
    """Connect the hosts of a fabric; keyword arguments are knobs of both ends."""

    def make(fabric: Fabric, **knobs: Any) -> Joined:
        return Joined(fabric, fabric.addresses("a"), fabric.addresses("b"), **knobs)

    return make
