"""The import-linter contracts of pyproject.toml hold."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.layers.repo import ROOT


def test_contracts() -> None:
    command = Path(sys.executable).parent / "lint-imports"
    run = subprocess.run(
        [str(command), "--no-cache", "--no-logo"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
