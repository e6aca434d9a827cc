"""Control messages of a transfer: JSON objects whose every member is checked before use.

Sender to receiver: `planes?`, `offer`, `open`, `replace`, `sum`, `finish`, `drop`, `end`, `fail`.
Receiver to sender: `planes`, `go`, `ready`, `ok`, `bad`, `stored`, `bye`, `fail`.
The bytes of files never travel here; they are written straight into the window that `ready` names.
"""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import dataclass
from typing import Any

from softmrc.transfer.errors import ProtocolError
from softmrc.transfer.journal import HASH_BYTES
from softmrc.transfer.names import split_name

__all__ = [
    "MAX_ENTRIES",
    "MAX_SLOTS",
    "VERSION",
    "Entry",
    "decode",
    "digest_of",
    "encode",
    "integer",
    "pack_hashes",
    "text",
    "unpack_hashes",
]

VERSION = 1
MAX_ENTRIES = 2_000_000
"""Files and directories of one transfer."""
MAX_SLOTS = 64
"""Files a receiver has open for one sender at a time; a slot fills the top 8 bits of an immediate."""
MAX_SIZE = 1 << 62
_HAVE = struct.Struct(f"<I{HASH_BYTES}s")


@dataclass(frozen=True)
class Entry:
    """A file or directory that is sent."""

    parts: tuple[str, ...]
    """Components of its name in the target."""
    is_dir: bool
    size: int
    """Bytes; 0 for a directory."""
    mode: int
    """Permission bits, 0 to 0o777; set-id and sticky bits do not travel."""
    mtime_ns: int
    """Time of the last change, nanoseconds since 1970."""

    @property
    def name(self) -> str:
        """Name with "/" between the components."""
        return "/".join(self.parts)

    def to_json(self) -> list[object]:
        """Return the entry as it travels."""
        return [self.name, "d" if self.is_dir else "f", self.size, self.mode, self.mtime_ns]

    @classmethod
    def from_json(cls, data: object) -> Entry:
        """Read what `to_json` made.

        Raises:
            ProtocolError: not an entry.
            NameRefusedError: the name is not one we would create.
        """
        if not isinstance(data, list) or len(data) != 5 or data[1] not in ("f", "d"):
            raise ProtocolError("an entry is [name, kind, size, mode, mtime]")
        numbers = {"size": data[2], "mode": data[3], "mtime": data[4]}
        size = integer(numbers, "size", MAX_SIZE)
        mode = integer(numbers, "mode", 0o777)
        mtime = integer(numbers, "mtime", (1 << 63) - 1, -(1 << 62))
        is_dir = data[1] == "d"
        if is_dir and size:
            raise ProtocolError("a directory has no size")
        return cls(split_name(data[0]), is_dir, size, mode, mtime)


def encode(kind: str, **members: object) -> bytes:
    """Make a message."""
    return json.dumps({"t": kind, **members}, separators=(",", ":")).encode("ascii")


def decode(message: bytes) -> dict[str, Any]:
    """Read a message; its member "t" is text afterwards.

    Raises:
        ProtocolError: no JSON object with a type.
    """
    try:
        found = json.loads(message)
    except (ValueError, RecursionError):
        raise ProtocolError("a control message is not JSON; is the peer `softmrc send` or `recv`?") from None
    if not isinstance(found, dict) or not isinstance(found.get("t"), str):
        raise ProtocolError("a control message has no type; is the peer `softmrc send` or `recv`?")
    return found


def integer(message: dict[str, Any], key: str, high: int, low: int = 0) -> int:
    """Return an integer member.

    Raises:
        ProtocolError: missing, no integer, or outside of `low` to `high`.
    """
    value = message.get(key)
    if type(value) is not int or not low <= value <= high:
        raise ProtocolError(f"control message: '{key}' must be an integer from {low} to {high}")
    return value


def text(message: dict[str, Any], key: str, longest: int = 2000) -> str:
    """Return a text member, cut to `longest` characters.

    Raises:
        ProtocolError: missing or no text.
    """
    value = message.get(key)
    if not isinstance(value, str):
        raise ProtocolError(f"control message: '{key}' must be text")
    return value[:longest]


def digest_of(message: dict[str, Any]) -> bytes:
    """Return the member "sha256" as bytes.

    Raises:
        ProtocolError: it is no SHA-256.
    """
    try:
        raw = bytes.fromhex(text(message, "sha256"))
    except ValueError:
        raw = b""
    if len(raw) != HASH_BYTES:
        raise ProtocolError("control message: 'sha256' must be 64 hexadecimal digits")
    return raw


def pack_hashes(hashes: dict[int, bytes]) -> str:
    """Return chunk hashes as text."""
    return base64.b64encode(b"".join(_HAVE.pack(i, h) for i, h in sorted(hashes.items()))).decode("ascii")


def unpack_hashes(packed: object, count: int) -> dict[int, bytes]:
    """Read what `pack_hashes` made.

    Args:
        packed: from the peer.
        count: chunks the file has.

    Raises:
        ProtocolError: not such a text, or an index beyond the file.
    """
    try:
        raw = base64.b64decode(packed, validate=True) if isinstance(packed, str) else b"x"
        found = dict(_HAVE.iter_unpack(raw))
    except (ValueError, struct.error):
        raise ProtocolError("control message: 'have' is not a list of chunk hashes") from None
    if any(index >= count for index in found):
        raise ProtocolError("control message: 'have' names a chunk beyond the end of the file")
    return found
