"""The denylist: what a path passes, and the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from softmrc.errors import UsageError
from softmrc.srv6 import Denylist, passed


def test_a_path_passes_its_plane_ports_switches_and_links() -> None:
    assert set(passed(2, "h0", ("t0-0", "t1-3", "t0-1"), "h7")) == {
        "p2", "h0", "h7", "h0.p2", "h7.p2", "p2.t0-0", "p2.t1-3", "p2.t0-1", "p2.t0-0.t1-3", "p2.t0-1.t1-3",
    }  # fmt: skip
    assert "p1.t1-2.t2-10" in set(passed(1, "h0", ("t0-9", "t1-2", "t2-10", "t1-5", "t0-10"), "h1"))


def test_the_worst_element_counts() -> None:
    denied = Denylist({"h7.p2": 0.1, "p2.t1-3": 0.4, "p3": 1.0})
    assert denied.worst(2, "h0", ("t0-0", "t1-3", "t0-1"), "h7") == 0.4
    assert denied.worst(2, "h0", ("t0-0", "t1-2", "t0-1"), "h7") == 0.1
    assert denied.worst(1, "h0", ("t0-0", "t1-3", "t0-1"), "h7") is None


def test_the_file_comes_and_goes_with_what_is_denied(tmp_path: Path) -> None:
    file = Denylist.beside(tmp_path / "lab.fabric.json")
    assert file.parent == tmp_path
    assert Denylist.read(file) == Denylist()
    some = Denylist({"h0.p1": 0.02, "p2.t0-0.t1-1": 1})
    some.write(file)
    assert Denylist.read(file) == some
    Denylist().write(file)
    assert not list(tmp_path.iterdir())
    Denylist().write(file)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": "softmrc-denied", "version": 2, "denied": {}}',
     '{"format": "softmrc-denied", "version": 1, "denied": ["h0.p1"]}',
     '{"format": "softmrc-denied", "version": 1, "denied": {"h0.p1": "all"}}',
     '{"format": "softmrc-denied", "version": 1, "denied": {"eth0": 1}}',
     '{"format": "softmrc-denied", "version": 1, "denied": {"h0.p1": 2}}'],
)  # fmt: skip
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(UsageError):
        Denylist.read(file)


def test_what_is_no_element_is_refused() -> None:
    for name in ("h0.p", "p1.t3-0", "t0-0", "h0.nic"):
        with pytest.raises(UsageError, match=name):
            Denylist({name: 1.0})
    assert json.loads(json.dumps(dict(Denylist({"p1.t0-0.t1-0": 1.0}).denied)))
