"""Names of the links and switches of a Clos fabric, by layer.

Planes count from 1, all else from 0: `h3.p2` is the link of host 3 in plane 2, `p2.t0-5.t1-7` joins T0 5 and T1 7 of
plane 2, `p2.t1-7` is that T1. T1s of a three-tier fabric are numbered pod by pod, and T1 j of each pod leads to the
j-th share of the T2s.
"""

from __future__ import annotations

from softmrc.sim.config import Clos

from softmrc.errors import UsageError

__all__ = ["LAYERS", "host_links", "links", "switches", "uplinks"]

LAYERS = ("host-t0", "t0-t1", "t1-t2")


def host_links(fabric: Clos, plane: int) -> list[str]:
    """Return the links between hosts and T0s of a plane, by host."""
    return [f"h{host}.p{plane}" for host in range(fabric.hosts)]


def uplinks(fabric: Clos, tier: int, plane: int) -> list[list[str]]:
    """Return the links upwards of each switch of a tier (0 or 1), by switch; none for a tier without any."""
    if tier == 0:
        if not fabric.t1:
            return []
        pods = fabric.pods if fabric.tiers == 3 else 1
        per_pod, t0_per_pod = fabric.t1 // pods, fabric.t0 // pods
        return [
            [f"p{plane}.t0-{t0}.t1-{t0 // t0_per_pod * per_pod + j}" for j in range(per_pod)]
            for t0 in range(fabric.t0)
        ]
    if fabric.tiers < 3:
        return []
    per_pod = fabric.t1 // fabric.pods
    share = fabric.t2 // per_pod
    return [
        [f"p{plane}.t1-{t1}.t2-{t1 % per_pod * share + k}" for k in range(share)] for t1 in range(fabric.t1)
    ]


def links(fabric: Clos, layer: str, plane: int | None = None) -> list[str]:
    """Return the links of a layer, in one plane or all of them.

    Args:
        fabric: the fabric.
        layer: "host-t0", "t0-t1" or "t1-t2".
        plane: 1.., None: all.

    Raises:
        UsageError: no such layer or plane in this fabric.
    """
    if layer not in LAYERS:
        raise UsageError(f"no layer {layer!r}; there are {', '.join(LAYERS)}")
    out: list[str] = []
    for p in _planes(fabric, plane):
        if layer == "host-t0":
            out += host_links(fabric, p)
        else:
            out += [name for row in uplinks(fabric, LAYERS.index(layer) - 1, p) for name in row]
    if not out:
        raise UsageError(
            f"a fabric of {fabric.tiers} tiers with {fabric.t1} T1s a plane has no {layer} links"
        )
    return out


def switches(fabric: Clos, tier: int, plane: int | None = None) -> list[str]:
    """Return the switches of a tier (0, 1, 2), in one plane or all of them.

    Raises:
        UsageError: no such tier or plane in this fabric.
    """
    counts = (fabric.t0, fabric.t1, fabric.t2)
    if not 0 <= tier <= 2 or not counts[tier]:
        raise UsageError(f"this fabric has no switches of tier {tier}")
    return [f"p{p}.t{tier}-{i}" for p in _planes(fabric, plane) for i in range(counts[tier])]


def _planes(fabric: Clos, plane: int | None) -> range:
    if plane is None:
        return range(1, fabric.planes + 1)
    if not 1 <= plane <= fabric.planes:
        raise UsageError(f"no plane {plane}; there are 1..{fabric.planes}")
    return range(plane, plane + 1)
