"""softmrc: an open software implementation of MRC 1.0, Multipath Reliable Connection.

`Endpoint` is the simple level (`softmrc.endpoint`); `softmrc.verbs` and `softmrc.ctl` follow the names of the
application and controller interfaces of MRC. Names are fetched when they are first used: torch imports this package
at every start of its own, to learn of the backend "mrc", and must not wait for the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
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


def __getattr__(name: str) -> object:
    if name.startswith("_") or name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = "softmrc.errors" if name.endswith("Error") else "softmrc.endpoint"
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
