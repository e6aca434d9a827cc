"""softmrc: an open software implementation of MRC 1.0, Multipath Reliable Connection.

`Endpoint` is the simple level (`softmrc.endpoint`); `softmrc.verbs` and `softmrc.ctl` follow the names of the
application and controller interfaces of MRC.
"""

from __future__ import annotations

from softmrc.endpoint import (
    Connection,
    Endpoint,
    Listener,
    Notification,
    Plane,
    Region,
    RemoteWindow,
    Transfer,
)
from softmrc.errors import (
    CompletionError,
    MrcError,
    PeerClosedError,
    PeerError,
    UsageError,
    VerbsError,
    WireError,
)

__all__ = [
    "CompletionError",
    "Connection",
    "Endpoint",
    "Listener",
    "MrcError",
    "Notification",
    "PeerClosedError",
    "PeerError",
    "Plane",
    "Region",
    "RemoteWindow",
    "Transfer",
    "UsageError",
    "VerbsError",
    "WireError",
    "__version__",
]

__version__ = "0.1.0"
