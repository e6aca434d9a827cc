"""A plane whose link came back with another address (B02): the peer is told over the other planes, and follows.

The driver has opened the plane's sockets again by itself. Until the peer knows, it takes nothing from the new address.
"""

from __future__ import annotations

import ipaddress
import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from softmrc.endpoint.mailbox import Kind
from softmrc.endpoint.offer import Offer
from softmrc.errors import MrcError
from softmrc.verbs import PeerPlane

if TYPE_CHECKING:
    from softmrc.endpoint.link import Link

__all__ = ["follow", "tell"]

_log = logging.getLogger("softmrc")


def tell(link: Link, plane: int) -> None:
    """Tell the peer of a connection where a plane of ours lives now. Endpoint's thread."""
    here = next(p for p in link._ep.planes if p.number == plane)
    _log.warning("%s: plane %d is at %s now", link._ep.name, plane, here.address)
    told = {"moved": {"plane": plane, "address": here.address, "udp_port": here.udp_port}}
    try:
        link._send_mail(Kind.CONTROL, json.dumps(told).encode())
    except MrcError:
        return  # it is closing or lost: nobody is left to be told


def follow(link: Link, told: Any) -> Offer:
    """Send to the peer's new address from now on; returns the offer as it is with it.

    Raises:
        ValueError: the peer's message makes no sense.
    """
    number, address, udp_port = _checked(told)
    offer = link._offer
    if all(p.number != number for p in offer.planes):
        raise ValueError(f"no plane {number}")
    for mine, its in link._pairs:
        if its == number:
            for qp in (link._data, link._mail, *link.companions):
                qp.move_peer(PeerPlane(mine, address, udp_port, its))
    moved = tuple(
        replace(p, address=address, udp_port=udp_port) if p.number == number else p for p in offer.planes
    )
    return replace(offer, planes=moved)


def _checked(told: Any) -> tuple[int, str, int]:
    if not isinstance(told, Mapping):
        raise ValueError("moved: no object")
    number, text, udp_port = told.get("plane"), told.get("address"), told.get("udp_port")
    if type(number) is not int or type(udp_port) is not int or not 1 <= udp_port <= 0xFFFF:
        raise ValueError("moved: no numbers")
    if not isinstance(text, str):
        raise ValueError("moved: no address")
    # The scope of a link-local address is each end's own.
    address = ipaddress.ip_address(text.partition("%")[0])
    if address.is_unspecified or address.is_multicast:
        raise ValueError("moved: no address of a host")
    return number, str(address), udp_port
