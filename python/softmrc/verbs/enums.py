"""Numbers of the verbs interface.

Values are those of ibv_*, whose names are aliases (`WCStatus.IBV_WC_SUCCESS`).
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

__all__ = [
    "Access",
    "MrcCap",
    "PathMtu",
    "QPCapFlag",
    "QPState",
    "SendFlags",
    "WCOpcode",
    "WCStatus",
    "WROpcode",
]


class Access(IntFlag):
    """What may be done with a memory region."""

    LOCAL_WRITE = 1
    REMOTE_WRITE = 2
    REMOTE_READ = 4
    REMOTE_ATOMIC = 8
    IBV_ACCESS_LOCAL_WRITE = 1
    IBV_ACCESS_REMOTE_WRITE = 2
    IBV_ACCESS_REMOTE_READ = 4
    IBV_ACCESS_REMOTE_ATOMIC = 8


class WROpcode(IntEnum):
    """Work requests of verbs.

    MRC carries the first two, all others are refused with EINVAL (reference 11).
    """

    RDMA_WRITE = 0
    RDMA_WRITE_WITH_IMM = 1
    SEND = 2
    SEND_WITH_IMM = 3
    RDMA_READ = 4
    ATOMIC_CMP_AND_SWP = 5
    ATOMIC_FETCH_AND_ADD = 6
    IBV_WR_RDMA_WRITE = 0
    IBV_WR_RDMA_WRITE_WITH_IMM = 1
    IBV_WR_SEND = 2
    IBV_WR_SEND_WITH_IMM = 3
    IBV_WR_RDMA_READ = 4
    IBV_WR_ATOMIC_CMP_AND_SWP = 5
    IBV_WR_ATOMIC_FETCH_AND_ADD = 6


class SendFlags(IntFlag):
    """Flags of a send work request."""

    FENCE = 1
    SIGNALED = 2
    SOLICITED = 4
    INLINE = 8
    IBV_SEND_FENCE = 1
    IBV_SEND_SIGNALED = 2
    IBV_SEND_SOLICITED = 4
    IBV_SEND_INLINE = 8


class WCStatus(IntEnum):
    """How a work request ended (reference 10.3)."""

    SUCCESS = 0
    LOC_LEN_ERR = 1
    LOC_QP_OP_ERR = 2
    LOC_PROT_ERR = 4
    WR_FLUSH_ERR = 5
    REM_INV_REQ_ERR = 9
    REM_ACCESS_ERR = 10
    REM_OP_ERR = 11
    RETRY_EXC_ERR = 12
    IBV_WC_SUCCESS = 0
    IBV_WC_LOC_LEN_ERR = 1
    IBV_WC_LOC_QP_OP_ERR = 2
    IBV_WC_LOC_PROT_ERR = 4
    IBV_WC_WR_FLUSH_ERR = 5
    IBV_WC_REM_INV_REQ_ERR = 9
    IBV_WC_REM_ACCESS_ERR = 10
    IBV_WC_REM_OP_ERR = 11
    IBV_WC_RETRY_EXC_ERR = 12


# The engine counts its statuses in its own order (core/reliability/requester.h).
_FROM_ENGINE = (
    WCStatus.SUCCESS,
    WCStatus.LOC_LEN_ERR,
    WCStatus.LOC_PROT_ERR,
    WCStatus.LOC_QP_OP_ERR,
    WCStatus.WR_FLUSH_ERR,
    WCStatus.RETRY_EXC_ERR,
    WCStatus.REM_INV_REQ_ERR,
    WCStatus.REM_ACCESS_ERR,
    WCStatus.REM_OP_ERR,
)


def status_of_engine(number: int) -> WCStatus:
    """Translate a status of the engine."""
    return _FROM_ENGINE[number]


class WCOpcode(IntEnum):
    """What a completion is about."""

    RDMA_WRITE = 1
    RECV_RDMA_WITH_IMM = 129
    IBV_WC_RDMA_WRITE = 1
    IBV_WC_RECV_RDMA_WITH_IMM = 129


class QPState(IntEnum):
    """States of a queue pair (reference 10.2)."""

    RESET = 0
    INIT = 1
    RTR = 2
    RTS = 3
    SQD = 4
    SQE = 5
    ERR = 6
    IBV_QPS_RESET = 0
    IBV_QPS_INIT = 1
    IBV_QPS_RTR = 2
    IBV_QPS_RTS = 3
    IBV_QPS_SQD = 4
    IBV_QPS_SQE = 5
    IBV_QPS_ERR = 6


class PathMtu(IntEnum):
    """Path MTU as verbs counts it; `QPAttr.path_mtu` takes bytes, too."""

    MTU_256 = 1
    MTU_512 = 2
    MTU_1024 = 3
    MTU_2048 = 4
    MTU_4096 = 5
    IBV_MTU_256 = 1
    IBV_MTU_512 = 2
    IBV_MTU_1024 = 3
    IBV_MTU_2048 = 4
    IBV_MTU_4096 = 5


class MrcCap(IntFlag):
    """Capabilities of an MRC device (reference 11)."""

    TRIM_NACK = 1
    DYNAMIC_MPR = 2
    SVC_TIME = 4


class QPCapFlag(IntFlag):
    """`MrcQPAttr.cap`: what the peer lacks, and dynamic MPR when both want it (D-23)."""

    TRIM_NACK_DEST_UNSUPPORTED = 1
    DYNAMIC_MPR = 2
    SVC_TIME_DEST_UNSUPPORTED = 4
