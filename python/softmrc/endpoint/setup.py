"""Makes the queue pairs of a connection and brings them up with what both ends offered."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from softmrc.endpoint.address import explain_no_pair, pair_planes
from softmrc.endpoint.bringup import draw_ways, receive_on, send_on
from softmrc.endpoint.connection import Connection
from softmrc.endpoint.exchange import Exchange
from softmrc.endpoint.handshake import Handshake, Refused
from softmrc.endpoint.knobs import DEFAULT_PMTU, MAX_PMTU, MIN_PMTU, PMTU_STEP
from softmrc.endpoint.mailbox import RECV_DEPTH, SEND_DEPTH, Mailbox
from softmrc.endpoint.offer import Agreement, Offer, PlaneOffer, QpOffer
from softmrc.endpoint.pathmtu import overhead, path_mtus
from softmrc.endpoint.proof import PATH_MTU, PathMtuError, prove
from softmrc.endpoint.region import Exposed, RemoteWindow
from softmrc.endpoint.routes import source_toward
from softmrc.endpoint.steering import Ways
from softmrc.errors import MrcError, PeerError
from softmrc.verbs import CQ, QP, QPCap, QPInitAttr

if TYPE_CHECKING:
    from softmrc.endpoint.endpoint import Endpoint

__all__ = ["HANDSHAKE_SECONDS", "establish"]

HANDSHAKE_SECONDS = 5.0
_log = logging.getLogger("softmrc.paths")


class _Ends:
    """The queue pairs while they come up."""

    def __init__(self, ep: Endpoint) -> None:
        knobs = ep.knobs
        self.ep = ep
        self.data_psn, self.mail_psn = ep.ctx.driver.random_psn(), ep.ctx.driver.random_psn()
        self.mailbox = Mailbox(ep.pd)
        depth = knobs.send_depth + knobs.notification_depth + SEND_DEPTH + RECV_DEPTH
        self.cq = CQ(ep.ctx, depth + 16, channel=ep.hub.channel)
        self.ways = Ways()
        self.data = self._qp(knobs.send_depth, knobs.notification_depth)
        self.mail = self._qp(SEND_DEPTH, RECV_DEPTH)

    def _qp(self, send: int, recv: int) -> QP:
        return QP(
            self.ep.pd, QPInitAttr(scq=self.cq, rcq=self.cq, cap=QPCap(max_send_wr=send, max_recv_wr=recv))
        )

    def close(self) -> None:
        for thing in (self.data, self.mail, self.mailbox, self.cq):
            thing.close()

    def offer(self, window: RemoteWindow | None, pmtu_limit: int) -> Offer:
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
            pmtu=min(knobs.pmtu or DEFAULT_PMTU, pmtu_limit),
            mpr_dest=knobs.mpr,
            max_wimm_dest=knobs.max_wimm,
            dynamic_mpr=False,
            trim_nack=True,
            svc_time=False,
            mailbox=self.mailbox.offer,
            window=window.to_json() if window is not None else None,
            icrc_off=not knobs.icrc,
        )

    def receive_from(self, peer: Offer, pairs: list[tuple[int, int]], pmtu: int) -> None:
        """RESET to RTR: from here on the peer's packets are accepted."""
        self.ways = draw_ways(self.ep, peer, pairs)
        for qp, its_end, is_mail in ((self.data, peer.data, False), (self.mail, peer.mail, True)):
            wimm = RECV_DEPTH if is_mail else self.ep.knobs.max_wimm
            receive_on(
                self.ep, qp, its_end, peer, pairs, pmtu, max_wimm=wimm, is_mail=is_mail, ways=self.ways
            )

    def send_to(self, peer: Offer) -> None:
        """RTR to RTS."""
        wimm = min(peer.max_wimm_dest, self.ep.knobs.max_wimm)
        send_on(self.ep, self.data, self.data_psn, peer, max_wimm=wimm)
        send_on(self.ep, self.mail, self.mail_psn, peer, max_wimm=RECV_DEPTH)


