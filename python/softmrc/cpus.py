"""Which CPUs a thread is kept on: as people write them, and those of the NUMA node an interface hangs on.

Decides nothing by itself: nothing is pinned unless somebody asks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from softmrc.errors import UsageError

__all__ = ["Pinned", "cpu_list", "node_of", "numa_nodes", "parse_cpus", "wanted_cpus"]

_NET = Path("/sys/class/net")
_NODES = Path("/sys/devices/system/node")
_PART = re.compile(r"^(\d{1,5})(?:-(\d{1,5}))?$", re.ASCII)
_MOST = 8192
"""CPUs that Linux can be built for."""


def parse_cpus(text: str) -> tuple[int, ...]:
    """Return the CPUs of a list like "0-3,8", each once and in order.

    Raises:
        UsageError: no such list.
    """
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.match(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last >= _MOST:
            raise UsageError(f"cpus is a list like 0-3,8 with numbers below {_MOST}, not {text!r}")
        found |= set(range(first, last + 1))
    return tuple(sorted(found))


def cpu_list(cpus: Sequence[int]) -> str:
    """Return CPUs the way `parse_cpus` reads them: "0-3,8"; "" for none."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _line(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def numa_nodes() -> dict[int, tuple[int, ...]]:
    """Return the CPUs of each NUMA node; empty where the kernel names no nodes."""
    found = {}
    for place in _NODES.glob("node[0-9]*"):
        if text := _line(place / "cpulist"):
            found[int(place.name.removeprefix("node"))] = parse_cpus(text)
    return dict(sorted(found.items()))


def node_of(interface: str) -> int | None:
    """Return the NUMA node an interface hangs on; None: it is no device of one, or nobody knows."""
    text = _line(_NET / interface / "device" / "numa_node")
    return int(text) if text.isascii() and text.isdigit() else None


def wanted_cpus(cpus: str | Sequence[int] | None, numa: str | None) -> tuple[int, ...]:
    """Return the CPUs that were asked for, in order; none: nothing was.

    Args:
        cpus: a list as `parse_cpus` reads it, or numbers.
        numa: an interface: the CPUs of its node, as far as this process may use them.

    Raises:
        UsageError: both are given, a CPU is not among those this process may use, or the node is unknown.
    """
    if cpus is not None and numa is not None:
        raise UsageError("cpus and numa both say where to run: give one of them")
    allowed = os.sched_getaffinity(0)
    if numa is not None:
        return _of_node(numa, allowed)
    if cpus is None:
        return ()
    wanted = parse_cpus(cpus if isinstance(cpus, str) else ",".join(str(c) for c in cpus))
    if missing := sorted(set(wanted) - allowed):
        raise UsageError(
            f"CPU {cpu_list(missing)} is not among those this process may use: {cpu_list(sorted(allowed))}"
        )
    return wanted


def _of_node(interface: str, allowed: set[int]) -> tuple[int, ...]:
    if not interface or "/" in interface or not (_NET / interface).exists():
        there = ", ".join(sorted(p.name for p in _NET.iterdir())) if _NET.is_dir() else "none"
        raise UsageError(f"numa names an interface, and {interface!r} is none here: {there}")
    node = node_of(interface)
    cpus = numa_nodes().get(node) if node is not None else None
    if cpus is None:
        raise UsageError(
            f"nobody knows which NUMA node {interface} hangs on ({_NET / interface}/device/numa_node): it is "
            "virtual, or the host has no nodes; name CPUs instead (cpus)"
        )
    usable = tuple(c for c in cpus if c in allowed)
    if not usable:
        raise UsageError(
            f"{interface} hangs on NUMA node {node} with CPUs {cpu_list(cpus)}, and this process may use none of them: "
            f"{cpu_list(sorted(allowed))}"
        )
    return usable


class Pinned:
    """Keeps the calling thread on CPUs until `release`."""

    def __init__(self, cpus: Sequence[int]) -> None:
        """Move there; no CPU: stay where the thread is.

        Raises:
            OSError: the system refused.
        """
        self._before = os.sched_getaffinity(0) if cpus else None
        if cpus:
            os.sched_setaffinity(0, cpus)

    def release(self) -> None:
        """Let the same thread go where it might before. Idempotent."""
        before, self._before = self._before, None
        if before is not None:
            os.sched_setaffinity(0, before)
