"""Labs from files: the simulator's [fabric] table, and a [lab] table for what only a lab has.

[fabric]                     # as `softmrc sim` reads it
hosts = 8
planes = 4
hosts_per_t0 = 4
t1_per_plane = 4
host_gbps = 0.2

[lab]                        # any field of LabSpec, and "rate" and "fabric_rate" in Mbit/s
mtu = 9000
rate_mbps = 200

Other tables of a scenario are left alone, delays too: this kernel has no netem. A file with [[link]] tables is a fabric
made by hand.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from softmrc.errors import UsageError
from softmrc.lab.spec import LabSpec

__all__ = ["read_spec"]

# Field of the simulator's Clos: field of LabSpec.
_SAME = {
    "hosts": "hosts", "planes": "planes", "hosts_per_t0": "hosts_per_t0", "t1_per_plane": "t1", "pods": "pods",
    "t2_per_plane": "t2",
}  # fmt: skip
_DELAYS = {"host_link_ns", "t0_t1_ns", "t1_t2_ns", "switch_ns", "nic_ns"}
_OTHERS = {"tiers", "t1_per_pod", "host_gbps", "t0_t1_gbps", "t1_t2_gbps", "file"}
_BEYOND = 40_000_000_000
"""A host's rate above which no lab on one machine is near: rates are then taken as proportions of the default."""


def read_spec(file: Path, **changes: Any) -> LabSpec:
    """Read a lab.

    Args:
        file: TOML.
        changes: fields of `LabSpec` that go before the file's.

    Raises:
        UsageError: the file cannot be read or says something unknown or impossible; names it and the key.
    """
    data = _load(file)
    try:
        fabric = data.get("fabric", data if "link" in data else None)
        if not isinstance(fabric, Mapping):
            raise UsageError("there is no [fabric] table")
        if isinstance(fabric.get("file"), str):
            given = _graph(_load(file.parent / fabric["file"]))
        else:
            given = _graph(fabric) if "link" in fabric else _clos(fabric)
        given |= _own(data.get("lab", {}))
        return LabSpec(**(given | changes))
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None
    except TypeError as error:
        raise UsageError(f"{file}: a value is of the wrong type ({error})") from None


def _load(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {error}") from None


def _clos(fabric: Mapping[str, Any]) -> dict[str, Any]:
    if unknown := set(fabric) - set(_SAME) - _DELAYS - _OTHERS:
        raise UsageError(
            f"[fabric] has no {', '.join(sorted(unknown))}; known: {', '.join(sorted(_SAME))}, ..."
        )
    given = {ours: fabric[theirs] for theirs, ours in _SAME.items() if theirs in fabric}
    if "hosts" not in given:
        raise UsageError("fabric.hosts is missing")
    # The simulator's defaults, where they differ from a lab's.
    given.setdefault("planes", 8)
    given.setdefault("hosts_per_t0", 256)
    given.setdefault("t1", 256)
    given["t0"] = -(-given["hosts"] // given["hosts_per_t0"])
    if fabric.get("tiers", 2) == 3:
        given["t1"] = given.get("pods", 1) * int(fabric.get("t1_per_pod", 0))
    else:
        given["t2"] = 0
    return given | _rates(fabric.get("host_gbps"), fabric.get("t0_t1_gbps"))


def _rates(host: float | None, up: float | None) -> dict[str, Any]:
    """Rates as they are, or in proportion to the default where no machine forwards that much."""
    given: dict[str, Any] = {}
    base = 100.0 if host is None else float(host)
    default = LabSpec.rate_bps or 0
    scale = 1e9 if base * 1e9 <= _BEYOND else default / base
    given["rate_bps"] = round(base * scale)
    if up is not None:
        given["fabric_rate_bps"] = round(float(up) * scale)
    return given


def _graph(data: Mapping[str, Any]) -> dict[str, Any]:
    links = data.get("link")
    if not isinstance(links, list) or not links or not all(isinstance(x, Mapping) for x in links):
        raise UsageError("a fabric made by hand has [[link]] tables")
    try:
        pairs = tuple((str(x["low"]), str(x["high"])) for x in links)
    except KeyError as error:
        raise UsageError(f"a [[link]] has low and high; {error} is missing") from None
    rates = {
        kind: {
            float(x["gbps"])
            for x in links
            if "gbps" in x and str(x["low"]).startswith("h") == (kind == "host")
        }
        for kind in ("host", "fabric")
    }
    for kind, found in rates.items():
        if len(found) > 1:
            raise UsageError(f"{kind} links of different rates: a lab has one rate for each kind")
    if not isinstance(data.get("hosts"), int):
        raise UsageError("hosts is missing")
    host, up = (next(iter(rates[kind]), None) for kind in ("host", "fabric"))
    return {"links": pairs, "hosts": data["hosts"], "planes": data.get("planes", 1), **_rates(host, up)}


def _own(table: Any) -> dict[str, Any]:
    if not isinstance(table, Mapping):
        raise UsageError("[lab] is a table")
    known = {f.name for f in fields(LabSpec)} - set(_SAME.values()) - {"links", "t0"}
    given: dict[str, Any] = {}
    for key, value in table.items():
        if key in ("rate_mbps", "fabric_rate_mbps"):
            given[key.replace("mbps", "bps")] = round(float(value) * 1e6)
        elif key in known:
            given[key] = value
        else:
            raise UsageError(
                f"[lab] has no {key}; known: rate_mbps, fabric_rate_mbps, {', '.join(sorted(known))}"
            )
    return given
