"""The verbs level: the names of pyverbs and of MRC's application interface over the softmrc engine.

Only RDMA WRITE and WRITE with immediate exist. Completions carry a status and never raise; a refused call
raises `VerbsError` with its errno. Parents close their children; every object is a context manager.
"""

from __future__ import annotations

from softmrc.types import EvState
from softmrc.verbs.context import API_VERSION, CompChannel, Context, query_version
from softmrc.verbs.cq import CQ
from softmrc.verbs.enums import (
    Access,
    MrcCap,
    PathMtu,
    QPCapFlag,
    QPState,
    SendFlags,
    WCOpcode,
    WCStatus,
    WROpcode,
)
from softmrc.verbs.hint import QPHint
from softmrc.verbs.impair import Rule
from softmrc.verbs.pd import MR, PD
from softmrc.verbs.qp import QP
from softmrc.verbs.routes import spread_routes
from softmrc.verbs.structs import (
    SGE,
    WC,
    DeviceAttr,
    MrcDeviceAttr,
    MrcQPAttr,
    PeerPlane,
    QPAttr,
    QPCap,
    QPInitAttr,
    RecvWR,
    SendWR,
    SoftQPAttr,
)

__all__ = [
    "API_VERSION",
    "CQ",
    "MR",
    "PD",
    "QP",
    "SGE",
    "WC",
    "Access",
    "CompChannel",
    "Context",
    "DeviceAttr",
    "EvState",
    "MrcCap",
    "MrcDeviceAttr",
    "MrcQPAttr",
    "PathMtu",
    "PeerPlane",
    "QPAttr",
    "QPCap",
    "QPCapFlag",
    "QPHint",
    "QPInitAttr",
    "QPState",
    "RecvWR",
    "Rule",
    "SendFlags",
    "SendWR",
    "SoftQPAttr",
    "WCOpcode",
    "WCStatus",
    "WROpcode",
    "query_version",
    "spread_routes",
]
