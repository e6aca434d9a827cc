"""Shows that a new connection carries packets, full ones included, on every plane it uses (B26).

Decides when a size is taken for one that vanishes on the way; a smaller one is tried by `dial.py`. Small packets
get through where the MTU lies, EV probes among them: a path that loses nothing but full packets would come back
as good again and again.
"""

from __future__ import annotations

import asyncio
import ipaddress
from typing import TYPE_CHECKING, Any

from softmrc.device import refusals
from softmrc.endpoint.mailbox import Kind
from softmrc.endpoint.pathmtu import overhead
from softmrc.errors import PeerError, VerbsError

if TYPE_CHECKING:
    from softmrc.endpoint.connection import Connection

__all__ = ["PATH_MTU", "PROOF_SECONDS", "PathMtuError", "prove", "smaller"]

PATH_MTU = "path-mtu"
"""Code of a refusal because full packets do not arrive."""
PROOF_SECONDS = 4.0
_STALL_SECONDS = 1.0
_PROBE_SECONDS = 0.2
_PROBES = 3
# Every IPv6 link carries 1280 bytes, every IPv4 host 576.
_SAFE_V6, _SAFE_V4 = 1280, 576
# Payloads to try: half a jumbo frame, Ethernet, that less an overlay, the IPv6 minimum, the IPv4 one, ours.
_LADDER = (4096, 1408, 1344, 1152, 448, 256)


class PathMtuError(PeerError):
    """Full packets vanish on the way, without a word from a router. `pmtu` is the payload that was tried."""

    def __init__(self, message: str, pmtu: int) -> None:
        """Keep the size for the next try."""
        super().__init__(message)
        self.pmtu = pmtu


def smaller(pmtu: int) -> int | None:
    """Return the payload to try next after one that did not arrive; None: there is none."""
    return next((size for size in _LADDER if size < pmtu), None)


async def prove(conn: Connection) -> None:
    """Send a small packet, then a full one on every path of the mailbox, and judge what comes back.

    Raises:
        PathMtuError: full packets are lost where small ones arrive, on one plane at least.
        PeerError: nothing arrives.
    """
    try:
        await asyncio.wait_for(conn._ping(), PROOF_SECONDS)
    except TimeoutError:
        raise PeerError(
            f"{conn.peer} answers over TCP, but no MRC packet comes back within {PROOF_SECONDS:g} s on any "
            "plane: is UDP filtered?"
        ) from None
    far = {r.plane: r for r in conn.routes if not ipaddress.ip_address(r.address).is_loopback}
    if not far:
        return
    dark, complete = await _dark_planes(conn, list(far))
    if complete:
        # Where the smallest MTU that there may be is lost, size is not why: such a plane is merely bad.
        dark = [n for n in dark if not _always_fits(conn.pmtu, far[n].address)]
        dark = [n for n in dark if await _answers_probe(conn, n)]
    if dark or not complete:
        where = ", ".join(f"{n} ({far[n].address})" for n in dark)
        raise PathMtuError(
            f"full packets of {conn.pmtu} bytes of payload do not reach {conn.peer} on plane {where}, small ones "
            "do: the MTU of the path is smaller than its links say, and no router tells",
            conn.pmtu,
        )


def _always_fits(pmtu: int, address: str) -> bool:
    return pmtu + overhead(address) <= (_SAFE_V6 if ":" in address else _SAFE_V4)


async def _dark_planes(conn: Connection, planes: list[int]) -> tuple[list[int], bool]:
    """Return the planes on which full packets are lost; False as well when none at all got through."""
    before = _counts(conn)
    if not await _send_full(conn):
        return planes, False
    after = _counts(conn)
    dark = [p for p in planes if _half_lost(before[p], after[p])]
    if dark:
        # What was only late, and so taken for lost, arrives the second time.
        if not await _send_full(conn):
            return planes, False
        again = _counts(conn)
        dark = [p for p in dark if not _clearly_arrived(after[p], again[p])]
    return dark, True


# Beside the full packets, now and then a small one goes out (credits of the mailbox), and arrives.


def _half_lost(before: tuple[int, int], after: tuple[int, int]) -> bool:
    sent, lost = after[0] - before[0], after[1] - before[1]
    return 0 < sent <= 2 * lost


def _clearly_arrived(before: tuple[int, int], after: tuple[int, int]) -> bool:
    sent, lost = after[0] - before[0], after[1] - before[1]
    return sent - lost >= max(3, lost + 1)


async def _send_full(conn: Connection) -> bool:
    """Send one full packet for each path; False when nothing is acknowledged for too long."""
    frame = len(b'{"pad":""}')
    body = b'{"pad":"%s"}' % (b"0" * (conn.pmtu - frame))
    for sent in [conn._send_mail(Kind.CONTROL, body) for _ in conn._mail.path_stats()]:
        try:
            await asyncio.wait_for(sent, _STALL_SECONDS)
        except TimeoutError:
            return False
    return True


def _counts(conn: Connection) -> dict[int, tuple[int, int]]:
    """Return packets sent and lost, by plane."""
    out: dict[int, tuple[int, int]] = {}
    for p in conn._mail.path_stats():
        sent, lost = out.get(p["plane"], (0, 0))
        out[p["plane"]] = sent + p["sent"], lost + p["lost"]
    return out


async def _answers_probe(conn: Connection, plane: int) -> bool:
    """Return True when small packets cross a plane: it is not dead, only its large packets are."""
    ctx = conn._ep.ctx
    route = next(r for r in conn.routes if r.plane == plane)
    evs = next(p.evs for p in conn._ep.planes if p.number == plane)
    asked: set[int] = set()
    answered: set[int] = set()

    def keep(event: dict[str, Any]) -> None:
        if event["kind"] == "endpoint_response" and event["up"]:
            answered.add(event["request_id"])

    ctx.pump.add_sink(keep)
    try:
        for i in range(_PROBES):
            try:
                with refusals("EV probe"):
                    asked.add(
                        ctx.driver.send_ev_probe(plane, route.address, route.udp_port, evs[i % len(evs)], 0)
                    )
            except VerbsError:
                continue
            await asyncio.sleep(_PROBE_SECONDS)
            ctx.pump.run()
            if asked & answered:
                return True
    finally:
        ctx.pump.remove_sink(keep)
    return False
