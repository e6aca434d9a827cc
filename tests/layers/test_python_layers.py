"""The import-linter contracts of pyproject.toml hold, and _core (compiled, so unseen by it) is used where it may."""

from __future__ import annotations

import ast
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


# The packages that may import the compiled module; all others go through these.
USES_CORE = {
    "device",
    "verbs",
    "ctl",
    "vectors",
    "chaos",
    "demo",
    "bench",
    "perf",
    "sim",
    "cli",
    "collectives",
    "lab",
}


MODEL_USES = ("softmrc.wire", "softmrc.errors")


def imports(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_only_thin_layers_touch_the_compiled_module() -> None:
    package = ROOT / "python" / "softmrc"
    users = {
        file.relative_to(package).parts[0]
        for file in package.rglob("*.py")
        if any(name.startswith("softmrc._core") for name in imports(file))
    }
    assert users <= USES_CORE
    assert "verbs" in users


def test_the_packet_model_imports_only_itself_and_errors() -> None:
    for file in (ROOT / "python" / "softmrc" / "wire").rglob("*.py"):
        wrong = {n for n in imports(file) if n.startswith("softmrc") and not n.startswith(MODEL_USES)}
        assert not wrong, f"{file.name}: {wrong}"
