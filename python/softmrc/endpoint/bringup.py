"""Brings one queue pair up with what both ends offered: the knobs of the endpoint, the planes of the connection.

Decides how knobs become attributes; which queue pairs there are is `setup.py`'s, or that of who opens further ones
beside a connection (`softmrc.collectives.lanes`).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from softmrc.endpoint.knobs import Knobs
from softmrc.endpoint.offer import Offer, QpOffer
from softmrc.endpoint.steering import Ways
from softmrc.verbs import QP, Access, MrcQPAttr, PeerPlane, QPAttr, QPCapFlag, SoftQPAttr

if TYPE_CHECKING:
    from softmrc.endpoint.endpoint import Endpoint

__all__ = ["draw_ways", "receive_on", "send_on"]

_MIN_CWND = 64 * 1024
_MAIL_EVS_PER_PLANE = 4


def receive_on(
    ep: Endpoint,
    qp: QP,
    its_end: QpOffer,
    peer: Offer,
    pairs: list[tuple[int, int]],
    pmtu: int,
    *,
    max_wimm: int,
    is_mail: bool = False,
    ways: Ways | None = None,
    sack_bytes: int | None = None,
) -> None:
    """RESET to RTR: from here on the peer's packets are accepted.

    Args:
        ep: whose knobs and planes count.
        qp: in state RESET.
        its_end: the queue pair at the peer.
        peer: what the peer offered when the connection was made.
        pairs: number of our plane, number of the peer's.
        pmtu: payload of a full packet, bytes.
        max_wimm: immediates in flight that this end accepts.
        is_mail: little traffic, whose paths are to be used in turn: they show which planes carry it.
        ways: drawn by `draw_ways`; None: they are drawn here. Queue pairs to one peer should share them.
        sack_bytes: what the peer may have sent before it is acknowledged, bytes; None: the engine's choice.
    """
    knobs = ep.knobs
    remote = {p.number: p for p in peer.planes}
    ways = ways or draw_ways(ep, peer, pairs)
    base_rtt, max_cwnd = _sized(ep, ways, [remote[its].rcvbuf for _, its in pairs])
    qp.to_init(
        QPAttr(qp_access_flags=Access.LOCAL_WRITE | Access.REMOTE_WRITE),
        MrcQPAttr(ev_profile_id=knobs.ev_profile, cc_profile_id=knobs.cc_profile),
        SoftQPAttr(
            ev_set=None if knobs.ev_profile else _ev_set(ways, pairs, knobs, is_mail),
            ev_policy=knobs.ev_policy,
            ev_run=1 if is_mail else knobs.ev_run,
            cc_algorithm=None if knobs.cc_profile else knobs.cc_algorithm,
            ev_table=knobs.ev_table(),
            cc_config=None if knobs.cc_profile else {"min_base_rtt_ns": int(base_rtt * 1e9)},
        ),
    )
    qp.to_rtr(
        QPAttr(dest_qp_num=its_end.qpn, rq_psn=its_end.psn, path_mtu=pmtu),
        MrcQPAttr(mpr_dest=knobs.mpr, max_wimm_dest=max_wimm, cap=_lacks(peer)),
        SoftQPAttr(
            peer_planes=_planes(peer, pairs, ways),
            trimming=ep.steering.trimming(knobs.trimming, ways) and peer.trim_nack,
            icrc=knobs.icrc or not peer.icrc_off,
            rq_empty_grace_ns=int((knobs.hold_time or 2.0) * 1e9),
            base_rtt_ns=int(base_rtt * 1e9),
            delay_mark_ns=int(knobs.delay_mark * 1e9),
            max_cwnd=max_cwnd,
            sack_bytes=sack_bytes,
        ),
    )
    ep.steering.denial.watch(qp, ways)


def _planes(peer: Offer, pairs: list[tuple[int, int]], ways: Ways) -> list[PeerPlane]:
    remote = {p.number: p for p in peer.planes}
    return [
        PeerPlane(mine, remote[its].address, remote[its].udp_port, its, ways.routes.get(mine, ()))
        for mine, its in pairs
    ]


def _sized(ep: Endpoint, ways: Ways, rcvbufs: list[int]) -> tuple[float, int]:
    """Return the base round trip, seconds, and the largest window, bytes."""
    base_rtt = ep.steering.base_rtt(ep.knobs.base_rtt, ways)
    room = ep.steering.window(sum(rcvbufs) // 4, ways, base_rtt)
    return base_rtt, ep.knobs.max_cwnd or max(_MIN_CWND, room)


def _lacks(peer: Offer) -> QPCapFlag:
    cap = QPCapFlag(0)
    if not peer.trim_nack:
        cap |= QPCapFlag.TRIM_NACK_DEST_UNSUPPORTED
    if not peer.svc_time:
        cap |= QPCapFlag.SVC_TIME_DEST_UNSUPPORTED
    return cap


def draw_ways(ep: Endpoint, peer: Offer, pairs: list[tuple[int, int]]) -> Ways:
    """Return in which order the EVs of each plane are taken, and which way each goes.

    Args:
        ep: whose EVs.
        peer: where to.
        pairs: number of our plane, number of the peer's.
    """
    remote = {p.number: p.address for p in peer.planes}
    own = {p.number: p for p in ep.planes}
    # Which EVs are used is nobody's business but must differ between connections.
    return ep.steering.ways(
        [
            (own[mine].address, remote[its], mine, random.sample(own[mine].evs, len(own[mine].evs)))
            for mine, its in pairs
        ]
    )


def send_on(ep: Endpoint, qp: QP, psn: int, peer: Offer, *, max_wimm: int) -> None:
    """RTR to RTS: from here on it sends, with at most `max_wimm` immediates in flight, as the peer accepts."""
    knobs = ep.knobs
    qp.to_rts(
        QPAttr(sq_psn=psn),
        MrcQPAttr(
            mpr=min(knobs.mpr, peer.mpr_dest),
            max_wimm=max_wimm,
            timeout=knobs.timeout,
            linear_cnt=knobs.linear_cnt,
            exp_cnt=knobs.exp_cnt,
        ),
        SoftQPAttr(
            hold_time_ns=int(knobs.hold_time * 1e9),
            min_ack_timeout_ns=int(knobs.min_ack_timeout * 1e9),
            reorder_min_time_ns=int(knobs.reorder_min_time * 1e9),
        ),
    )


def _ev_set(
    ways: Ways, pairs: list[tuple[int, int]], knobs: Knobs, is_mail: bool
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the active EVs and the backups, of every plane the same number (4.6)."""
    there = min(len(ways.evs[mine]) for mine, _ in pairs)
    share = there if knobs.ev_count is None else min(there, max(1, knobs.ev_count // len(pairs)))
    if is_mail:
        share = min(share, _MAIL_EVS_PER_PLANE)
    spare = 0 if is_mail else min(there - share, knobs.ev_backups // len(pairs))
    active = [(ev, mine) for mine, _ in pairs for ev in ways.evs[mine][:share]]
    return active, [(ev, mine) for mine, _ in pairs for ev in ways.evs[mine][share : share + spare]]
