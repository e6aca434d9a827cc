"""Where a report goes: a folder with the JSON, the page, the curves and the figures."""

from __future__ import annotations

import json
import os
from pathlib import Path

from softmrc.errors import UsageError
from softmrc.paper.report import Report

__all__ = ["prepare", "store"]


def prepare(folder: str) -> Path:
    """Make the folder and see that it takes files, before hours of computing.

    Raises:
        UsageError: It cannot be made or written.
    """
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".writable"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise UsageError(
            f"--out {folder}: {error.strerror or error}; name a folder that can be written"
        ) from None
    return path


def store(report: Report, folder: Path) -> tuple[list[Path], str]:
    """Write paper.json, paper.md, curves.json and the figures.

    Args:
        report: What to write.
        folder: As `prepare` returned it.

    Returns:
        The files written, and why there are no figures ("" when there are).
    """
    files = [folder / name for name in ("paper.json", "paper.md", "curves.json")]
    files[0].write_text(json.dumps(report.as_dict(), indent=1) + os.linesep)
    files[1].write_text(report.markdown())
    files[2].write_text(json.dumps(report.curves()) + os.linesep)
    try:
        from softmrc.paper.figures import draw

        return [*files, *draw(report.curves(), folder)], ""
    except ImportError:
        return files, "no figures: matplotlib is not installed (pip install 'softmrc[plot]')"
