"""Which planes talk to each other and how large a packet is: the client proposes, the server checks and may lower.

The rules are those of the simple level: pairs by route, then by position; sizes that the paths carry as far as
anybody says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from softmrc.endpoint.address import explain_no_pair, pair_planes
from softmrc.endpoint.knobs import MIN_PMTU, PMTU_STEP
from softmrc.endpoint.pathmtu import overhead, path_mtus
from softmrc.endpoint.routes import source_toward
from softmrc.errors import PeerError
from softmrc.perf.offer import PerfOffer
from softmrc.perf.plan import integer
from softmrc.perf.talk import Talk

__all__ = ["agree_pmtu", "consent", "propose", "read_pairs"]

Pairs = list[tuple[int, int]]


def agree_pmtu(
    ours: PerfOffer, theirs: PerfOffer, pairs: Sequence[tuple[int, int]], paths: Mapping[int, int]
) -> int:
    """Return the payload of a full packet: what both want and every plane in use carries.

    Args:
        ours: this end's offer.
        theirs: the peer's.
        pairs: number of our plane, number of the peer's.
        paths: bytes of IP packet that the way there carries, by number of our plane.

    Raises:
        PeerError: an MTU is too small.
    """
    its = {p.number: p for p in theirs.planes}
    room = min(ours.pmtu, theirs.pmtu)
    for left, right in pairs:
        mtu = min(paths[left], its[right].mtu or paths[left])
        room = min(room, mtu - overhead(its[right].address))
    if room < MIN_PMTU:
        raise PeerError(f"a plane's MTU leaves {room} bytes of payload; {MIN_PMTU} are needed")
    return room - room % PMTU_STEP


async def _size(ours: PerfOffer, theirs: PerfOffer, pairs: Pairs) -> int:
    links = {p.number: (p.address, p.mtu) for p in ours.planes}
    paths = await path_mtus(pairs, links, {p.number: p.address for p in theirs.planes})
    return agree_pmtu(ours, theirs, pairs, paths)


def read_pairs(data: Any, client: PerfOffer, server: PerfOffer) -> Pairs:
    """Return the pairs (number at the client, number at the server) that a client chose.

    Raises:
        PeerError: malformed, a plane twice or not offered, or two families in one pair.
    """
    left, right = {p.number: p for p in client.planes}, {p.number: p for p in server.planes}
    pairs: Pairs = []
    for item in data if isinstance(data, list) else ():
        if not isinstance(item, list) or len(item) != 2 or not all(type(n) is int for n in item):
            raise PeerError("the peer's choice of planes is malformed")
        mine, its = left.pop(item[0], None), right.pop(item[1], None)
        if mine is None or its is None or (":" in mine.address) != (":" in its.address):
            raise PeerError("the peer chose planes that do not fit together")
        pairs.append((mine.number, its.number))
    if not pairs:
        raise PeerError("the peer chose no planes")
    return pairs


async def propose(talk: Talk, mine: PerfOffer, theirs: PerfOffer, timeout: float) -> tuple[Pairs, int]:
    """Choose, and hear from the server that it has connected.

    Returns:
        Pairs (our plane, its plane), and the payload of a full packet.

    Raises:
        PeerError: nothing fits, or the server refuses.
    """
    sources = {p.number: source_toward(p.address) for p in theirs.planes}
    pairs = pair_planes(mine.planes, theirs.planes, sources)
    if not pairs:
        raise PeerError(explain_no_pair(mine.planes, theirs.planes))
    pmtu = await _size(mine, theirs, pairs)
    await talk.send("pairs", pairs=[list(p) for p in pairs], pmtu=pmtu, icrc=mine.keeps_icrc(theirs))
    answer = await talk.next("connected", timeout=timeout)
    return pairs, _read_pmtu(answer, pmtu)


async def consent(talk: Talk, mine: PerfOffer, theirs: PerfOffer, timeout: float) -> tuple[Pairs, int]:
    """Hear what the client chose; the caller connects and then says so.

    Returns:
        Pairs (our plane, its plane), and the payload of a full packet.

    Raises:
        PeerError: it fits nothing.
    """
    asked = await talk.next("pairs", timeout=timeout)
    pairs = sorted((b, a) for a, b in read_pairs(asked.get("pairs"), theirs, mine))
    if asked.get("icrc", True) is not mine.keeps_icrc(theirs):
        raise PeerError("the peer chose about the iCRC what the two ends did not ask for")
    pmtu = _read_pmtu(asked, min(mine.pmtu, theirs.pmtu))
    return pairs, min(pmtu, await _size(mine, theirs, pairs))


def _read_pmtu(data: Mapping[str, Any], most: int) -> int:
    pmtu = integer(data, "pmtu", MIN_PMTU, most)
    if pmtu % PMTU_STEP:
        raise PeerError(f"the peer's packet size is no multiple of {PMTU_STEP}")
    return pmtu
