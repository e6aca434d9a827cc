"""Compiles the lab's BPF program with the host's clang, once, and keeps the result by the hash of its source.

Decides whether this host can have BPF at all. Leaves what the program does to port.bpf.c.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path

from softmrc.lab.bpf_kernel import supported
from softmrc.lab.bpf_object import BpfObject

__all__ = ["bpf_object", "why_no_bpf"]

_SOURCE = "port.bpf.c"
_OPTIONS = ("-O2", "-g0", "-mcpu=v3", "-target", "bpf", "-Wall", "-Werror")
_VERSIONED = re.compile(r"clang-(\d+)")


def _compiler() -> str | None:
    """Return clang, or the newest clang-N where Debian's plain name is not installed."""
    if found := shutil.which("clang"):
        return found
    versions: dict[int, str] = {}
    for directory in os.get_exec_path():
        with contextlib.suppress(OSError):
            for entry in Path(directory).iterdir():
                if (match := _VERSIONED.fullmatch(entry.name)) and os.access(entry, os.X_OK):
                    versions.setdefault(int(match[1]), str(entry))
    return versions[max(versions)] if versions else None


def _cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "softmrc" / "bpf"


def _compile(clang: str, source: bytes) -> bytes:
    """Return the object (OSError: clang failed; the text has its first words)."""
    # Debian keeps the kernel's <asm/...> apart for each architecture.
    headers = f"/usr/include/{platform.machine()}-linux-gnu"
    run = subprocess.run(
        [clang, *_OPTIONS, f"-I{headers}", "-x", "c", "-c", "-", "-o", "-"],
        input=source,
        capture_output=True,
        check=False,
    )
    if run.returncode != 0:
        words = run.stderr.decode(errors="replace").strip().splitlines()
        raise OSError(f"{clang} failed: {words[0] if words else f'exit status {run.returncode}'}")
    return run.stdout


def _keep(path: Path, data: bytes) -> None:
    """Write the cache entry whole or not at all; a cache that cannot be written costs a second each time."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(data)
        Path(file.name).replace(path)


def _object_bytes() -> bytes:
    source = files("softmrc.lab").joinpath(_SOURCE).read_bytes()
    name = hashlib.sha256(source + " ".join(_OPTIONS).encode()).hexdigest()[:32]
    path = _cache_directory() / f"{name}.o"
    with contextlib.suppress(OSError):
        return path.read_bytes()
    clang = _compiler()
    if clang is None:
        raise OSError("clang is not installed (apt install clang)")
    data = _compile(clang, source)
    _keep(path, data)
    return data


@cache
def _find() -> tuple[BpfObject | None, str]:
    if why := supported():
        return None, why
    try:
        return BpfObject(_object_bytes()), ""
    except OSError as error:
        return None, error.strerror or str(error)


def bpf_object() -> BpfObject | None:
    """Return the programs, compiled at need; None where this host cannot have them, see `why_no_bpf`."""
    return _find()[0]


def why_no_bpf() -> str:
    """Return "" where labs have BPF, otherwise what is missing."""
    return _find()[1]
