"""Why a connection ended, in words: who, over which planes, when last heard, and what to look at."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from softmrc.endpoint.pathmtu import mtu_cause
from softmrc.errors import PeerError
from softmrc.verbs import WCStatus

if TYPE_CHECKING:
    from softmrc.endpoint.link import Link

__all__ = ["CAUSES", "lost_error"]

CAUSES = {
    WCStatus.REM_ACCESS_ERR: "the peer refused the access: the window is gone, too short, or not writable",
    WCStatus.REM_INV_REQ_ERR: "the peer took the request for invalid",
    WCStatus.REM_OP_ERR: "the peer could not execute the request; does it read its notifications?",
}


def lost_error(link: Link) -> PeerError:
    """Return the error of a peer that answered on no plane (B05)."""
    planes = {p.number: p.address for p in link._ep.planes}
    its = {p.number: p.address for p in link._offer.planes}
    tried = ", ".join(f"{mine} ({planes.get(mine)} to {its[n]})" for mine, n in link._pairs)
    routes = [(planes[mine], its[n]) for mine, n in link._pairs]
    cause = mtu_cause(routes, link._pmtu, link._ep.ctx.stats()["tx_too_big"] - link._too_big)
    cause = cause or link.relapses.cause(link._pmtu)
    return PeerError(
        f"{link.peer} is lost: no progress on any plane; tried planes {tried}; last heard "
        f"{time.monotonic() - link._heard:.1f} s ago. "
        f"{cause or 'Is the process gone, or route, MTU or firewall wrong?'}"
    )
