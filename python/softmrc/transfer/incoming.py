"""One file on its way in: an unfinished file that the peer writes into, and the proof that it is right.

The unfinished file is mapped and registered, so packets are placed straight into the page cache. A chunk
counts once it was hashed in place and written into the journal; the file counts once the whole of it was
hashed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import mmap
import os
import stat

from softmrc.endpoint import Connection, Region
from softmrc.text import visible
from softmrc.transfer.errors import BusyError, ProtocolError, TargetError
from softmrc.transfer.journal import Journal, chunk_count, chunk_size_for
from softmrc.transfer.messages import Entry
from softmrc.transfer.tree import Tree, reason

__all__ = ["IncomingFile", "hash_existing", "place_empty", "set_attributes"]


def set_attributes(fd: int, entry: Entry) -> None:
    """Give an open file or directory the mode and time of the source."""
    os.fchmod(fd, entry.mode)
    os.utime(fd, ns=(entry.mtime_ns, entry.mtime_ns))


def hash_existing(tree: Tree, entry: Entry) -> dict[int, bytes] | None:
    """Hash the chunks of a file that looks finished: same size and same time as the source.

    Returns:
        Hashes of all chunks; None when there is no such file.
    """
    info = tree.stat(entry.parts)
    if info is None or not stat.S_ISREG(info.st_mode):
        return None
    if info.st_size != entry.size or info.st_mtime_ns != entry.mtime_ns or entry.size == 0:
        return None
    chunk = chunk_size_for(entry.size)
    hashes: dict[int, bytes] = {}
    fd = tree.open_existing(entry.parts)
    with os.fdopen(fd, "rb", buffering=0) as file:
        for index in range(chunk_count(entry.size, chunk)):
            hashes[index] = hashlib.sha256(os.pread(file.fileno(), chunk, index * chunk)).digest()
    return hashes


def place_empty(tree: Tree, entry: Entry) -> None:
    """Make an empty file in place."""
    name = tree.staging_name(entry.parts)
    fd = tree.open_staging(name)
    try:
        os.ftruncate(fd, 0)
        set_attributes(fd, entry)
        os.fsync(fd)
        tree.publish(name, entry.parts)
    except OSError as error:
        raise TargetError(f"cannot write '{visible(entry.name)}': {reason(error)}") from error
    finally:
        os.close(fd)
    tree.drop_staging(name + ".journal")


class IncomingFile:
    """An unfinished file of at least one byte. Used by one thread."""

    def __init__(self, tree: Tree, entry: Entry) -> None:
        """Open or make the unfinished file, and find out which chunks are there.

        Raises:
            BusyError: another transfer is writing it.
            TargetError: no space, no permission, or it cannot be mapped.
        """
        self.entry = entry
        self.chunk = chunk_size_for(entry.size)
        self.count = chunk_count(entry.size, self.chunk)
        self.key = tree.staging_name(entry.parts)
        self._tree = tree
        self._region: Region | None = None
        self._map: mmap.mmap | None = None
        self._journal: Journal | None = None
        self._whole = hashlib.sha256()
        self._whole_next = 0
        self._fd = tree.open_staging(self.key)
        try:
            self._lock()
            was = os.fstat(self._fd).st_size
            if was != entry.size:
                os.ftruncate(self._fd, 0)
            # Every block is allocated now: a full disk is an error here instead of a fatal signal on a later
            # write.
            os.posix_fallocate(self._fd, 0, entry.size)
            self._map = mmap.mmap(self._fd, entry.size)
            self._journal = Journal(
                tree.open_staging(self.key + ".journal"), entry.name, entry.size, self.chunk
            )
            if was != entry.size and self._journal.hashes:
                self._journal.forget_all()
            self._check_claims()
        except OSError as error:
            self.close()
            hint = "; free some space and run the same command again" if error.errno == errno.ENOSPC else ""
            raise TargetError(
                f"cannot make room for '{visible(entry.name)}' ({entry.size} bytes) "
                f"in {visible(tree.path)}: {reason(error)}{hint}"
            ) from error
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(f"'{visible(self.entry.name)}' is being received by another transfer") from None

    def _check_claims(self) -> None:
        """Hash every chunk the journal claims; one that is not what it claims is forgotten."""
        assert self._journal is not None
        claimed = dict(self._journal.hashes)
        good = {i: h for i, h in claimed.items() if hashlib.sha256(self._view(i)).digest() == h}
        if len(good) != len(claimed):
            self._journal.forget_all()
            for index, digest in good.items():
                self._journal.add(index, digest)

    def _view(self, index: int) -> memoryview:
        assert self._map is not None
        return memoryview(self._map)[index * self.chunk : min((index + 1) * self.chunk, self.entry.size)]

    @property
    def hashes(self) -> dict[int, bytes]:
        """Chunks that are in place, with their hashes."""
        return self._journal.hashes if self._journal else {}

    def expose(self, connection: Connection) -> Region:
        """Register the file with a connection so that its peer may write to it."""
        if self._region is None:
            self._region = connection.register(self._map)
        return self._region

    def accept(self, index: int, expected: bytes) -> bool:
        """Hash a chunk that was placed; True when it is right and journaled.

        Raises:
            ProtocolError: there is no such chunk.
        """
        if index >= self.count or self._journal is None:
            raise ProtocolError(f"'{visible(self.entry.name)}' has no chunk {index}")
        if hashlib.sha256(self._view(index)).digest() != expected:
            return False
        self._journal.add(index, expected)
        if index < self._whole_next:  # rewritten after it was counted: count again
            self._whole, self._whole_next = hashlib.sha256(), 0
        self._advance()
        return True

    def _advance(self) -> None:
        """Hash on while the next chunk in order is in place; it is still in the cache then."""
        while self._whole_next in self.hashes and self._whole_next < self.count:
            self._whole.update(self._view(self._whole_next))
            self._whole_next += 1

    def finish(self, expected: bytes) -> None:
        """Verify the whole file, put it on disk and move it into place.

        Raises:
            ProtocolError: chunks are missing.
            TargetError: the hash of the whole differs, or the disk refused it.
        """
        if len(self.hashes) != self.count:
            raise ProtocolError(
                f"'{visible(self.entry.name)}' ends with {self.count - len(self.hashes)} chunks missing"
            )
        self._advance()
        shown = visible(self.entry.name)
        if self._whole.digest() != expected:
            assert self._journal is not None
            self._journal.forget_all()
            raise TargetError(
                f"'{shown}': the SHA-256 of the whole file differs from the sender's; send it again"
            )
        self._release()
        try:
            os.fsync(self._fd)
            set_attributes(self._fd, self.entry)
            os.fsync(self._fd)
        except OSError as error:
            raise TargetError(f"cannot write '{shown}' to disk: {reason(error)}") from error
        self._tree.publish(self.key, self.entry.parts)
        self._tree.drop_staging(self.key + ".journal")
        self.close()

    def discard(self) -> None:
        """Throw away what is there."""
        self._tree.drop_staging(self.key)
        self._tree.drop_staging(self.key + ".journal")
        self.close()

    def _release(self) -> None:
        if self._region is not None:
            self._region.release()
            self._region = None
        if self._map is not None:
            with contextlib.suppress(BufferError):  # the registration may let go a moment later
                self._map.close()
            self._map = None

    def close(self) -> None:
        """Let everything go; what has arrived stays for the next try. Idempotent."""
        self._release()
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
