"""Hand-made fabrics from a TOML file: hosts, switches by tier and plane, links between neighbouring tiers.

hosts = 2
planes = 1
[[switch]]
tier = 0
[[link]]
low = "h0"
high = "p1.t0-0"
gbps = 100.0
delay_ns = 800
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softmrc.errors import UsageError
from softmrc.sim.config import Graph, GraphLink, GraphSwitch
from softmrc.sim.table import check_keys, mapping, read_table

__all__ = ["load_toml", "read_graph"]


@dataclass(frozen=True, kw_only=True)
class _Switches:
    """A table [[switch]]: `count` switches of a tier and plane, the first of them number `index`."""

    tier: int
    plane: int = 1
    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.count <= 1 << 14:
            raise UsageError(f"count {self.count} is outside 1..{1 << 14}")


def load_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file.

    Raises:
        UsageError: it cannot be read; TOML's own message tells the line.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"cannot read {path}: {e}") from e
    except tomllib.TOMLDecodeError as e:
        raise UsageError(f"{path}: {e}") from None


def read_graph(path: Path) -> Graph:
    """Read a hand-made fabric.

    Raises:
        UsageError: it cannot be read, or is no fabric; names the file and the table.
    """
    data = load_toml(path)
    try:
        check_keys(data, ("hosts", "planes", "switch", "link"), "")
        switches: list[GraphSwitch] = []
        for i, table in enumerate(_tables(data, "switch")):
            row = read_table(_Switches, table, f"switch.{i}")
            switches += [GraphSwitch(row.tier, row.plane, row.index + k) for k in range(row.count)]
        links = [read_table(GraphLink, table, f"link.{i}") for i, table in enumerate(_tables(data, "link"))]
        if not isinstance(data.get("hosts"), int) or not isinstance(data.get("planes", 1), int):
            raise UsageError("hosts (and planes, if given) is a whole number")
        return Graph(hosts=data["hosts"], switches=switches, links=links, planes=data.get("planes", 1))
    except UsageError as e:
        raise UsageError(f"{path}: {e}") from None


def _tables(data: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = data.get(key)
    if not isinstance(found, list) or not found:
        raise UsageError(f"a fabric has [[{key}]] tables, at least one")
    return [mapping(t, f"{key}.{i}") for i, t in enumerate(found)]
