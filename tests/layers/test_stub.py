"""The interface of _core is the reviewed one."""

from __future__ import annotations

import difflib

from tests.layers.repo import ROOT


def test_stub_equals_reference() -> None:
    built = (ROOT / "python/softmrc/_core.pyi").read_text().splitlines()
    reference = (ROOT / "tests/data/_core.pyi.ref").read_text().splitlines()
    diff = list(difflib.unified_diff(reference, built, "tests/data/_core.pyi.ref", "_core.pyi", lineterm=""))
    assert diff == [], "accept with `make stub-update`:\n" + "\n".join(diff)
