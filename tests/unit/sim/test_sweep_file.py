"""Which runs a sweep's file means, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from softmrc.errors import UsageError
from softmrc.sim.sweep_file import Sweep


def cells(**body: Any) -> list[tuple[str, int, dict[str, Any]]]:
    made = Sweep.from_table({"sweep": {"scenario": "x", **body}})
    return [(c.case, c.seed, dict(c.overrides)) for c in made.cells]


def test_seeds() -> None:
    assert cells() == [("as is", 1, {})]
    assert [seed for _, seed, _ in cells(seeds=3)] == [1, 2, 3]
    assert [seed for _, seed, _ in cells(seeds=[7, 5])] == [7, 5]


def test_a_grid_is_every_combination() -> None:
    got = cells(grid={"transport.name": ["mrc", "tcp"], "transport": {"qps": [1, 8]}})
    assert [case for case, _, _ in got] == [
        "name=mrc, qps=1",
        "name=mrc, qps=8",
        "name=tcp, qps=1",
        "name=tcp, qps=8",
    ]
    assert got[1][2] == {"transport.name": "mrc", "transport.qps": 8}


def test_cases_and_a_grid() -> None:
    got = cells(
        case=[{"name": "plain"}, {"set": {"queues": {"trim_bytes": 0}}}], grid={"transport.qps": [1, 2]}
    )
    assert [case for case, _, _ in got] == [
        "plain, qps=1",
        "plain, qps=2",
        "trim_bytes=0, qps=1",
        "trim_bytes=0, qps=2",
    ]
    assert got[2][2] == {"queues.trim_bytes": 0, "transport.qps": 1}


def test_a_file_names_scenarios_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('[sweep]\nscenario = "mine.toml"\nseeds = 2\nquick = true\n[sweep.grid]\n"a.b" = [1]\n')
    made = Sweep.load(file)
    assert made.scenario == str(tmp_path / "mine.toml")
    assert made.quick
    assert len(made.cells) == 2


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"seed": 1}, "sweep.seed is unknown"),
        ({"seeds": 0}, "from 1 to"),
        ({"seeds": []}, "from 1 to"),
        ({"seeds": [1, 1]}, "twice"),
        ({"seeds": [True]}, "whole number"),
        ({"seeds": [-1]}, "0 to 2"),
        ({"seeds": "all"}, "from 1 to"),
        ({"grid": {"a": 3}}, "list of at least one value"),
        ({"grid": {"a": []}}, "list of at least one value"),
        ({"grid": [1]}, "is a table"),
        ({"case": {"name": "x"}}, r"\[\[sweep.case\]\]"),
        ({"case": [{"nam": "x"}]}, "case 1 has a name"),
        ({"case": [{"name": 3}]}, "name is text"),
        ({"case": [{"name": "x"}, {"name": "x"}]}, "same name"),
        ({"quick": 1}, "true or false"),
        ({"scenario": 3}, "name or the file"),
        ({"seeds": 100_000, "grid": {"a": [1, 2]}}, "split the sweep"),
    ],
)
def test_what_is_no_sweep(body: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        cells(**body)


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    with pytest.raises(UsageError, match=r"cannot read .*s\.toml"):
        Sweep.load(file)
    file.write_text("[sweep\n")
    with pytest.raises(UsageError, match=r"s\.toml: .*line 1"):
        Sweep.load(file)
    file.write_text("[swep]\n")
    with pytest.raises(UsageError, match=r"s\.toml: .*unknown: swep"):
        Sweep.load(file)
