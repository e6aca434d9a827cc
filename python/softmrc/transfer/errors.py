"""What can go wrong with a transfer, and whose fault it is."""

from __future__ import annotations

from softmrc.errors import MrcError

__all__ = ["BusyError", "NameRefusedError", "ProtocolError", "SourceError", "TargetError", "TransferError"]


class TransferError(MrcError):
    """A transfer ended without all its files; running the same command again goes on where it stopped."""


class NameRefusedError(TransferError):
    """A name that would leave the target directory, or that the target cannot hold."""


class ProtocolError(TransferError):
    """The peer sent a control message that makes no sense here; versions differ, or it is hostile."""


class SourceError(TransferError):
    """A source file cannot be read, or changed while it was sent."""


class TargetError(TransferError):
    """The target directory cannot take a file: no space, no permission, something in the way."""


class BusyError(TargetError):
    """Another transfer is receiving the same file."""
