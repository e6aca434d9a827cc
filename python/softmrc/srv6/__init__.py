"""SRv6 uSID lists of a multi-plane fabric: which address is which switch, and which list is which path.

Plain Python, opens nothing. `plan` numbers switches and hosts and makes lists, `shape` knows who is wired to whom,
`fabric_file` is the small file that tells a program inside a host which lists lead where, `denylist` the one beside it
that says which of them to keep off.
"""

from __future__ import annotations

from softmrc.srv6.denylist import Denylist, passed
from softmrc.srv6.fabric_file import CHECKSUMS, FABRIC_ENV, PLANES_ENV, FabricFile, Steer
from softmrc.srv6.plan import Path, block, describe, host_address, path, usid
from softmrc.srv6.shape import Shape, paths

__all__ = [
    "CHECKSUMS",
    "FABRIC_ENV",
    "PLANES_ENV",
    "Denylist",
    "FabricFile",
    "Path",
    "Shape",
    "Steer",
    "block",
    "describe",
    "host_address",
    "passed",
    "path",
    "paths",
    "usid",
]
