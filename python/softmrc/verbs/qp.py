"""Queue pairs: RDMA WRITE and WRITE with immediate, nothing else (reference 1.1, 10, 11)."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any

from softmrc.device import ProfileUse, Resource, refusals
from softmrc.errors import VerbsError
from softmrc.verbs.enums import PathMtu, QPState, SendFlags, WROpcode
from softmrc.verbs.pd import PD
from softmrc.verbs.structs import (
    UNSUPPORTED,
    MrcQPAttr,
    PeerPlane,
    QPAttr,
    QPInitAttr,
    RecvWR,
    SendWR,
    SoftQPAttr,
)

__all__ = ["QP"]

_DEFAULT_PMTU = 1024
_SOFT = (
    "ev_set", "ev_count", "ev_table", "ev_policy", "ev_run", "cc_algorithm", "cc_config", "trimming", "icrc",
    "sack_bytes", "sack_timer_ns", "rq_empty_grace_ns", "hold_time_ns", "min_ack_timeout_ns", "reorder_min_time_ns",
    "base_rtt_ns", "delay_mark_ns", "max_cwnd",
)  # fmt: skip
_MRC = ("max_wimm_dest", "mpr_dest", "cap", "max_wimm", "mpr", "timeout", "linear_cnt", "exp_cnt")
_VERBS = {
    "qp_access_flags": "access_flags",
    "dest_qp_num": "dest_qpn",
    "rq_psn": "rq_psn",
    "sq_psn": "sq_psn",
}
_MAX_MESSAGE = 1 << 31


class QP(Resource):
    """A queue pair. States: RESET, INIT, RTR, RTS, ERR; `to_*` or `modify` moves it on."""

    _close_order = 0

    def __init__(self, pd: PD, init_attr: QPInitAttr) -> None:
        """Make a queue pair in state RESET.

        Raises:
            VerbsError: EINVAL (sizes, protocol version), EEXIST (`init_attr.qpn` is taken), ENOMEM.
        """
        pd._require_open()
        cap = init_attr.cap
        if cap.max_send_sge > 1 or cap.max_recv_sge > 1 or cap.max_inline_data:
            raise VerbsError(errno.EINVAL, "create QP: one scatter/gather element, no inline data")
        if init_attr.protocol_version not in (0, 1):
            raise VerbsError(errno.EINVAL, "create QP: protocol version is 0 (default) or 1 (V1)")
        self.pd = pd
        self.ctx = pd.ctx
        self.init_attr = init_attr
        self.profiles = ProfileUse()
        wanted: dict[str, Any] = {
            "pd": pd.handle,
            "send_cq": init_attr.scq.handle,
            "recv_cq": init_attr.rcq.handle,
            "max_send_wr": cap.max_send_wr,
            "max_recv_wr": cap.max_recv_wr,
            "sq_sig_all": init_attr.sq_sig_all,
        }
        if init_attr.qpn is not None:
            wanted["qpn"] = init_attr.qpn
        with refusals("create QP"):
            self.qp_num = self.ctx.driver.create_qp(wanted)
        self._open(pd)

    # --- states ---------------------------------------------------------------------------------------------

    def to_init(
        self, attr: QPAttr | None = None, mrc: MrcQPAttr | None = None, soft: SoftQPAttr | None = None
    ) -> None:
        """RESET to INIT. EV and CC profiles are resolved now: EINVAL unless ONLINE."""
        self._transition(QPState.INIT, attr, mrc, soft)

    def to_rtr(self, attr: QPAttr, mrc: MrcQPAttr | None = None, soft: SoftQPAttr | None = None) -> None:
        """INIT to RTR.

        Needs `dest_qp_num`, `rq_psn`, and `dgid` or `peer_planes`. May receive from now on.
        """
        self._transition(QPState.RTR, attr, mrc, soft)

    def to_rts(self, attr: QPAttr, mrc: MrcQPAttr | None = None, soft: SoftQPAttr | None = None) -> None:
        """RTR to RTS: needs `sq_psn`. May send from now on."""
        self._transition(QPState.RTS, attr, mrc, soft)

    def to_err(self) -> None:
        """Any state to ERR: outstanding work is flushed."""
        self._transition(QPState.ERR, None, None, None)

    def to_reset(self) -> None:
        """Any state to RESET: everything is forgotten."""
        self._transition(QPState.RESET, None, None, None)

    def _transition(
        self, state: QPState, attr: QPAttr | None, mrc: MrcQPAttr | None, soft: SoftQPAttr | None
    ) -> None:
        given = QPAttr(**vars(attr)) if attr is not None else QPAttr()
        given.qp_state = state
        self.modify(given, mrc, soft)

    def modify(self, attr: QPAttr, mrc: MrcQPAttr | None = None, soft: SoftQPAttr | None = None) -> None:
        """Change attributes, with or without a new state. All or nothing.

        Raises:
            VerbsError: EINVAL (illegal transition, missing or bad attribute, profile not ONLINE; on a strict
            context
                also verbs attributes without meaning here).
        """
        mrc = mrc or MrcQPAttr()
        soft = soft or SoftQPAttr()
        if self.ctx.strict:
            useless = [name for name in UNSUPPORTED if getattr(attr, name) is not None]
            if useless:
                raise VerbsError(errno.EINVAL, f"modify QP: MRC has no attribute {', '.join(useless)}")
        out: dict[str, Any] = {}
        if attr.qp_state is not None:
            out["state"] = int(attr.qp_state)
        if attr.cur_qp_state is not None:
            out["cur_state"] = int(attr.cur_qp_state)
        out |= {core: getattr(attr, name) for name, core in _VERBS.items() if getattr(attr, name) is not None}
        out |= {name: getattr(mrc, name) for name in _MRC if getattr(mrc, name) is not None}
        out |= {name: getattr(soft, name) for name in _SOFT if getattr(soft, name) is not None}
        if soft.ev_set is not None:
            out["ev_set"] = tuple([tuple(path) for path in paths] for paths in soft.ev_set)
        self._put_path(out, attr, soft)
        use = self.ctx.device.use_profiles(mrc.ev_profile_id, mrc.cc_profile_id, out)
        if mrc.hint is not None:
            use.add(mrc.hint.hold())
        try:
            if attr.qp_state is QPState.RTR:
                self.ctx.device.draw_evs(self.profiles, out)
            what = f"modify QP to {attr.qp_state.name}" if attr.qp_state is not None else "modify QP"
            with refusals(what):
                self.ctx.driver.modify_qp(self.qp_num, out)
        except BaseException:
            use.release()
            raise
        if attr.qp_state is QPState.RESET:
            self.profiles.release()
        self.profiles.take_over(use)
        if attr.qp_state is QPState.RTR and self.profiles.ev_profile is not None:
            self.ctx.device.started(self, self.profiles)

    def _put_path(self, out: dict[str, Any], attr: QPAttr, soft: SoftQPAttr) -> None:
        if attr.path_mtu is not None:
            is_enum = attr.path_mtu in set(PathMtu)
            out["path_mtu"] = 128 << int(attr.path_mtu) if is_enum else int(attr.path_mtu)
        elif attr.qp_state is QPState.RTR:
            out["path_mtu"] = _DEFAULT_PMTU
        planes = soft.peer_planes
        if planes is None and attr.dgid is not None:
            planes = [PeerPlane(1, attr.dgid)]
        if planes is not None:
            out["peer_ports"] = [
                (p.local_plane, p.address, p.udp_port, p.remote_plane or p.local_plane, list(p.routes))
                for p in planes
            ]

    def move_peer(self, plane: PeerPlane) -> None:
        """The peer has another address on one of its planes; EVs and everything else stay.

        Raises:
            VerbsError: EINVAL (the peer has no plane behind `local_plane`, another address family, bad routes).
        """
        port = (
            plane.local_plane, plane.address, plane.udp_port, plane.remote_plane or plane.local_plane,
            list(plane.routes),
        )  # fmt: skip
        with refusals("move peer"):
            self.ctx.driver.move_peer(self.qp_num, {"peer_ports": [port]})

    def query(self) -> tuple[QPAttr, MrcQPAttr]:
        """Return the attributes as they are now."""
        with refusals("query QP"):
            raw = self.ctx.driver.query_qp(self.qp_num)
        attr = QPAttr(qp_state=QPState(raw.get("state", 0)), path_mtu=raw.get("path_mtu"))
        attr.cur_qp_state = attr.qp_state
        for name, core in _VERBS.items():
            setattr(attr, name, raw.get(core))
        ports = raw.get("peer_ports")
        if ports:
            attr.dgid = ports[0][1]
        mrc = MrcQPAttr(**{name: raw.get(name) for name in _MRC})
        mrc.ev_profile_id = raw.get("ev_profile_id")
        mrc.cc_profile_id = raw.get("cc_profile_id")
        return attr, mrc

    @property
    def qp_state(self) -> QPState:
        """The state as it is now."""
        attr = self.query()[0]
        assert attr.qp_state is not None
        return attr.qp_state

    # --- work -----------------------------------------------------------------------------------------------

    def post_send(self, wr: SendWR | Sequence[SendWR]) -> None:
        """Queue one work request or several in order.

        Raises:
            VerbsError: EINVAL (opcode, state, more than one SGE, too long, memory not registered), ENOMEM
            (queue full).
                `bad_wr` on it is the first one refused; those before it are queued.
        """
        wrs = [wr] if isinstance(wr, SendWR) else list(wr)
        raw: list[tuple[Any, ...]] = []
        refused: tuple[int, str] | None = None
        for one in wrs:
            refused = self._why_not(one)
            if refused:
                break
            raw.append(self._raw(one))
        with refusals("post send"):
            posted, error = self.ctx.driver.post_send_many(self.qp_num, raw)
        if error:
            refused = (error, "post send" if error != errno.ENOMEM else "post send: the send queue is full")
        if refused:
            failure = VerbsError(*refused)
            failure.bad_wr = wrs[posted]  # type: ignore[attr-defined]
            raise failure

    @staticmethod
    def _why_not(wr: SendWR) -> tuple[int, str] | None:
        if wr.opcode not in (WROpcode.RDMA_WRITE, WROpcode.RDMA_WRITE_WITH_IMM):
            try:
                name = WROpcode(wr.opcode).name
            except ValueError:
                name = str(wr.opcode)
            return errno.EINVAL, f"post send: MRC has no {name}, only RDMA_WRITE and RDMA_WRITE_WITH_IMM"
        if wr.num_sge > 1 or len(wr.sg) > 1:
            return errno.EINVAL, "post send: one scatter/gather element per work request (num_sge 0 or 1)"
        if wr.num_sge > len(wr.sg):
            return errno.EINVAL, "post send: num_sge is 1 but sg is empty"
        if wr.send_flags & SendFlags.INLINE:
            return errno.EINVAL, "post send: no inline data; payload is read from registered memory"
        if wr.num_sge and not 0 <= wr.sg[0].length <= _MAX_MESSAGE:
            return errno.EINVAL, f"post send: a message has at most 2^31 bytes, not {wr.sg[0].length}"
        return None

    @staticmethod
    def _raw(wr: SendWR) -> tuple[Any, ...]:
        sge = wr.sg[0] if wr.num_sge else None
        return (
            wr.wr_id, int(wr.opcode), sge.addr if sge else 0, sge.length if sge else 0, sge.lkey if sge else
            0, wr.remote_addr, wr.rkey, wr.imm_data, bool(wr.send_flags & SendFlags.SIGNALED),
            bool(wr.send_flags & SendFlags.SOLICITED),
        )  # fmt: skip

    def post_recv(self, wr: RecvWR | Sequence[RecvWR]) -> None:
        """Queue receive work requests; each takes one write with immediate.

        Raises:
            VerbsError: EINVAL (state), ENOMEM (queue full).
        """
        ids = [wr.wr_id] if isinstance(wr, RecvWR) else [one.wr_id for one in wr]
        with refusals("post receive"):
            _, error = self.ctx.driver.post_recv_many(self.qp_num, ids)
        if error:
            raise VerbsError(error, "post receive")

    # --- looking in -----------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """Return windows, round trip and counters."""
        with refusals("query QP statistics"):
            return dict(self.ctx.driver.qp_stats(self.qp_num))

    def path_stats(self) -> list[dict[str, Any]]:
        """Return one dict for each EV.

        Ev, plane, state, active, sent, ecn, trimmed, lost, probes, probe_acks.
        """
        with refusals("query path statistics"):
            return list(self.ctx.driver.path_stats(self.qp_num))

    def _release(self) -> None:
        with refusals("destroy QP"):
            self.ctx.driver.destroy_qp(self.qp_num)
        self.profiles.release()
