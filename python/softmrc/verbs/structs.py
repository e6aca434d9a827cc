"""Attribute structs and work requests of the verbs interface. None means: not given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from softmrc.verbs.enums import MrcCap, QPState, SendFlags, WCOpcode, WCStatus, WROpcode

if TYPE_CHECKING:
    from softmrc.verbs.cq import CQ
    from softmrc.verbs.hint import QPHint

__all__ = [
    "SGE",
    "WC",
    "DeviceAttr",
    "MrcDeviceAttr",
    "MrcQPAttr",
    "PeerPlane",
    "QPAttr",
    "QPCap",
    "QPInitAttr",
    "RecvWR",
    "SendWR",
    "SoftQPAttr",
]


@dataclass
class QPCap:
    """Sizes of a queue pair. One scatter/gather element per work request is all MRC needs here."""

    max_send_wr: int = 128
    max_recv_wr: int = 128
    max_send_sge: int = 1
    max_recv_sge: int = 1
    max_inline_data: int = 0


@dataclass
class QPInitAttr:
    """What a queue pair is made of."""

    scq: CQ
    rcq: CQ
    cap: QPCap = field(default_factory=QPCap)
    sq_sig_all: bool = False
    protocol_version: int = 0
    """0: default, 1: V1; anything else is EINVAL."""
    qpn: int | None = None
    """Ask for this number (16 to 2^24 - 1; EEXIST, EINVAL). None: a random one, as restart safety wants."""


@dataclass
class QPAttr:
    """Verbs attributes.

    Those after `sq_psn` mean nothing to MRC: ignored, or EINVAL on a strict context (10.2).
    """

    qp_state: QPState | None = None
    cur_qp_state: QPState | None = None
    qp_access_flags: int | None = None
    pkey_index: int | None = None
    path_mtu: int | None = None
    """A `PathMtu` or bytes; 1024 bytes when never given."""
    dest_qp_num: int | None = None
    rq_psn: int | None = None
    dgid: str | None = None
    """Address of a peer with one plane, reached from local plane 1 at UDP port 4791; see
    `SoftQPAttr.peer_planes`."""
    sq_psn: int | None = None
    port_num: int | None = None
    timeout: int | None = None
    retry_cnt: int | None = None
    rnr_retry: int | None = None
    min_rnr_timer: int | None = None
    max_rd_atomic: int | None = None
    max_dest_rd_atomic: int | None = None
    alt_path: object | None = None
    path_mig_state: int | None = None


UNSUPPORTED = (
    "port_num", "timeout", "retry_cnt", "rnr_retry", "min_rnr_timer", "max_rd_atomic", "max_dest_rd_atomic",
    "alt_path", "path_mig_state",
)  # fmt: skip


@dataclass
class MrcQPAttr:
    """MRC attributes (reference 11). Optional, with the defaults of reference 16."""

    ev_profile_id: int | None = None
    """EV profile, ONLINE; 0 or None: AUTO. INIT."""
    cc_profile_id: int | None = None
    """Congestion control profile, ONLINE. INIT."""
    hint: QPHint | None = None
    """Advice about the traffic. INIT."""
    max_wimm_dest: int | None = None
    """Immediates the peer may have in flight, 1 to 4096. RTR."""
    mpr_dest: int | None = None
    """Receive window, units of 128 PSNs, 1 to 32. RTR."""
    cap: int | None = None
    """`QPCapFlag` bits. RTR."""
    max_wimm: int | None = None
    """Immediates in flight the peer granted. RTS."""
    mpr: int | None = None
    """Send window the peer granted, units of 128 PSNs. RTS."""
    timeout: int | None = None
    """ACK timeout 1.024 us x 2^timeout, 0 to 24. RTS."""
    linear_cnt: int | None = None
    """Retries at a fixed interval, 0 to 7. RTS."""
    exp_cnt: int | None = None
    """Retries with doubling interval, 0 to 25; 25: for ever. RTS."""


@dataclass(frozen=True)
class PeerPlane:
    """Where one plane of the peer is."""

    local_plane: int
    """1-based local plane that reaches it."""
    address: str
    udp_port: int = 4791
    remote_plane: int = 0
    """Its number over there; 0: the same as here."""
    routes: Sequence[tuple[int, str]] = ()
    """SRv6: (EV, uSID list that ends at the peer). EVs that are not named go to `address`."""


@dataclass
class SoftQPAttr:
    """Attributes of this implementation, beyond MRC (the place of VENDOR_CFG). Times are nanoseconds."""

    peer_planes: Sequence[PeerPlane] | None = None
    """RTR."""
    ev_set: tuple[Sequence[tuple[int, int]], Sequence[tuple[int, int]]] | None = None
    """Active and backup EVs as (wire tag, local plane). INIT."""
    ev_count: int | None = None
    ev_table: Mapping[str, int] | None = None
    ev_policy: str | None = None
    ev_run: int | None = None
    """Packets on one EV before the next; 1: a new EV for every packet; 0 or None: what suits the driver. INIT."""
    cc_algorithm: str | None = None
    cc_config: Mapping[str, Any] | None = None
    trimming: bool | None = None
    icrc: bool | None = None
    """False: packets carry 0 in place of the iCRC, and such are taken unchecked; only what both ends agreed on: an end
    that did not drops them. RTR; None: on."""
    sack_bytes: int | None = None
    sack_timer_ns: int | None = None
    rq_empty_grace_ns: int | None = None
    hold_time_ns: int | None = None
    min_ack_timeout_ns: int | None = None
    reorder_min_time_ns: int | None = None
    base_rtt_ns: int | None = None
    delay_mark_ns: int | None = None
    """Queueing delay that counts as a congestion mark where the fabric sets none. RTR."""
    max_cwnd: int | None = None


@dataclass(frozen=True)
class SGE:
    """A piece of registered memory."""

    addr: int
    length: int
    lkey: int


@dataclass
class SendWR:
    """A write. Give the remote side with `set_wr_rdma`."""

    wr_id: int = 0
    opcode: WROpcode | int = WROpcode.RDMA_WRITE
    num_sge: int = 0
    imm_data: int = 0
    sg: Sequence[SGE] = ()
    send_flags: int = SendFlags.SIGNALED
    rkey: int = 0
    remote_addr: int = 0

    def set_wr_rdma(self, rkey: int, addr: int) -> None:
        """Set key and first address of the peer's memory."""
        self.rkey = rkey
        self.remote_addr = addr


