"""Nothing stays of a user-space lab, also when any part of it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from softmrc.errors import MrcError
from softmrc.lab import Lab, LabSpec
from softmrc.lab.remove import end_lab
from softmrc.lab.soft import SoftLab
from softmrc.lab.soft_end import programs
from softmrc.lab.soft_switch import control_file
from softmrc.lab.state import LabState, Process, directory

from .conftest import fresh_name, wait_for

_MAKE = """
import sys, time
from softmrc.lab import Lab, LabSpec
lab = Lab.up(LabSpec(name=sys.argv[1], planes=1, t0=1, t1=0, hosts=2, switch="soft"), keep=sys.argv[2] == "keep")
print(lab.state.helpers[0].pid, flush=True)
if sys.argv[2] != "keep":
    time.sleep(60)
"""

_ORPHAN = """
import subprocess, sys
away = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], **away).pid)
"""


def _up(name: str, keep: bool = False) -> SoftLab:
    lab = Lab.up(LabSpec(name=name, planes=1, t0=1, t1=0, hosts=2, switch="soft"), keep=keep)
    assert isinstance(lab, SoftLab)
    return lab


def _files(name: str) -> list[str]:
    return [f.name for f in directory().glob(f"*{name}*") if not f.name.endswith(".lock")]


def _gone(pid: int) -> bool:
    found = Process.of(pid)
    return found is None or Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_down_ends_switch_and_programs_and_works_twice() -> None:
    lab = _up(fresh_name())
    child = lab.popen("h0", sys.executable, "-c", "import time; time.sleep(60)")
    # One that left its group and lost its parent is found by what it was told about its fabric.
    orphan = int(lab.run("h1", sys.executable, "-c", _ORPHAN))
    switch = lab.state.helpers[0].pid
    assert wait_for(lambda: {child.pid, orphan} <= {p.pid for p in programs(lab.name)})
    lab.down()
    assert wait_for(lambda: _gone(orphan) and _gone(switch))
    assert child.poll() is not None
    assert _files(lab.name) == []
    lab.down()
    end_lab(lab.name)


def test_the_switch_ends_with_the_process_that_made_it_also_after_sigkill() -> None:
    name = fresh_name()
    maker = subprocess.Popen([sys.executable, "-c", _MAKE, name, "block"], stdout=subprocess.PIPE, text=True)
    assert maker.stdout is not None
    switch = int(maker.stdout.readline())
    maker.send_signal(signal.SIGKILL)
    maker.wait()
    maker.stdout.close()
    assert wait_for(lambda: _gone(switch))
    with _up(name) as again:  # what was left behind is in nobody's way
        assert again.verify().down == []
    assert _files(name) == []


def test_a_kept_lab_outlives_its_maker_and_is_found_and_ended_by_name() -> None:
    name = fresh_name()
    switch = int(
        subprocess.run(
            [sys.executable, "-c", _MAKE, name, "keep"], capture_output=True, text=True, check=True
        ).stdout
    )
    try:
        lab = Lab.load(name)
        assert isinstance(lab, SoftLab)
        assert lab.state.helpers[0].pid == switch
        assert lab.verify().down == []
    finally:
        end_lab(name)
    assert wait_for(lambda: _gone(switch))
    assert _files(name) == []


def test_a_killed_switch_is_told_and_its_lab_can_be_removed() -> None:
    lab = _up(fresh_name())
    try:
        os.kill(lab.state.helpers[0].pid, signal.SIGKILL)
        assert wait_for(lambda: _gone(lab.state.helpers[0].pid))
        with pytest.raises(MrcError, match="does not answer"):
            lab.verify()
        with _up(lab.name) as again:  # a lab without its switch is none
            assert again.verify().down == []
    finally:
        lab.down()
    assert _files(lab.name) == []
    assert not control_file(lab.name).exists()
    assert LabState.load(lab.name) is None


def test_b45_five_equal_runs_give_equal_state_and_leave_nothing() -> None:
    name = fresh_name()
    seen = []
    for _ in range(5):
        with _up(name) as lab:
            seen.append((lab.snapshot(), sorted(lab.fabric().gateways), lab.plan.nodes.keys()))
    assert all(one == seen[0] for one in seen)
    assert _files(name) == []
    assert programs(name) == []


def test_labs_stand_beside_each_other() -> None:
    with _up(fresh_name()) as one, _up(fresh_name()) as two:
        assert one.fabric().meeting != two.fabric().meeting
        assert not set(one.fabric().gateways.values()) & set(two.fabric().gateways.values())


_IN_A_SPACE = """
import sys
from softmrc.lab import Lab, LabSpec
from softmrc.lab.probe import probe
with Lab.up(LabSpec(name=sys.argv[1], planes=2, t0=2, t1=2, hosts=2, switch="soft")) as lab:
    found = probe(lab)
    print(found.paths_ok, found.paths_total, lab.run("h0", "id", "-u").strip())
"""


def test_b43_in_a_user_namespace_of_its_own_where_loopback_is_down() -> None:
    name = fresh_name()
    tried = subprocess.run(["unshare", "-Urn", "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"needs user namespaces: {tried.stderr.strip()}")
    done = subprocess.run(
        ["unshare", "-Urn", sys.executable, "-c", _IN_A_SPACE, name], capture_output=True, text=True, timeout=60
    )  # fmt: skip
    assert done.stdout.split() == ["8", "8", "0"], done.stderr
    assert _files(name) == []
