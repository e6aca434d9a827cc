"""Where things lie in this repository; shared by the layer gates."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "core"
BUILD = Path(os.environ.get("SOFTMRC_BUILD", ROOT / "build" / "dev"))


@cache
def tracked() -> tuple[Path, ...]:
    """Returns every file of the repository: tracked by git, or new and not ignored; all files without git."""
    git = subprocess.run(
        [
            "git",
            "-c",
            f"safe.directory={ROOT}",
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if git.returncode == 0 and git.stdout:
        names = git.stdout.decode().split("\0")
        return tuple(sorted(ROOT / n for n in names if n and (ROOT / n).is_file()))
    skipped = {".git", ".venv", "build", "dist", "__pycache__"}
    return tuple(sorted(p for p in ROOT.rglob("*") if p.is_file() and not skipped & set(p.parts)))
