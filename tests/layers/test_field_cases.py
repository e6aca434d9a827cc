"""Every test named in docs/field-cases.md exists, and no row is without one."""

from __future__ import annotations

import re

import pytest
from tests.layers.repo import ROOT

ROW = re.compile(r"^\| (B\d\d) \| (.*?) \| (.*?) ?\|$", re.MULTILINE)


def rows() -> list[tuple[str, str]]:
    return [
        (case, test.strip("` ")) for case, _, test in ROW.findall((ROOT / "docs/field-cases.md").read_text())
    ]


def exists(test: str) -> bool:
    if "::" in test:
        file, name = test.split("::")
        pattern = rf"def {re.escape(name)}\("
    else:
        file, name = test.split(": ", 1)
        pattern = r"TEST_CASE\(\s*" + re.escape(f'"{name}")')
    path = ROOT / file
    return path.exists() and re.search(pattern, path.read_text()) is not None


@pytest.mark.parametrize(("case", "test"), rows())
def test_named_test_exists(case: str, test: str) -> None:
    assert test, f"{case} has no test"
    assert exists(test), f"{case}: no test {test}"


def test_the_cases_of_this_stage_are_listed() -> None:
    listed = {case for case, _ in rows()}
    wanted = "B09 B15 B17 B20 B21 B22 B23 B24 B28 B29 B30 B31 B34 B37 B49 B50 B51 B53 B55 B66"
    assert set(wanted.split()) <= listed
