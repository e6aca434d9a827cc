"""What this host lacks for namespaces of its own; nothing is created to find out."""

from __future__ import annotations

import importlib.util
import os
import shutil
from functools import cache
from pathlib import Path

from softmrc.errors import UsageError

__all__ = ["missing", "require"]

_TOOLS = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables"}
# Capabilities by number (linux/capability.h): namespaces need the second, everything inside them the first.
_CAPABILITIES = {12: "CAP_NET_ADMIN", 21: "CAP_SYS_ADMIN"}


def _effective_capabilities() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


@cache
def missing() -> tuple[str, ...]:
    """Return what is missing, in words fit for a skip reason; empty: namespaces can be made."""
    lacks = []
    held = _effective_capabilities()
    if os.geteuid() != 0:
        lacks.append("needs root")
    elif absent := [name for number, name in _CAPABILITIES.items() if not held >> number & 1]:
        lacks.append(f"needs root with {' and '.join(absent)}")
    if not Path("/proc/self/ns/net").exists():
        lacks.append("needs network namespaces (CONFIG_NET_NS)")
    for tool, package in _TOOLS.items():
        if shutil.which(tool) is None:
            lacks.append(f"needs {tool} ({package})")
    if importlib.util.find_spec("pyroute2") is None:
        lacks.append("needs pyroute2 (pip install 'softmrc[bench]')")
    return tuple(lacks)


def require() -> None:
    """Do nothing on a host where namespaces can be made.

    Raises:
        UsageError: they cannot; the text says what is missing.
    """
    if lacks := missing():
        raise UsageError("network namespaces: " + ", ".join(lacks))
