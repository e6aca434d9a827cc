"""What of a file has arrived for certain: an append-only list of chunk hashes beside the unfinished file.

A record is written after its chunk was hashed in place, so after a kill the journal never promises too much
about what the kernel holds. After a power cut it may; `IncomingFile` therefore hashes the claimed chunks again
before it trusts them.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import zlib

from softmrc.transfer.errors import TargetError

__all__ = ["HASH_BYTES", "Journal", "chunk_count", "chunk_size_for"]

HASH_BYTES = 32
MIN_CHUNK = 8 << 20
MAX_CHUNKS = 1 << 17
_RECORD = struct.Struct("<I32sI")
_MAX_HEADER = 16384


def chunk_size_for(size: int) -> int:
    """Return the chunk size for a file: 8 MiB, doubled until there are at most 2^17 chunks."""
    chunk = MIN_CHUNK
    while chunk * MAX_CHUNKS < size:
        chunk *= 2
    return chunk


def chunk_count(size: int, chunk: int) -> int:
    """Return how many chunks a file has; an empty one has none."""
    return -(-size // chunk)


class Journal:
    """Hashes of the chunks that are in place, by index."""

    def __init__(self, fd: int, name: str, size: int, chunk: int) -> None:
        """Read the journal behind `fd`, or start it anew when it belongs to another size, chunk or version.

        Args:
            fd: open for reading and writing; owned by the journal from now on.
            name: relative name of the file, for people who look into the journal.
            size: bytes of the whole file.
            chunk: bytes of a chunk.
        """
        self._fd = fd
        self._count = chunk_count(size, chunk)
        self.hashes: dict[int, bytes] = {}
        """SHA-256 of each chunk that the journal claims."""
        header = {"softmrc-journal": 1, "size": size, "chunk": chunk, "name": name}
        raw = os.pread(fd, _MAX_HEADER + _RECORD.size * (2 * self._count + 64), 0)
        line, newline, records = raw.partition(b"\n")
        if newline and self._matches(line, header):
            end = len(line) + 1 + self._read(records)
            os.ftruncate(fd, end)
        else:
            os.ftruncate(fd, 0)
            line = json.dumps(header).encode()
            self._append(line + b"\n")

    @staticmethod
    def _matches(line: bytes, header: dict[str, object]) -> bool:
        try:
            found = json.loads(line)
        except ValueError:
            return False
        keys = ("softmrc-journal", "size", "chunk", "name")
        return isinstance(found, dict) and all(found.get(k) == header[k] for k in keys)

    def _read(self, records: bytes) -> int:
        """Take records up to the first torn or damaged one; return the bytes they fill."""
        good = 0
        for at in range(0, len(records) - _RECORD.size + 1, _RECORD.size):
            index, digest, crc = _RECORD.unpack_from(records, at)
            if crc != zlib.crc32(records[at : at + _RECORD.size - 4]) or index >= self._count:
                break
            self.hashes[index] = digest
            good = at + _RECORD.size
        return good

    def add(self, index: int, digest: bytes) -> None:
        """Write down that a chunk is in place.

        Raises:
            TargetError: the record could not be written.
        """
        head = struct.pack("<I32s", index, digest)
        self._append(head + struct.pack("<I", zlib.crc32(head)))
        self.hashes[index] = digest

    def forget_all(self) -> None:
        """Drop every record and keep the header."""
        raw = os.pread(self._fd, _MAX_HEADER, 0)
        os.ftruncate(self._fd, raw.index(b"\n") + 1)
        self.hashes.clear()

    def _append(self, data: bytes) -> None:
        end = os.lseek(self._fd, 0, os.SEEK_END)
        try:
            if os.write(self._fd, data) != len(data):
                raise OSError(28, os.strerror(28))
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, end)
            raise TargetError(f"cannot write the journal: {error.strerror}") from error

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
