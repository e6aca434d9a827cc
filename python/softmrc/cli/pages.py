"""Large pages for the memory of the simulator.

A run walks over all of its memory once a window, and a good part of the time goes into looking addresses up. Only the C
library can do something about it, and only when a process starts; so commands that simulate start themselves once more.
"""

from __future__ import annotations

import os
import platform
import sys

__all__ = ["use_huge_pages"]

COMMANDS = ("sim", "paper")
VARIABLE, SETTING = "GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"


def wants_huge_pages(arguments: list[str], environment: dict[str, str]) -> bool:
    """Whether this command simulates, and nobody has said anything about the allocator yet."""
    simulates = arguments[:1] in [[c] for c in COMMANDS] or arguments[:2] == ["bench", "sim"]
    return simulates and VARIABLE not in environment and platform.libc_ver()[0] == "glibc"


def use_huge_pages() -> None:
    """Start the command again with large pages where that helps; returns if it does not, or cannot be done."""
    if not wants_huge_pages(sys.argv[1:], dict(os.environ)):
        return
    try:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, VARIABLE: SETTING})
    except OSError:
        return
