"""All that stands in a lab's namespaces, written down so that equal states are equal.

Links, addresses, neighbours, routes, queues, filters, BPF programs and nftables rules, without what differs from run to
run: indexes, handles, identifiers, counters, times. What a fault did and healing did not undo shows as a difference.
"""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from softmrc.netns.space import tell

if TYPE_CHECKING:
    from softmrc.lab.lab import Lab

__all__ = ["differences", "snapshot"]

_PARTS: dict[str, tuple[str, ...]] = {
    "links": ("ip", "-j", "-d", "link", "show"),
    "addresses": ("ip", "-j", "addr", "show"),
    "neighbours": ("ip", "-j", "-6", "neigh", "show", "nud", "permanent"),
    "routes": ("ip", "-j", "-6", "route", "show", "table", "all"),
    "qdiscs": ("tc", "-j", "qdisc", "show"),
    "nft": ("nft", "-j", "list", "ruleset"),
}
_PER_DEVICE: dict[str, tuple[str, ...]] = {
    "classes": ("tc", "-j", "class", "show", "dev"),
    "filters": ("tc", "-j", "filter", "show", "dev"),
    "ingress": ("tc", "-j", "filter", "show", "ingress", "dev"),
    "egress": ("tc", "-j", "filter", "show", "egress", "dev"),
}
# What says nothing about the state.
_NOISE = {
    "ifindex", "link_index", "link_netnsid", "link_netns", "link", "id", "map_ids", "jited",
    "packets", "bytes", "stats", "stats64", "gso_max_size", "gro_max_size", "backlog", "drops", "overlimits",
    "requeues", "qlen", "used", "valid_life_time", "preferred_life_time", "expires", "metainfo", "inet6_addr_gen_mode",
    "load_time", "uid", "not_in_hw", "parentdev", "cookie",
}  # fmt: skip


def snapshot(lab: Lab, nodes: list[str] | None = None) -> dict[str, dict[str, Any]]:
    """Return the state of nodes (None: all), by node and part.

    Raises:
        MrcError: a namespace is gone or the system refused to tell.
    """
    chosen = lab.nodes if nodes is None else nodes
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(chosen, pool.map(lambda n: _of(lab.namespace(n)), chosen), strict=True))


def differences(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> list[str]:
    """Return what is in one state and not in the other, a line each; empty: they are equal."""
    lines = []
    for node in sorted(before.keys() | after.keys()):
        old, new = before.get(node, {}), after.get(node, {})
        for part in sorted(old.keys() | new.keys()):
            was, now = _lines(old.get(part, [])), _lines(new.get(part, []))
            lines += [f"{node}: {part}: gone: {text}" for text in _minus(was, now)]
            lines += [f"{node}: {part}: new: {text}" for text in _minus(now, was)]
    return lines


def _lines(items: list[Any]) -> list[str]:
    return [json.dumps(item, sort_keys=True) for item in items]


def _minus(some: list[str], others: list[str]) -> list[str]:
    left = list(others)
    found = []
    for text in some:
        if text in left:
            left.remove(text)
        else:
            found.append(text)
    return found


def _of(space: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part, command in _PARTS.items():
        if command[0] == "nft" and shutil.which("nft") is None:
            continue
        found[part] = _clean_all(_read(space, *command))
    devices = [link["ifname"] for link in found["links"] if link["ifname"] != "lo"]
    has_queues = {q.get("dev") for q in found["qdiscs"] if q.get("kind") != "noqueue"}
    for part, command in _PER_DEVICE.items():
        found[part] = [
            {"dev": dev, **item}
            for dev in devices
            if dev in has_queues
            for item in _clean_all(_read(space, *command, dev))
        ]
    return found


def _read(space: str, *command: str) -> Any:
    if command[0] == "nft":
        return json.loads(tell("ip", "netns", "exec", space, *command) or "{}").get("nftables", [])
    text = tell(command[0], "-n", space, *command[1:])
    try:
        return json.loads(text or "[]")
    except ValueError:  # tc 6.1 tells classes in words only
        return [{"words": line.strip()} for line in text.splitlines() if line.strip()]


def _clean_all(items: Any) -> list[Any]:
    cleaned = [_clean(item) for item in items if item]
    return sorted(cleaned, key=lambda item: json.dumps(item, sort_keys=True))


def _clean(item: Any) -> Any:
    if isinstance(item, dict):
        # Handles of queues are chosen, texts; those of nftables are counted, numbers.
        noise = _NOISE | {key for key in ("handle",) if isinstance(item.get(key), int)}
        return {key: _clean(value) for key, value in item.items() if key not in noise}
    if isinstance(item, list):
        return [_clean(value) for value in item]
    return item
