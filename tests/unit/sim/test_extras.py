"""Without the libraries of an extra: one line that names it, before a run begins, and nothing written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXTRA = {"numpy": "sim", "pyarrow": "sim", "joblib": "sim", "matplotlib": "plot", "pyroute2": "bench"}
CASES = [
    ("numpy", ["sim", "list"]),
    ("numpy", ["sim", "run", "two-hosts"]),
    ("numpy", ["sim", "sweep", "none.toml"]),
    ("numpy", ["sim", "htsim", "none.cm"]),
    ("numpy", ["plot", "none"]),
    ("numpy", ["paper", "--only", "R1"]),
    ("numpy", ["bench", "sim"]),
    ("pyarrow", ["sim", "run", "two-hosts", "--out", "out"]),
    ("matplotlib", ["sim", "run", "two-hosts", "--out", "out"]),
    ("joblib", ["sim", "sweep", "none.toml"]),
]


def without(library: str, code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a Python that has no such library."""
    hide = f"import sys; sys.modules[{library!r}] = None; "
    command = [sys.executable, "-c", hide + code]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, cwd=cwd, check=False)


@pytest.mark.parametrize(("library", "args"), CASES, ids=lambda v: v if isinstance(v, str) else " ".join(v))
def test_the_missing_extra_is_named(library: str, args: list[str], tmp_path: Path) -> None:
    call = f"from softmrc.cli.app import main; main({[*args, '--json']!r})"
    ran = without(library, call, tmp_path)
    assert ran.returncode == 2
    (line,) = ran.stderr.splitlines()
    assert f"pip install 'softmrc[{EXTRA[library]}]'" in line
    assert library in line
    assert json.loads(ran.stdout) == {"ok": False, "error": line.split(": ", 1)[1], "exit_code": 2}
    assert not list(tmp_path.rglob("*.*"))


def test_formulae_need_none_of_them(tmp_path: Path) -> None:
    ran = without("numpy", "from softmrc.cli.app import main; main(['sim', 'topo', '--json'])", tmp_path)
    assert ran.returncode == 0
    assert json.loads(ran.stdout)["fabric"]["nics"] == 131_072


def test_the_python_side_names_it_too(tmp_path: Path) -> None:
    ran = without("numpy", "import softmrc; import softmrc.sim.run", tmp_path)
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].endswith(
        "softmrc.sim needs numpy, which is not installed: pip install 'softmrc[sim]'"
    )