def agree_pmtu(wanted: int, ours: dict[int, int], pairs: list[tuple[int, int]], peer: Offer) -> int:
    """Return the largest payload that fits both ends of every plane in use, and the way between as far as known.

    Args:
        wanted: bytes of payload.
        ours: bytes of IP packet, by number of our plane; 0: unknown.
        pairs: number of our plane, number of the peer's.
        peer: what the peer offers.
    """
    remote = {p.number: p for p in peer.planes}
    room = min(wanted, peer.pmtu)
    for mine, its in pairs:
        around = overhead(remote[its].address)
        room = min(room, (ours[mine] or 1500) - around, (remote[its].mtu or 1500) - around)
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
    pmtu_limit: int = MAX_PMTU,
) -> Connection:
    """Carry the handshake through and return a connection that both ends can use.

    Args:
        ep: whose planes are used.
        exchange: the channel of the handshake.
        shake: the handshake, not begun.
        initiator: this end speaks first, and decides which planes belong together.
        expose: memory the peer may write to.
        pmtu_limit: payload of a full packet at most, bytes, besides the endpoint's own.

    Raises:
        PathMtuError: full packets vanish; with a smaller `pmtu_limit` it may do.
        PeerError: the ends do not fit, or the peer refused. The peer was told.
    """
    await shake.open()
    ends = _Ends(ep)
    try:
        window = expose.region.descriptor if expose.region is not None else None
        mine = ends.offer(window, pmtu_limit)
        if initiator:
            await shake.send(mine.to_json())
            theirs = Offer.from_json(await shake.recv("offer"))
            agreed = await _propose(ep, shake, mine, theirs)
        else:
            theirs = Offer.from_json(await shake.recv("offer"))
            agreed = await _consent(ep, shake, mine, theirs)
        pairs, pmtu = list(agreed.pairs), agreed.pmtu
        ends.receive_from(theirs, pairs, pmtu)
        ends.send_to(theirs)
        ends.mailbox.connect(theirs.mailbox)
        conn = Connection(ep, ends.data, ends.mail, ends.cq, ends.mailbox, theirs, pairs, pmtu, expose.hold())
    except BaseException as error:
        ends.close()
        if isinstance(error, MrcError) and not isinstance(error, PeerError):
            await shake.tell_error("failed", str(error))
        raise
    try:
        conn.path_names = ends.ways.names
        if not ep.knobs.icrc and agreed.icrc:
            _log.info("%s: %s does not ask to leave the iCRC off, so it stays on", ep.name, theirs.name)
        conn._start()
        await _begin(conn, shake, initiator=initiator, agreed=agreed)
    except BaseException:
        conn._drop(PeerError("the connection was not completed"))
        raise
    if len(pairs) < max(len(mine.planes), len(theirs.planes)):
        ep.hub.warn_planes(conn, len(pairs), len(mine.planes), len(theirs.planes))
    return conn


async def _propose(ep: Endpoint, shake: Handshake, mine: Offer, theirs: Offer) -> Agreement:
    """Choose pairs by the routes of this host and a size by what the paths carry; the peer may lower the size."""
    sources = {p.number: source_toward(p.address) for p in theirs.planes}
    pairs = pair_planes(mine.planes, theirs.planes, sources)
    if not pairs:
        await shake.refuse("planes", explain_no_pair(mine.planes, theirs.planes))
    pmtu = await _size(ep, shake, mine, theirs, pairs)
    wanted = Agreement(pairs=tuple(pairs), pmtu=pmtu, icrc=mine.keeps_icrc(theirs))
    await shake.send(wanted.to_json("pairs"))
    final = Agreement.from_json(await shake.recv("ready"), mine, theirs)
    if final.pairs != tuple(pairs) or final.pmtu > pmtu:
        await shake.refuse("agreement", "the answer to the proposed planes and packet size is another one")
    _say_if_smaller(ep, mine, theirs, final)
    return final


async def _consent(ep: Endpoint, shake: Handshake, mine: Offer, theirs: Offer) -> Agreement:
    """Check what the connecting end chose, and lower the size to what the paths back carry."""
    if not pair_planes(theirs.planes, mine.planes):
        await shake.refuse("planes", explain_no_pair(theirs.planes, mine.planes))
    await shake.send(mine.to_json())
    proposed = Agreement.from_json(await shake.recv("pairs"), theirs, mine)
    pairs = sorted((b, a) for a, b in proposed.pairs)
    pmtu = min(proposed.pmtu, await _size(ep, shake, mine, theirs, pairs))
    agreed = Agreement(pairs=tuple(pairs), pmtu=pmtu, icrc=proposed.icrc)
    _say_if_smaller(ep, mine, theirs, agreed)
    return agreed


async def _size(
    ep: Endpoint, shake: Handshake, mine: Offer, theirs: Offer, pairs: list[tuple[int, int]]
) -> int:
    links = {p.number: (p.address, p.mtu) for p in ep.planes}
    mtus = await path_mtus(pairs, links, {p.number: p.address for p in theirs.planes})
    try:
        return agree_pmtu(mine.pmtu, mtus, pairs, theirs)
    except PeerError as error:
        await shake.refuse("mtu", str(error))
        raise


def _say_if_smaller(ep: Endpoint, mine: Offer, theirs: Offer, agreed: Agreement) -> None:
    """Say when less is used than the links at both ends would carry (B26)."""
    links = agree_pmtu(mine.pmtu, {p.number: p.mtu for p in mine.planes}, list(agreed.pairs), theirs)
    if agreed.pmtu < links:
        _log.warning(
            "%s: the way to %s carries less than the links at its ends: full packets have %d bytes of payload, "
            "not %d",
            ep.name, theirs.name, agreed.pmtu, links,
        )  # fmt: skip


async def _begin(conn: Connection, shake: Handshake, *, initiator: bool, agreed: Agreement) -> None:
    """Both ends receive: say so, prove the paths both ways, and hear that the peer has done so, too."""
    if initiator:
        await shake.send({"type": "ready"})
    else:
        its_view = tuple(sorted((b, a) for a, b in agreed.pairs))
        await shake.send(replace(agreed, pairs=its_view).to_json("ready"))
        await shake.recv("ready")
    try:
        await prove(conn)
    except PathMtuError as error:
        await shake.tell_error(PATH_MTU, str(error))
        raise
    except PeerError as error:
        await shake.tell_error("path", str(error))
        raise
    await shake.send({"type": "done"})
    try:
        await shake.recv("done")
    except Refused as refusal:
        if refusal.code == PATH_MTU:
            raise PathMtuError(str(refusal), conn.pmtu) from None
        raise
