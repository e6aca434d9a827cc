"""Namespaces by the dozen: made, entered and removed by the calling thread itself, without a process for each.

Decides how a thread changes its network namespace and comes back; leaves names and contents to its users. Sockets
(netlink ones too) stay in the namespace in which they were opened, so one thread can hold many namespaces at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from softmrc.errors import MrcError

__all__ = [
    "DIRECTORY",
    "create",
    "delete",
    "end_processes",
    "entered",
    "join_mounts",
    "make_room",
    "names",
    "processes",
]

DIRECTORY = Path("/run/netns")
_CLONE_NEWNET, _CLONE_NEWNS, _CLONE_FS = 0x40000000, 0x20000, 0x200
_MS_BIND, _MS_REC, _MS_PRIVATE, _MS_SHARED = 0x1000, 0x4000, 0x40000, 0x100000
_MNT_DETACH = 2
_OWN = b"/proc/thread-self/ns/net"
_libc = ctypes.CDLL(None, use_errno=True)


def _call(what: str, result: int) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise MrcError(f"{what}: {os.strerror(error)}")


def _mount(source: bytes, target: Path, flags: int, kind: bytes = b"none") -> int:
    return int(_libc.mount(source, os.fsencode(target), kind, ctypes.c_ulong(flags), None))


def make_room() -> bool:
    """Make the directory of namespaces usable, as `ip netns` does.

    In a user namespace (`unshare -Urn`) it belongs to somebody else; then one of our own is mounted over it, and if
    even that is not allowed, this process leaves for a mount namespace of its own first.

    Returns:
        Whether it did: other processes see the namespaces only after `join_mounts`.

    Raises:
        MrcError: the system refused.
    """
    if not _in_user_namespace():
        DIRECTORY.mkdir(mode=0o755, parents=True, exist_ok=True)
        _share()
        return False
    if _is_own_mount():
        return False
    place = DIRECTORY if DIRECTORY.is_dir() else DIRECTORY.parent
    alone = _mount(b"none", place, 0, b"tmpfs") != 0
    if alone:
        _call("a mount namespace of its own", _libc.unshare(_CLONE_NEWNS))
        _call("keep mounts to itself", _mount(b"none", Path("/"), _MS_PRIVATE | _MS_REC))
        _call(f"mount {place}", _mount(b"none", place, 0, b"tmpfs"))
    if place != DIRECTORY:
        DIRECTORY.mkdir(mode=0o755)
        _call(f"mount {DIRECTORY}", _mount(b"none", DIRECTORY, 0, b"tmpfs"))
    return alone


def _in_user_namespace() -> bool:
    try:
        return Path("/proc/self/uid_map").read_text().split() != ["0", "0", str((1 << 32) - 1)]
    except OSError:
        return False


def _is_own_mount() -> bool:
    """Whether the directory is a file system of its own; the system's is part of a larger one, or a bind of it."""
    found = False
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        if words[4] == str(DIRECTORY):
            found = words[3] == "/" and words[words.index("-") + 1] == "tmpfs"
    return found


def _share() -> None:
    """Let mounts below the directory reach other mount namespaces, as `ip netns` does."""
    if _mount(b"", DIRECTORY, _MS_SHARED | _MS_REC) == 0:
        return
    # It is no mount yet.
    _call(f"mount {DIRECTORY}", _mount(os.fsencode(DIRECTORY), DIRECTORY, _MS_BIND | _MS_REC))
    _call(f"share {DIRECTORY}", _mount(b"", DIRECTORY, _MS_SHARED | _MS_REC))


def join_mounts(pid: int) -> None:
    """See the directory of namespaces as another process does; nothing happens when that is so already.

    Raises:
        MrcError: the process is gone, or the system refused.
    """
    theirs = Path(f"/proc/{pid}/ns/mnt")
    try:
        if theirs.stat().st_ino == Path("/proc/thread-self/ns/mnt").stat().st_ino:
            return
        here, place = Path.cwd(), os.open(theirs, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise MrcError(f"the namespaces that process {pid} kept: {error.strerror}") from None
    try:
        _call("unshare the working directory", _libc.unshare(_CLONE_FS))
        _call(f"join the mount namespace of process {pid}", _libc.setns(place, _CLONE_NEWNS))
    finally:
        os.close(place)
    os.chdir(here)


@contextlib.contextmanager
def _away() -> Iterator[None]:
    """Come back to the namespace the thread is in, whatever happens."""
    home = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        result = _libc.setns(home, _CLONE_NEWNET)
        os.close(home)
        _call("return to the own network namespace", result)


def create(wanted: Iterable[str]) -> None:
    """Make namespaces; `ip netns` knows them by the same names.

    Args:
        wanted: their names.

    Raises:
        MrcError: one exists already, or the system refused; those made before it stay.
    """
    make_room()
    with _away():
        for name in wanted:
            place = DIRECTORY / name
            try:
                os.close(os.open(place, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))
            except FileExistsError:
                raise MrcError(f"there is a namespace {name} already: ip netns del {name}") from None
            except OSError as error:
                raise MrcError(f"namespace {name}: {error.strerror}") from None
            try:
                _call(f"namespace {name}", _libc.unshare(_CLONE_NEWNET))
                _call(f"namespace {name}", _mount(_OWN, place, _MS_BIND))
            except BaseException:
                place.unlink(missing_ok=True)
                raise


@contextlib.contextmanager
def entered(name: str) -> Iterator[None]:
    """Be in a namespace for as long as the block runs: sockets, /proc/sys/net and child processes are its own.

    Only the calling thread changes.

    Raises:
        MrcError: there is no such namespace, or it may not be entered.
    """
    with _away():
        try:
            place = os.open(DIRECTORY / name, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise MrcError(f"namespace {name}: {error.strerror}") from None
        result = _libc.setns(place, _CLONE_NEWNET)
        os.close(place)
        _call(f"enter namespace {name}", result)
        yield


def names(prefix: str) -> list[str]:
    """Return the namespaces whose names begin so, in order."""
    if not DIRECTORY.is_dir() or not os.access(DIRECTORY, os.R_OK):
        return []
    return sorted(entry.name for entry in DIRECTORY.iterdir() if entry.name.startswith(prefix))


def processes(wanted: Iterable[str]) -> list[int]:
    """Return the processes that are in one of these namespaces, this one left out."""
    places = set()
    for name in wanted:
        with contextlib.suppress(OSError):
            seen = (DIRECTORY / name).stat()
            places.add((seen.st_dev, seen.st_ino))
    found = []
    for entry in Path("/proc").iterdir() if places else ():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                seen = (entry / "ns/net").stat()
                if (seen.st_dev, seen.st_ino) in places:
                    found.append(int(entry.name))
    return found


def end_processes(wanted: Iterable[str], patience_s: float = 1.0) -> list[int]:
    """End the processes in these namespaces: asked first, killed after `patience_s`. Returns those found."""
    spaces = list(wanted)
    ended: list[int] = []
    for number in (signal.SIGTERM, signal.SIGKILL):
        inside = processes(spaces)
        ended += [pid for pid in inside if pid not in ended]
        for pid in inside:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        deadline = time.monotonic() + patience_s
        while inside and time.monotonic() < deadline:
            time.sleep(0.01)
            inside = processes(spaces)
        if not inside:
            break
    return ended


def delete(wanted: Iterable[str]) -> None:
    """Remove namespaces with all that is in them; one that is gone already is no error."""
    for name in wanted:
        place = DIRECTORY / name
        _libc.umount2(os.fsencode(place), _MNT_DETACH)
        with contextlib.suppress(OSError):  # gone, or no namespace but somebody's directory
            place.unlink()
