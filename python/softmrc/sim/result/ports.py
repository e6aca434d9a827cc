"""Names of very many directed links at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from softmrc.sim.fabric import Fabric

__all__ = ["port_names"]


def port_names(fabric: Fabric, ports: NDArray[np.int64]) -> Any:
    """Return what `Fabric.port_name` says of each port, as a column of text; millions take seconds.

    Args:
        fabric: whose links they are.
        ports: directed links, `2 * link` upwards and `2 * link + 1` downwards.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    link = ports // 2
    low, high = fabric.link_a[link].astype(np.int64), fabric.link_b[link].astype(np.int64)
    above = high - fabric.hosts
    of_host = low < fabric.hosts
    below = np.where(of_host, 0, low - fabric.hosts)

    def text(values: NDArray[Any]) -> Any:
        return pc.cast(pa.array(values.astype(np.int64)), pa.string())

    def joined(*parts: Any) -> Any:
        return pc.binary_join_element_wise(*parts, "")

    plane = text(fabric.link_plane[link])
    way = pa.array(np.array([".up", ".down"])[ports % 2])
    host_link = joined("h", text(low), ".p", plane, way)
    lower = joined("p", plane, ".t", text(fabric.switch_tier[below]), "-", text(fabric.switch_index[below]))
    upper = joined(".t", text(fabric.switch_tier[above]), "-", text(fabric.switch_index[above]), way)
    return pc.if_else(pa.array(of_host), host_link, joined(lower, upper))
