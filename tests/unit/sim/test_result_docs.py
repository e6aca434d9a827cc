"""The Python of docs/sim.md runs as it stands, and the documents name what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.layers.repo import ROOT
from tests.unit.sim.outcomes import outcome, workload
from tests.unit.sim.small import write

from softmrc.sim.result import Rates, Result

GUIDE = (ROOT / "docs" / "sim.md").read_text()
RESULTS = (ROOT / "docs" / "sim-results.md").read_text()


def test_the_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    (tmp_path / "sweep.toml").write_text('[sweep]\nscenario = "small.toml"\nquick = true\n')
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert len(blocks) == 2
    space: dict[str, Any] = {}
    for block in blocks:
        exec(block, space)
    assert capsys.readouterr().out.startswith("done ")
    assert space["out"].totals["data_packets_rtx"] > 0
    assert (tmp_path / "steps.svg").exists()
    assert space["rows"][0]["tasks_done"] == 16


def test_every_section_is_described() -> None:
    work = workload(sends=[(0, 1, 10)])
    made = Result(name="x", transport="mrc", settings={}, workload=work, outcome=outcome(work, [5]))
    missing = [name for name in made.document() if f"`{name}`" not in RESULTS]
    assert missing == []


def test_every_rate_is_described_with_its_default() -> None:
    for name, value in Rates().to_json().items():
        if name != "sources":
            assert f"`{name}`" in RESULTS
        if isinstance(value, float) and name != "gpus_per_host":
            assert f"| {value:g}" in RESULTS or f"| {value:.2f}" in RESULTS
