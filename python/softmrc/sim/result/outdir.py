"""The folder a result goes to: found out to be writable before the run, not after it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from softmrc.errors import UsageError

__all__ = ["prepare", "write_file"]


def prepare(folder: str | os.PathLike[str]) -> Path:
    """Return the folder, made if need be, after a file was written to it and taken away.

    Raises:
        UsageError: it cannot be made or written to, or is no folder; the text says which and what to do.
    """
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path, prefix=".softmrc-"):
            pass
    except FileExistsError:
        raise UsageError(f"{path} is a file; name a folder for the results") from None
    except OSError as error:
        where = error.filename or path
        raise UsageError(
            f"cannot write results to {path}: {where}: {error.strerror}; name another folder"
        ) from None
    return path


def write_file(path: Path, data: bytes) -> None:
    """Write a file so that whoever looks finds the old one or the new one, never half of it.

    Raises:
        OSError: the disk is full, or the folder has been taken away.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
