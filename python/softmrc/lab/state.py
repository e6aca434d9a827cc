"""What is known on disk about a lab, so that another process can use, check and remove it.

Written before the first namespace is made and removed after the last is gone: whatever is killed in between, the next
`up` or `down` finds what has to be cleaned.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softmrc.errors import MrcError, UsageError
from softmrc.lab.spec import LabSpec, check_name
from softmrc.netns.enter import join_mounts
from softmrc.srv6 import Denylist

__all__ = ["LabState", "Process", "directory", "file_of", "known", "locked"]

_VERSION = 1
_LOCK_S = 60.0
_ANCHOR = "anchor"


def directory() -> Path:
    """Return where labs keep their state: `/run/softmrc`, or the user's own run-time directory."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    user = _user()
    if user == 0 and os.access("/run", os.W_OK):
        return Path("/run/softmrc")
    if base and os.access(base, os.W_OK):
        return Path(base) / "softmrc"
    return Path(f"/tmp/softmrc-{user if user >= 0 else f'own-{-1 - user}'}")


def file_of(name: str, kind: str) -> Path:
    """Return a file of a lab's state.

    Raises:
        UsageError: no lab can have that name: a path in it would lead to files of others.
    """
    return directory() / f"{check_name(name)}.{kind}"


def _user() -> int:
    """Return the user; a negative number for one who is root in a user namespace only."""
    try:
        first = Path("/proc/self/uid_map").read_text().split()
    except OSError:
        return os.geteuid()
    return os.geteuid() if first[2:] == [str((1 << 32) - 1)] else -1 - int(first[1])


@dataclass(frozen=True)
class Process:
    """A process, told from a later one with the same number by its start time."""

    pid: int
    start: int

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """Return the process with that number; None when there is none, or only its exit status is left."""
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        fields = text.rpartition(")")[2].split()
        return None if fields[0] in "ZX" else cls(pid, int(fields[19]))

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return Process.of(self.pid) == self


@dataclass
class LabState:
    """One lab's file.

    Attributes:
        spec: what was asked for.
        phase: "building", "up" or "stopping".
        mode: "kernel" or "soft".
        maker: the process that builds it, or whose block it lives in; None: it stays until `lab down`.
        helpers: processes outside its namespaces that belong to it (timers, switches); they end with it.
        notes: what it does without, in words.
        more: of other parts of the lab, by key, for instance "faults".
    """

    spec: LabSpec
    phase: str = "building"
    mode: str = "kernel"
    maker: Process | None = None
    helpers: list[Process] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        """Where it is kept."""
        return file_of(self.spec.name, "json")

    @property
    def fabric_file(self) -> Path:
        """What programs inside hosts read."""
        return file_of(self.spec.name, "fabric.json")

    @property
    def abandoned(self) -> bool:
        """Whether its maker is gone without having finished or removed it."""
        if self.maker is None:
            return self.phase != "up" or not self._anchored
        return not self.maker.alive

    @property
    def _anchored(self) -> bool:
        return _ANCHOR not in self.more or any(p.pid == self.more[_ANCHOR] and p.alive for p in self.helpers)

    def anchor(self) -> None:
        """Keep this process's mount namespace, the only one in which the lab's namespaces have names, for others."""
        command = [sys.executable, "-m", "softmrc.lab.anchor"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        holder = Process.of(int(done.stdout)) if done.stdout.strip().isdigit() else None
        if holder is None:
            raise MrcError(f"nothing keeps lab {self.spec.name} once this command has ended")
        self.helpers.append(holder)
        self.more[_ANCHOR] = holder.pid

    def join(self) -> None:
        """See the lab's namespaces, also where only their anchor does.

        Raises:
            MrcError: the anchor was killed, and the lab with it.
        """
        if _ANCHOR in self.more:
            if not self._anchored:
                name = self.spec.name
                raise MrcError(
                    f"lab {name} ended with the process that kept it: softmrc lab down --name {name}"
                )
            join_mounts(self.more[_ANCHOR])

    def save(self) -> None:
        """Write the file, whole or not at all."""
        data = {
            "version": _VERSION,
            "spec": self.spec.to_json(),
            "phase": self.phase,
            "mode": self.mode,
            "maker": None if self.maker is None else [self.maker.pid, self.maker.start],
            "helpers": [[p.pid, p.start] for p in self.helpers],
            "notes": self.notes,
            "more": self.more,
        }
        try:
            directory().mkdir(mode=0o755, parents=True, exist_ok=True)
            part = self.file.with_name(f".{self.file.name}.part")
            part.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
            part.replace(self.file)
        except OSError as error:
            raise MrcError(f"cannot keep the lab's state: {error.filename}: {error.strerror}") from None

    def remove(self) -> None:
        """Remove the files."""
        part = self.file.with_name(f".{self.file.name}.part")
        for file in (Denylist.beside(self.fabric_file), self.fabric_file, self.file, part):
            with contextlib.suppress(FileNotFoundError):
                file.unlink()

    @classmethod
    def load(cls, name: str) -> LabState | None:
        """Return a lab's state; None when there is no such lab.

        Raises:
            MrcError: the file cannot be read.
        """
        file = file_of(name, "json")
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
            return cls(
                LabSpec.from_json(data["spec"]),
                data["phase"],
                data["mode"],
                None if data["maker"] is None else Process(*data["maker"]),
                [Process(*p) for p in data["helpers"]],
                list(data["notes"]),
                dict(data["more"]),
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise MrcError(f"{file} is no lab's state ({error}): softmrc lab down --name {name}") from None


def known() -> list[str]:
    """Return the names of the labs on this host, in order."""
    if not directory().is_dir():
        return []
    return sorted(f.name.removesuffix(".json") for f in directory().glob("*.json") if f.name.count(".") == 1)


@contextlib.contextmanager
def locked(name: str, wait_s: float = _LOCK_S) -> Iterator[None]:
    """Keep other processes from changing the lab while the block runs.

    The lock's file goes with the lab's state.

    Raises:
        UsageError: another process is at it for longer than `wait_s`.
        MrcError: the lock file cannot be made.
    """
    file = file_of(name, "lock")
    deadline = time.monotonic() + wait_s
    while (lock := _lock(file)) is None:
        if time.monotonic() > deadline:
            raise UsageError(f"another process is changing lab {name}; try again when it is done")
        time.sleep(0.05)
    try:
        yield
    finally:
        if not file_of(name, "json").exists():
            file.unlink(missing_ok=True)
        os.close(lock)


def _lock(file: Path) -> int | None:
    """Return the open lock file; None when another process has it, or has just removed it."""
    try:
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        name = file.name.removesuffix(".lock")
        raise MrcError(f"cannot lock lab {name}: {error.filename}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_ino == file.stat().st_ino:
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(lock)
    return None
