"""Fixtures for tests against a lab: `pytest_plugins = ["softmrc.lab.pytest"]` in the top conftest.py.

def test_mine(lab):
    out = lab.run("h0", "my-program", lab.addresses("h1")[0])

Making a lab costs about a second, so a module's tests share theirs; whatever they break they have to heal. Where labs
cannot be made in the kernel, the user-space switch takes its place, or, for `switch="kernel"`, tests are skipped.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from softmrc.lab.host import kernel_lacks
from softmrc.lab.lab import Lab
from softmrc.lab.spec import LabSpec

__all__ = ["lab", "lab_maker"]

_numbers = itertools.count()


@pytest.fixture(scope="module")
def lab_maker() -> Iterator[Callable[..., Lab]]:
    """Make labs: `lab_maker(planes=2, ...)` takes the fields of `LabSpec`; they end with the module."""
    with ExitStack() as stack:

        def make(**fields: Any) -> Lab:
            if fields.get("switch") == "kernel" and (lacks := kernel_lacks()):
                pytest.skip(", ".join(lacks))
            fields.setdefault("name", f"t{os.getpid()}x{next(_numbers)}")
            return stack.enter_context(Lab.up(LabSpec(**fields)))

        yield make


@pytest.fixture(scope="module")
def lab(lab_maker: Callable[..., Lab]) -> Lab:
    """A small lab: 2 planes of 2 T0s and 2 T1s, 4 hosts, links of 200 Mbit/s."""
    return lab_maker(planes=2, t0=2, t1=2, hosts=4)
