"""Faults by name become faults of links and switches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from softmrc.errors import UsageError
from softmrc.sim.config import FAULT_KINDS, Fault
from softmrc.sim.fabric import Fabric

__all__ = ["fault_arrays"]

_DIRECTIONS = {"both": 3, "up": 1, "down": 2}


def fault_arrays(faults: Iterable[Fault], fabric: Fabric) -> dict[str, Any]:
    """The faults as the core takes them; a target of several links becomes one fault of each.

    Raises:
        UsageError: a target that this fabric does not have, or that its kind cannot strike.
    """
    rows: list[tuple[int, int, int, int, float]] = []

    def put(at_ns: int, kind: str, target: int, direction: str, value: float) -> None:
        rows.append((at_ns, FAULT_KINDS.index(kind), _DIRECTIONS[direction], target, value))

    for f in faults:
        if f.kind == "switch_reboot":
            node = fabric.switch(f.target)
            heal = f.at_ns + int(f.value)
            put(f.at_ns, "switch_down", node, "both", 0)
            put(heal, "switch_up", node, "both", 0)
            for link in fabric.links_of(f.target):
                put(f.at_ns, "link_down", link, "both", 0)
                put(heal, "link_up", link, "both", 0)
        elif f.kind in ("switch_down", "switch_up"):
            put(f.at_ns, f.kind, fabric.switch(f.target), "both", 0)
        else:
            links = fabric.links_of(f.target)
            if f.kind in ("port_down", "port_up") and any(
                int(fabric.link_a[x]) >= fabric.hosts for x in links
            ):
                raise UsageError(
                    f"{f.kind} {f.target}: a port is a host's, for instance h0.p1; between switches it is link_down"
                )
            for link in links:
                put(f.at_ns, f.kind, link, f.direction, f.value)
    columns = list(zip(*rows, strict=True)) if rows else [(), (), (), (), ()]
    types = (np.int64, np.uint8, np.uint8, np.uint32, np.float64)
    names = ("at_ns", "kind", "directions", "target", "value")
    return {n: np.array(c, dtype=t) for n, c, t in zip(names, columns, types, strict=True)}
