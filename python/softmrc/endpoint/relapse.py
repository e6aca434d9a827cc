"""Planes of a connection that answer probes and lose data: small packets cross them, full ones do not (B26).

The engine decides it (`relapse`: data was lost three times in a row right after probes had been answered) and tries
such a path ever more rarely. Here it is put into words: which plane, what the kernel knows of its MTU, what helps.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from softmrc.endpoint.pathmtu import known_path_mtu, overhead

if TYPE_CHECKING:
    from softmrc.endpoint.link import Link

__all__ = ["Relapses", "note_relapse"]

_log = logging.getLogger("softmrc.paths")
_SAY_AGAIN = 60.0


class Relapses:
    """When data was lost like that last, by plane."""

    def __init__(self) -> None:
        """None yet."""
        self._seen: dict[int, float] = {}
        self._said: dict[int, float] = {}

    def note(self, plane: int) -> bool:
        """Take one down; True when it should be said: once a minute for each plane."""
        now = self._seen[plane] = time.monotonic()
        if now - self._said.get(plane, -_SAY_AGAIN) < _SAY_AGAIN:
            return False
        self._said[plane] = now
        return True

    def cause(self, pmtu: int) -> str:
        """Say whether that explains a lost connection; "" when nothing of the kind was seen lately.

        Args:
            pmtu: payload of a full packet of the connection, bytes.
        """
        lately = sorted(p for p, at in self._seen.items() if time.monotonic() - at < _SAY_AGAIN)
        if not lately:
            return ""
        where = ", ".join(map(str, lately))
        return (
            f"Full packets ({pmtu} bytes of payload) were lost on plane {where} while probes were answered: the MTU "
            "of the path has become too small, and no router tells. A connection keeps its packet size: connect anew"
        )


def note_relapse(link: Link, plane: int) -> None:
    """Warn that a plane of a connection loses full packets. Endpoint's thread."""
    if link.closed or not link.relapses.note(plane):
        return
    ours = {p.number: p.address for p in link._ep.planes}
    theirs = {p.number: p.address for p in link._offer.planes}
    its = dict(link._pairs).get(plane)
    if plane not in ours or its not in theirs:
        return
    local, remote = ours[plane], theirs[its]
    size, full = known_path_mtu(local, remote), link._pmtu + overhead(remote)
    known = f", the path carries {size}" if size is not None and size < full else ""
    _log.warning(
        "%s: plane %d (%s to %s) loses full packets of %d bytes to %s while probes are answered%s: has the MTU of "
        "the path become smaller? It is left to the other planes and tried again about once a second. A connection "
        "keeps its packet size: connect anew to use the plane with smaller ones",
        link._ep.name, plane, local, remote, full, link.peer, known,
    )  # fmt: skip
