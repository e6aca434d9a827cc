"""Makes the queue pairs of a connection and brings them up with what both ends offered."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from softmrc.endpoint.address import explain_no_pair, pair_planes
from softmrc.endpoint.connection import Connection
from softmrc.endpoint.exchange import Exchange
from softmrc.endpoint.handshake import Handshake
from softmrc.endpoint.knobs import MAX_PMTU, MIN_PMTU, PMTU_STEP
from softmrc.endpoint.mailbox import RECV_DEPTH, SEND_DEPTH, Mailbox
from softmrc.endpoint.offer import Offer, PlaneOffer, QpOffer
from softmrc.endpoint.region import Exposed, RemoteWindow
from softmrc.errors import MrcError, PeerError
from softmrc.verbs import (
    CQ,
    QP,
    Access,
    MrcQPAttr,
    PeerPlane,
    QPAttr,
    QPCap,
    QPCapFlag,
    QPInitAttr,
    SoftQPAttr,
)

if TYPE_CHECKING:
    from softmrc.endpoint.endpoint import Endpoint

__all__ = ["HANDSHAKE_SECONDS", "establish"]

HANDSHAKE_SECONDS = 5.0
# Reference 2.1: IP and UDP headers, BTH, METH, TSETH, RETH, ImmDt, iCRC around a payload.
_OVERHEAD_V6, _OVERHEAD_V4 = 92, 72
_MIN_CWND = 64 * 1024
_MAIL_EVS_PER_PLANE = 4


class _Ends:
    """The queue pairs while they come up."""

    def __init__(self, ep: Endpoint) -> None:
        knobs = ep.knobs
        self.ep = ep
        self.data_psn, self.mail_psn = ep.ctx.driver.random_psn(), ep.ctx.driver.random_psn()
        self.mailbox = Mailbox(ep.pd)
        depth = knobs.send_depth + knobs.notification_depth + SEND_DEPTH + RECV_DEPTH
        self.cq = CQ(ep.ctx, depth + 16, channel=ep.hub.channel)
        self.data = self._qp(knobs.send_depth, knobs.notification_depth)
        self.mail = self._qp(SEND_DEPTH, RECV_DEPTH)

    def _qp(self, send: int, recv: int) -> QP:
        return QP(
            self.ep.pd, QPInitAttr(scq=self.cq, rcq=self.cq, cap=QPCap(max_send_wr=send, max_recv_wr=recv))
        )

    def close(self) -> None:
        for thing in (self.data, self.mail, self.mailbox, self.cq):
            thing.close()

    def offer(self, window: RemoteWindow | None) -> Offer:
        ep, knobs = self.ep, self.ep.knobs
        planes = tuple(
            PlaneOffer(number=p.number, address=p.address, udp_port=p.udp_port, mtu=p.mtu, rcvbuf=p.rcvbuf)
            for p in ep.planes
        )
        return Offer(
            name=ep.name,
            generation=ep.generation,
            planes=planes,
            data=QpOffer(qpn=self.data.qp_num, psn=self.data_psn),
            mail=QpOffer(qpn=self.mail.qp_num, psn=self.mail_psn),
            pmtu=knobs.pmtu or MAX_PMTU,
            mpr_dest=knobs.mpr,
            max_wimm_dest=knobs.max_wimm,
            dynamic_mpr=False,
            trim_nack=True,
            svc_time=False,
            mailbox=self.mailbox.offer,
            window=window.to_json() if window is not None else None,
        )

    def receive_from(self, peer: Offer, pairs: list[tuple[int, int]], pmtu: int) -> None:
        """RESET to RTR: from here on the peer's packets are accepted."""
        knobs = self.ep.knobs
        remote = {p.number: p for p in peer.planes}
        planes = [PeerPlane(mine, remote[its].address, remote[its].udp_port, its) for mine, its in pairs]
        max_cwnd = knobs.max_cwnd or max(_MIN_CWND, sum(remote[its].rcvbuf for _, its in pairs) // 4)
        evs = {p.number: list(p.evs) for p in self.ep.planes}
        cap = QPCapFlag(0)
        if not peer.trim_nack:
            cap |= QPCapFlag.TRIM_NACK_DEST_UNSUPPORTED
        if not peer.svc_time:
            cap |= QPCapFlag.SVC_TIME_DEST_UNSUPPORTED
        for qp, its_end, is_mail in ((self.data, peer.data, False), (self.mail, peer.mail, True)):
            qp.to_init(
                QPAttr(qp_access_flags=Access.LOCAL_WRITE | Access.REMOTE_WRITE),
                MrcQPAttr(ev_profile_id=knobs.ev_profile, cc_profile_id=knobs.cc_profile),
                SoftQPAttr(
                    ev_set=None
                    if knobs.ev_profile
                    else (_active_evs(evs, pairs, knobs.ev_count, is_mail), []),
                    ev_policy=knobs.ev_policy,
                    ev_run=knobs.ev_run,
                    cc_algorithm=None if knobs.cc_profile else knobs.cc_algorithm,
                    cc_config=None if knobs.cc_profile else {"min_base_rtt_ns": int(knobs.base_rtt * 1e9)},
                ),
            )
            qp.to_rtr(
                QPAttr(dest_qp_num=its_end.qpn, rq_psn=its_end.psn, path_mtu=pmtu),
                MrcQPAttr(
                    mpr_dest=knobs.mpr, max_wimm_dest=knobs.max_wimm if not is_mail else RECV_DEPTH, cap=cap
                ),
                SoftQPAttr(
                    peer_planes=planes,
                    trimming=knobs.trimming and peer.trim_nack,
                    rq_empty_grace_ns=int((knobs.hold_time or 2.0) * 1e9),
                    base_rtt_ns=int(knobs.base_rtt * 1e9),
                    max_cwnd=max_cwnd,
                ),
            )

    def send_to(self, peer: Offer) -> None:
        """RTR to RTS."""
        knobs = self.ep.knobs
        for qp, psn, wimm in (
            (self.data, self.data_psn, peer.max_wimm_dest),
            (self.mail, self.mail_psn, RECV_DEPTH),
        ):
            qp.to_rts(
                QPAttr(sq_psn=psn),
                MrcQPAttr(
                    mpr=min(knobs.mpr, peer.mpr_dest),
                    max_wimm=min(wimm, knobs.max_wimm) if qp is self.data else wimm,
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


def _active_evs(
    evs: dict[int, list[int]], pairs: list[tuple[int, int]], count: int | None, is_mail: bool
) -> list[tuple[int, int]]:
    share = min(len(evs[mine]) for mine, _ in pairs)
    if count is not None:
        share = min(share, max(1, count // len(pairs)))
    if is_mail:
        share = min(share, _MAIL_EVS_PER_PLANE)
    # Equal planes (4.6); which of them is nobody's business but must differ between connections.
    return [(ev, mine) for mine, _ in pairs for ev in random.sample(evs[mine], share)]


def agree_pmtu(wanted: int, ours: dict[int, int], pairs: list[tuple[int, int]], peer: Offer) -> int:
    """Return the largest payload that fits both ends of every plane in use."""
    remote = {p.number: p for p in peer.planes}
    room = min(wanted, peer.pmtu)
    for mine, its in pairs:
        overhead = _OVERHEAD_V6 if ":" in remote[its].address else _OVERHEAD_V4
        room = min(room, (ours[mine] or 1500) - overhead, (remote[its].mtu or 1500) - overhead)
    if room < MIN_PMTU:
        raise PeerError(f"a plane's MTU leaves {room} bytes of payload; {MIN_PMTU} are needed")
    return room - room % PMTU_STEP


async def establish(
    ep: Endpoint,
    exchange: Exchange,
    shake: Handshake,
    *,
    initiator: bool,
    expose: Exposed,
) -> Connection:
    """Carry the handshake through and return a connection that both ends can use.

    Raises:
        PeerError: the ends do not fit, or the peer refused. The peer was told.
    """
    await shake.open()
    ends = _Ends(ep)
    try:
        window = expose.region.descriptor if expose.region is not None else None
        mine = ends.offer(window)
        if initiator:
            await shake.send(mine.to_json())
        theirs = Offer.from_json(await shake.recv("offer"))
        first, second = (mine, theirs) if initiator else (theirs, mine)
        pairs = pair_planes(first.planes, second.planes)
        if not pairs:
            await shake.refuse("planes", explain_no_pair(first.planes, second.planes))
        if not initiator:
            pairs = sorted((b, a) for a, b in pairs)
        try:
            pmtu = agree_pmtu(mine.pmtu, {p.number: p.mtu for p in mine.planes}, pairs, theirs)
        except PeerError as error:
            await shake.refuse("mtu", str(error))
            raise
        ends.receive_from(theirs, pairs, pmtu)
        if not initiator:
            await shake.send(mine.to_json())
            await shake.recv("ready")
        ends.send_to(theirs)
        ends.mailbox.connect(theirs.mailbox)
        conn = Connection(ep, ends.data, ends.mail, ends.cq, ends.mailbox, theirs, pairs, pmtu, expose.hold())
    except BaseException as error:
        ends.close()
        if isinstance(error, MrcError) and not isinstance(error, PeerError):
            await shake.tell_error("failed", str(error))
        raise
    try:
        conn._start()
        await shake.send({"type": "ready"})
        if initiator:
            await shake.recv("ready")
            await _prove_path(conn)
    except BaseException:
        conn._drop(PeerError("the connection was not completed"))
        raise
    if len(pairs) < max(len(mine.planes), len(theirs.planes)):
        ep.hub.warn_planes(conn, len(pairs), len(mine.planes), len(theirs.planes))
    return conn


async def _prove_path(conn: Connection) -> None:
    try:
        await asyncio.wait_for(conn._ping(), HANDSHAKE_SECONDS)
    except TimeoutError:
        raise PeerError(
            f"{conn.peer} answers over TCP, but no MRC packet comes back within {HANDSHAKE_SECONDS:g} s "
            "on any plane: is UDP filtered, or is the MTU smaller than it says?"
        ) from None
