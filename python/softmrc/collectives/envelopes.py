"""What letters between ranks look like on the wire, and the books kept about them at both ends."""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass, field

from softmrc.collectives.groups import GroupState
from softmrc.collectives.letters import Letter

__all__ = [
    "ANNOUNCE",
    "CREDIT_BYTES",
    "CREDIT_LETTERS",
    "EAGER",
    "EAGER_MAX",
    "GRANT",
    "GRANTED",
    "HEAD",
    "OPEN",
    "OPENED",
    "REFUSE",
    "REFUSED",
    "Box",
    "Correspondent",
    "Waiting",
]

HEAD = struct.Struct("!BHqQQ")
"""Kind, bytes of the group's key, tag, number of the letter, bytes; the key and, of an eager one, the letter follow."""
OPEN = struct.Struct("!BQQIQI")
"""Kind, number of the letter, address, key, bytes, immediate."""
GRANT = struct.Struct("!BIQ")
"""Kind, letters, bytes."""
REFUSE = struct.Struct("!BQQ")
"""Kind, number of the letter, bytes that were expected."""
EAGER, ANNOUNCE, OPENED, GRANTED, REFUSED = range(1, 6)
EAGER_MAX = 15 * 1024
"""Largest letter that goes along with its envelope, together with the group's key: both fit one slot of a mailbox."""
CREDIT_BYTES, CREDIT_LETTERS = 1 << 20, 1024
"""What a sender may have lying unasked for at a receiver."""


@dataclass
class Waiting:
    """A letter at the receiver that nobody has asked for yet."""

    rank: int
    number: int
    nbytes: int
    data: bytes | None


@dataclass
class Box:
    """Letters of one group and tag."""

    unasked: deque[Waiting] = field(default_factory=deque)
    asked: deque[Letter] = field(default_factory=deque)


@dataclass
class Correspondent:
    """What is under way with one rank."""

    letters: int = CREDIT_LETTERS
    bytes: int = CREDIT_BYTES
    """How many more, and how much more, may be sent unasked for."""
    held: deque[tuple[GroupState, Letter]] = field(default_factory=deque)
    """Not sent yet, for lack of room there."""
    announced: dict[int, Letter] = field(default_factory=dict)
    """Sent as an announcement, by number."""
    flying: set[Letter] = field(default_factory=set)
    """On the wire."""
    doomed: set[Letter] = field(default_factory=set)
    """That did not arrive; the group's verdict ends them, so that all its members say the same."""
    expected: dict[int, Letter] = field(default_factory=dict)
    """Receives that are being written into, by immediate."""
    owed_letters: int = 0
    owed_bytes: int = 0
    """Room that the rank has not been told of yet."""
    complaint: str | None = None
    """What it said about a letter that was done already; the next send raises it."""
