"""The simulator asks for memory before its turn: gcc drops calls that only prefetch unless they are inlined."""

from __future__ import annotations

import re
import subprocess

import pytest
from tests.layers.repo import BUILD

FUNCTIONS = ("Simulation::run_ports", "Simulation::run_port", "Simulation::run_hosts")
PREFETCH = re.compile(r"\t(prefetch\w*|prfm|dcbt)\b")  # x86, Arm, POWER


def prefetches(listing: str) -> dict[str, int]:
    """Return the number of prefetches of each function of a disassembly."""
    found: dict[str, int] = {}
    function = ""
    for line in listing.splitlines():
        if line.endswith(">:"):
            function = line.split("<", 1)[1].split("(")[0]
        elif PREFETCH.search(line):
            found[function] = found.get(function, 0) + 1
    return found


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_loops_of_the_simulator_prefetch(function: str) -> None:
    lib = BUILD / "core" / "sim" / "libmrc_sim.a"
    assert lib.exists(), f"{lib} is missing: run `make build` first"
    run = subprocess.run(["objdump", "-dC", str(lib)], capture_output=True, text=True, check=True)
    assert prefetches(run.stdout).get(f"mrc::sim::{function}", 0) > 0


def test_a_listing_without_prefetches_shows_none() -> None:
    listing = "0000 <f(int)>:\n  0:\t0f 18 08 \tprefetcht0 (%rax)\n0010 <g()>:\n  4:\tc3 \tret\n"
    assert prefetches(listing) == {"f": 1}
