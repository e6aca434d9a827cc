"""Files and directories over MRC: resumable, verified end to end, confined to the receiver's directory.

Decides names, chunks, hashes, journals and the conversation of sender and receiver; leaves the way of the
bytes to `softmrc.endpoint`.
"""

from __future__ import annotations

from softmrc.transfer.errors import (
    BusyError,
    NameRefusedError,
    ProtocolError,
    SourceError,
    TargetError,
    TransferError,
)

__all__ = ["BusyError", "NameRefusedError", "ProtocolError", "SourceError", "TargetError", "TransferError"]
