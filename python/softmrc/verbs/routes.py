"""SRv6 destinations of entropy values."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["spread_routes"]


def spread_routes(evs: Sequence[int], lists: Sequence[str]) -> tuple[tuple[int, str], ...]:
    """Deal uSID lists out to entropy values in turn, for `PeerPlane.routes` (reference 3.1).

    Args:
        evs: wire tags of one plane.
        lists: IPv6 addresses, each a uSID list that ends at the peer's address of that plane.

    Returns:
        (EV, list) pairs; empty when there is no list.
    """
    if not lists:
        return ()
    return tuple((ev, lists[i % len(lists)]) for i, ev in enumerate(evs))
