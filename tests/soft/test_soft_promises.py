"""What the lab promises, on the user-space switch, by processes without any privilege: paths, incast, paper targets.

Only counts and order are judged, at rates that a busy machine holds; how fast it all is, docs/lab-soft.md says.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest

from softmrc.lab.incast import Incast, run_incast
from softmrc.lab.state import known

from .conftest import fresh_name

_DROP = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--securebits=+noroot")


def unprivileged() -> list[str]:
    """Return what a command begins with that may have no capability; nothing where nobody here has any."""
    return list(_DROP) if os.geteuid() == 0 else []


def softmrc(*words: str, accept: tuple[int, ...] = (0,)) -> Any:
    """Run the command as such a process; returns its JSON."""
    command = [*unprivileged(), sys.executable, "-m", "softmrc.cli.app", *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode in accept, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(autouse=True)
def _can_drop() -> None:
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("needs setpriv (util-linux) to give its privileges up")
        status = subprocess.run([*_DROP, "cat", "/proc/self/status"], capture_output=True, text=True).stdout
        if "CapEff:\t0000000000000000" not in status:
            pytest.skip("setpriv cannot drop capabilities here")


def test_every_path_of_the_promised_fabric_by_a_user_without_privileges() -> None:
    """4 planes, 2 T0s and 4 T1s each, 8 hosts: 608 paths, each over the switches it names; nothing stays."""
    name = fresh_name()
    fabric = ["--planes", "4", "--t0", "2", "--t1", "4", "--hosts", "8"]
    assert softmrc("lab", "up", "--switch", "soft", *fabric, "--name", name)["mode"] == "soft"
    try:
        found = softmrc("lab", "test", "--name", name)
    finally:
        softmrc("lab", "down", "--name", name)
    assert (found["ok"], found["paths_ok"], found["paths_total"]) == (True, 608, 608)
    assert name not in known()


def test_incast_is_trimmed_and_hardly_a_path_is_blamed() -> None:
    """A header lost in the sockets of a busy host blames its path, and rightly; drops blame hundreds."""
    plan = Incast(
        senders=4, planes=2, rate_bps=50_000_000, seconds=2.0, warm=1.0, name=fresh_name(), switch="soft"
    )
    found = run_incast(plan, True, lambda _: None)
    assert (found.trimming, found.errors) == ("", [])
    assert found.trimmed > 100, "nothing was congested"
    assert found.trimmed_share >= 0.99
    assert found.nacked_share >= 0.99
    without = run_incast(plan, False, lambda _: None)
    assert (without.trimmed, without.nacks) == (0, 0)
    assert found.assumed_bad < without.assumed_bad / 10, (found, without)


def test_a_target_of_the_paper_by_a_user_without_privileges() -> None:
    words = ["lab", "paper", "--switch", "soft", "--quick", "--only", "R22", "--name", fresh_name()]
    found = softmrc(*words, accept=(0, 1))
    assert found["results"][0]["met"], found["results"][0]["note"]
