"""One file on its way out: read in order, hashed as it is read, and watched for changes.

Chunks are copied into registered buffers before they are sent, so what is hashed is exactly what is sent, and
a file that shrinks under us is an error instead of a fatal signal.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections import deque

from softmrc.endpoint import RemoteWindow
from softmrc.text import visible
from softmrc.transfer.errors import SourceError
from softmrc.transfer.journal import chunk_count, chunk_size_for
from softmrc.transfer.scan import SourceEntry

__all__ = ["OutgoingFile"]


class OutgoingFile:
    """An open source file. Used by one thread."""

    def __init__(self, number: int, source: SourceEntry) -> None:
        """Open the file.

        Raises:
            SourceError: it cannot be opened, or is no longer what it was when it was listed.
        """
        self.number = number
        self.entry = source.entry
        self.path = source.path
        self.chunk = chunk_size_for(source.entry.size)
        self.count = chunk_count(source.entry.size, self.chunk)
        try:
            self._fd = os.open(source.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise SourceError(f"cannot read {visible(source.path)}: {error.strerror}") from error
        self.window: RemoteWindow | None = None
        self.slot = 0
        self.have: dict[int, bytes] = {}
        self.ready = False
        self.comparing = False
        self.finished = False
        self.broken: SourceError | None = None
        """Why it is going to be given up."""
        self.unverified: set[int] = set()
        self.again: deque[int] = deque()
        self.tries: dict[int, int] = {}
        self.kept = 0
        self._start_over()
        try:
            self.check_unchanged()
        except SourceError:
            self.close()
            raise

    def _start_over(self) -> None:
        self._next = 0
        self._whole = hashlib.sha256()
        self.kept = 0

    def on_ready(self, slot: int, window: RemoteWindow | None, have: dict[int, bytes]) -> None:
        """Take the receiver's answer: where to write and which chunks are there already.

        Without a window the receiver holds a finished file that may be the same one; it is compared only.
        """
        self._start_over()
        self.slot, self.window, self.have = slot, window, have
        self.comparing = window is None
        self.ready = True

    @property
    def all_read(self) -> bool:
        """True when every chunk was read once."""
        return self._next >= self.count

    @property
    def digest(self) -> str:
        """SHA-256 of the whole file as read, hexadecimal."""
        return self._whole.hexdigest()

    def length_of(self, index: int) -> int:
        """Return the bytes of a chunk."""
        return min(self.chunk, self.entry.size - index * self.chunk)

    def read_next(self, buffer: memoryview) -> tuple[int, bytes, bool]:
        """Read the next chunk in order into `buffer`.

        Returns:
            Index, SHA-256, and whether the receiver has exactly this chunk already.

        Raises:
            SourceError: the file cannot be read or has become shorter.
        """
        index = self._next
        view = self._read(index, buffer)
        digest = hashlib.sha256(view).digest()
        self._whole.update(view)
        self._next += 1
        same = self.have.get(index) == digest
        if same:
            self.kept += len(view)
        return index, digest, same

    def read_again(self, index: int, buffer: memoryview) -> bytes:
        """Read a chunk that has to be sent again, and return its SHA-256."""
        return hashlib.sha256(self._read(index, buffer)).digest()

    def _read(self, index: int, buffer: memoryview) -> memoryview:
        view = buffer[: self.length_of(index)]
        done = 0
        while done < len(view):
            try:
                got = os.preadv(self._fd, [view[done:]], index * self.chunk + done)
            except OSError as error:
                raise SourceError(f"cannot read {visible(self.path)}: {error.strerror}") from error
            if got == 0:
                raise SourceError(f"{visible(self.path)} became shorter while it was sent")
            done += got
        return view

    def check_unchanged(self) -> None:
        """Compare the file with what was listed.

        Raises:
            SourceError: size, time or kind differ.
        """
        info = os.fstat(self._fd)
        same = stat.S_ISREG(info.st_mode) and (info.st_size, info.st_mtime_ns) == (
            self.entry.size,
            self.entry.mtime_ns,
        )
        if not same:
            raise SourceError(
                f"{visible(self.path)} changed while it was sent; run the same command again when it rests"
            )

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
