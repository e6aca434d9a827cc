"""What a sender sends: files and whole directories, without links and special files.

Decides names, order and what is left out; leaves reading to `outgoing`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from softmrc.text import visible
from softmrc.transfer.errors import SourceError
from softmrc.transfer.messages import MAX_ENTRIES, Entry
from softmrc.transfer.names import split_name

__all__ = ["Source", "SourceEntry", "scan"]


@dataclass(frozen=True)
class SourceEntry:
    """An entry and where it lies here."""

    entry: Entry
    path: str


@dataclass
class Source:
    """Everything found under the paths of a command line."""

    entries: list[SourceEntry] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """Links and special files that are left out by design, in words."""
    unreadable: list[str] = field(default_factory=list)
    """What could not be read, in words; makes the transfer incomplete."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(e.entry.size for e in self.entries)

    @property
    def files(self) -> int:
        """Number of files."""
        return sum(not e.entry.is_dir for e in self.entries)


def _entry(parts: tuple[str, ...], info: os.stat_result) -> Entry:
    is_dir = stat.S_ISDIR(info.st_mode)
    return Entry(parts, is_dir, 0 if is_dir else info.st_size, info.st_mode & 0o777, info.st_mtime_ns)


def _kind(mode: int) -> str:
    names: list[tuple[Callable[[int], bool], str]] = [
        (stat.S_ISLNK, "symbolic link"), (stat.S_ISFIFO, "named pipe"), (stat.S_ISSOCK, "socket"),
        (stat.S_ISCHR, "device"), (stat.S_ISBLK, "device"),
    ]  # fmt: skip
    return next((name for test, name in names if test(mode)), "special file")


def scan(paths: list[str]) -> Source:
    """Find everything below `paths`; a directory is sent with its own name on top.

    Raises:
        SourceError: a path does not exist, is a link or special file, or two would get the same name.
    """
    source = Source()
    tops: dict[str, str] = {}
    for path in paths:
        try:
            info = os.lstat(path)
        except OSError as error:
            raise SourceError(f"cannot send {visible(path)}: {error.strerror}") from error
        if stat.S_ISLNK(info.st_mode):
            raise SourceError(
                f"cannot send {visible(path)}: it is a symbolic link; "
                f"name its target {visible(os.path.realpath(path))} instead"
            )
        if not stat.S_ISREG(info.st_mode) and not stat.S_ISDIR(info.st_mode):
            raise SourceError(f"cannot send {visible(path)}: it is a {_kind(info.st_mode)}")
        top = os.path.basename(os.path.abspath(path))
        if not top:
            raise SourceError(f"cannot send {visible(path)}: it has no name of its own")
        if top in tops:
            raise SourceError(
                f"{visible(tops[top])} and {visible(path)} would both be named '{visible(top)}'; "
                "send them one after the other"
            )
        tops[top] = path
        for found in _walk(path, (top,), info, source):
            split_name(found.entry.name)
            source.entries.append(found)
            if len(source.entries) > MAX_ENTRIES:
                raise SourceError(f"more than {MAX_ENTRIES} files; send the directories one by one")
    return source


def _walk(path: str, parts: tuple[str, ...], info: os.stat_result, source: Source) -> Iterator[SourceEntry]:
    """Yield directories before their contents, names in byte order."""
    pending = [(path, parts, info)]
    while pending:
        here, names, status = pending.pop()
        yield SourceEntry(_entry(names, status), here)
        if not stat.S_ISDIR(status.st_mode):
            continue
        try:
            with os.scandir(here) as listing:
                children = sorted(listing, key=lambda e: os.fsencode(e.name), reverse=True)
        except OSError as error:
            source.unreadable.append(f"{visible(here)}: {error.strerror}")
            continue
        for child in children:
            try:
                inner = child.stat(follow_symlinks=False)
            except OSError as error:
                source.unreadable.append(f"{visible(child.path)}: {error.strerror}")
                continue
            if stat.S_ISREG(inner.st_mode) or stat.S_ISDIR(inner.st_mode):
                pending.append((child.path, (*names, child.name), inner))
            else:
                source.skipped.append(f"{visible(child.path)}: {_kind(inner.st_mode)}")
