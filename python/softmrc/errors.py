"""The errors softmrc raises, and whose fault each one is.

Completions at the verbs level carry a status and never raise; everything else ends in one of these classes.
"""

from __future__ import annotations

import os

__all__ = [
    "CompletionError",
    "MrcError",
    "PeerClosedError",
    "PeerError",
    "UsageError",
    "VerbsError",
    "WireError",
]


class MrcError(Exception):
    """Root of every error of this package."""


class VerbsError(MrcError, OSError):
    """A verbs or controller call was refused; `errno` says why (reference 10 to 12)."""

    def __init__(self, errno: int, what: str) -> None:
        """Build the error of a refused call.

        Args:
            errno: positive errno value, for instance `errno.EINVAL`.
            what: the call and the reason, in words.
        """
        super().__init__(errno, f"{what}: {os.strerror(errno)}")


class WireError(MrcError, ValueError):
    """Bytes that are no MRC packet, or fields that do not fit their header."""


class UsageError(MrcError, ValueError):
    """The caller asked for something that can never work, for instance a non-contiguous buffer."""


class PeerError(MrcError):
    """The other side refused, disagreed, or has not been heard from for too long."""


class PeerClosedError(PeerError):
    """The peer closed the connection in good order; everything it had sent before was delivered."""


class CompletionError(MrcError):
    """A transfer of the simple level completed with an error status."""

    def __init__(self, status: int, message: str) -> None:
        """Build the error of a failed transfer.

        Args:
            status: the `softmrc.verbs.WCStatus` of the failed work request.
            message: what was transferred, and to whom.
        """
        super().__init__(message)
        self.status = status
