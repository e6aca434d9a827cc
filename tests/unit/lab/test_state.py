"""What is kept on disk about a lab."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from softmrc.errors import MrcError, UsageError
from softmrc.lab import state as lab_state
from softmrc.lab.snapshot import differences
from softmrc.lab.spec import LabSpec
from softmrc.lab.state import LabState, Process, known, locked


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    found = tmp_path / "state"
    monkeypatch.setattr(lab_state, "directory", lambda: found)
    return found


def test_a_state_survives_its_file_and_is_found(folder: Path) -> None:
    own = Process.of(os.getpid())
    assert own is not None
    state = LabState(LabSpec(name="x"), "up", "kernel", own, [own], ["a note"], {"faults": [1]})
    state.save()
    (folder / "x.fabric.json").write_text("{}")
    assert LabState.load("x") == state
    assert known() == ["x"]
    state.remove()
    assert (LabState.load("x"), known()) == (None, [])
    state.remove()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"spec": {}}', '{"spec": {"colour": 1}}', "\xff"])
def test_damaged_files_are_told_with_the_way_out(folder: Path, text: str) -> None:
    folder.mkdir()
    (folder / "x.json").write_text(text, encoding="latin-1")
    with pytest.raises(MrcError, match="softmrc lab down --name x"):
        LabState.load("x")


def test_whether_a_lab_was_left_behind() -> None:
    own = Process.of(os.getpid())
    with subprocess.Popen(["true"]) as child:
        gone = Process(child.pid, 1)
    assert not gone.alive
    spec = LabSpec(name="x")
    assert not LabState(spec, "building", maker=own).abandoned
    assert LabState(spec, "building", maker=gone).abandoned
    assert LabState(spec, "stopping").abandoned
    assert not LabState(spec, "up").abandoned
    assert LabState(spec, "up", maker=gone).abandoned


def test_a_later_process_with_the_same_number_is_another() -> None:
    own = Process.of(os.getpid())
    assert own is not None
    assert own.alive
    assert not Process(own.pid, own.start + 1).alive
    assert Process.of(2**22 + 1) is None


def test_an_ended_process_nobody_has_fetched_is_dead() -> None:
    child = subprocess.Popen(["true"], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.read()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert Process.of(child.pid) is None
    child.wait()
    child.stdout.close()


def test_one_at_a_time() -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with locked("x"):
            inside.set()
            leave.wait(10)

    other = threading.Thread(target=hold)
    other.start()
    assert inside.wait(10)
    with pytest.raises(UsageError, match="another process is changing lab x"), locked("x", 0.0):
        pass
    with locked("y", 0.0):
        pass
    leave.set()
    other.join()
    with locked("x", 5.0):
        pass


def test_where_nothing_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_state, "directory", lambda: Path("/proc/nowhere"))
    with pytest.raises(MrcError, match="cannot keep the lab's state"):
        LabState(LabSpec(name="x")).save()
    with pytest.raises(MrcError, match="cannot lock lab x"), locked("x"):
        pass


def test_differences_say_what_is_gone_and_what_is_new() -> None:
    a = {"h0": {"routes": [{"dst": "x"}, {"dst": "y"}], "nft": []}}
    b = {"h0": {"routes": [{"dst": "y"}], "nft": [{"rule": 1}]}}
    assert differences(a, a) == []
    assert differences(a, b) == ['h0: nft: new: {"rule": 1}', 'h0: routes: gone: {"dst": "x"}']
    assert len(differences(a, {})) == 2
