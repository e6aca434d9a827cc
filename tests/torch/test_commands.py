"""The commands that need torch, small: they run, tell what they measured, and leave nothing running."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sklearn", reason="needs torch (pip install 'softmrc[train]')")


def softmrc(*args: str, timeout: float = 100) -> tuple[int, Any, str]:
    """Run the command; exit code, its JSON, what it said to people."""
    run = subprocess.run(
        [sys.executable, "-m", "softmrc.cli.app", *args],
        capture_output=True, text=True, timeout=timeout, check=False, env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    return run.returncode, json.loads(run.stdout or "null"), run.stderr


@pytest.mark.timeout(120)
def test_bench_collectives() -> None:
    ops = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")
    code, told, said = softmrc(
        "bench",
        "collectives",
        "--op",
        ",".join(ops),
        "--ranks",
        "3",
        "--sizes",
        "1K,3M",
        "--repeat",
        "1",
        "--json",
    )
    assert told is not None, said
    assert code in (0, 1)  # whether it is fast enough is no question for a test
    assert [(r["op"], r["bytes"]) for r in told["rows"]] == [
        (op, n) for op in ops for n in (1 << 10, 3 << 20)
    ]
    for row in told["rows"]:
        assert (row["ranks"], row["wrong"], row["peer"], row["peer_wrong"]) == (3, 0, "gloo", 0)
        assert row["busbw"] == pytest.approx(
            row["bytes"] / row["time_us"] / 1e3 * factor(row["op"]), rel=0.05, abs=2e-4
        )


def factor(op: str) -> float:
    return {"all_reduce": 4 / 3, "broadcast": 1.0}.get(op, 2 / 3)


@pytest.mark.timeout(150)
def test_train_demo_over_loopback(tmp_path: Path) -> None:
    code, told, said = softmrc(
        "train-demo", "--where", "loopback", "--ranks", "2", "--steps", "40", "--width", "500", "--every", "1.5",
        "--rate", "50", "--peer", "none", "--seed", "3", "--out", str(tmp_path), "--json", timeout=140,
    )  # fmt: skip
    assert told is not None, said
    quiet, broken = told["runs"]
    assert (quiet["steps"], broken["steps"], broken["steps_lost"]) == (40, 40, 0)
    assert (quiet["failed"], broken["failed"]) == ([], [])
    assert broken["incidents"] >= 1
    assert quiet["digest"] is not None
    assert broken["digest"] == quiet["digest"]
    assert broken["final_loss"] == quiet["final_loss"]
    assert code == (0 if told["ok"] else 1)
    # On a busy machine a step may take longer than promised; nothing else may be broken.
    assert all("a step took" in line for line in told["broken"])
    assert Path(told["figure"]).stat().st_size > 10_000


def test_train_demo_refuses_nonsense() -> None:
    code, told, _ = softmrc("train-demo", "--ranks", "1", "--json")
    assert (code, told["exit_code"]) == (2, 2)
    assert "ranks is 2 to 16" in told["error"]