@dataclass
class RecvWR:
    """A place in the receive queue; every write with immediate consumes one, its addresses are unused."""

    wr_id: int = 0
    num_sge: int = 0
    sg: Sequence[SGE] = ()


@dataclass(frozen=True, slots=True)
class WC:
    """A work completion."""

    wr_id: int
    status: WCStatus
    opcode: WCOpcode
    vendor_err: int = 0
    byte_len: int = 0
    imm_data: int = 0
    qp_num: int = 0
    with_imm: bool = False


@dataclass(frozen=True, kw_only=True)
class DeviceAttr:
    """What the device offers to verbs."""

    fw_ver: str
    vendor_id: int
    max_qp: int
    max_qp_wr: int
    max_sge: int
    max_cq: int
    max_cqe: int
    max_mr: int
    max_mr_size: int
    max_pd: int
    max_msg_sz: int
    phys_port_cnt: int
    """1: the planes are internal."""


@dataclass(frozen=True, kw_only=True)
class MrcDeviceAttr:
    """What the device offers to MRC (mrc_device_attr, reference 11)."""

    protocol_versions: int
    """Bitmap; bit 0 is V1."""
    max_wimm: int
    max_wimm_dest: int
    max_mpr: int
    """Units of 128 PSNs."""
    mpr_resolution: int
    max_qp_hint: int
    caps: MrcCap
